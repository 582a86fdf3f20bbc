//! Declaring sections.
//!
//! The macro `record!` declares a struct and, with the same words, how each field is written, its
//! default and its meaning; `tagged!` does so for an enum whose `kind` chooses the keys,
//! `tagged_records!` where each kind is a struct of its own, `names!` for an enum that is a mere
//! name. From a declaration come the type, the reader, the printer, the JSON Schema and the
//! reference table.

use serde_json::json;

use super::form::{Field, Object};
use super::section::{Key, Presence, TAG};

/// A doc comment as one line of text.
pub(super) fn tidy(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The tagged object of a variant: `kind` first.
pub(super) fn tagged_object(tag: &str) -> Object {
    let mut object = Object::new();
    object.insert(TAG.to_string(), json!(tag));
    object
}

/// Declares a struct that is a section: `field: type => form, default value;` with `derived value`
/// where the default follows from fields above (each an `Option` there), or nothing where the key
/// is required.
macro_rules! record {
    ($(#[doc = $doc:literal])* $visible:vis struct $name:ident {
        $($(#[doc = $field_doc:literal])*
        $field:ident: $type:ty => $form:expr $(, default $default:expr)? $(, derived $derived:expr)?;)*
    }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        $visible struct $name {
            $($(#[doc = $field_doc])* $visible $field: $type,)*
        }

        $crate::config::declare::serialize_as_written!($name);

        impl $crate::config::section::Section for $name {
            fn read(table: &mut $crate::config::reader::TableReader<'_>) -> Option<Self> {
                $(let $field: Option<$type> = $crate::config::declare::take!(
                    table, $field, $form, [$($default)?] [$($derived)?]);)*
                Some(Self { $($field: $field?,)* })
            }

            fn write(&self) -> $crate::config::form::Object {
                let mut out = $crate::config::form::Object::new();
                $($crate::config::form::Field::put(
                    &$form, stringify!($field), &self.$field, &mut out);)*
                out
            }

            fn shape() -> $crate::config::section::Shape {
                let mut keys = Vec::new();
                $(keys.extend($crate::config::declare::keys!(
                    concat!($($field_doc, "\n"),*), $field, $type, $form,
                    [$($default)?] [$($derived)?]));)*
                $crate::config::section::Shape::Keys(keys)
            }
        }
    };
}

/// Declares an enum that is a section whose `kind` chooses the variant; fields as in `record!`.
/// `pub enum Name = "kind"` gives a default kind.
macro_rules! tagged {
    ($(#[doc = $doc:literal])* pub enum $name:ident $(= $default_tag:literal)? {
        $($(#[doc = $variant_doc:literal])* $variant:ident = $tag:literal $({
            $($(#[doc = $field_doc:literal])*
            $field:ident: $type:ty => $form:expr $(, default $default:expr)? $(, derived $derived:expr)?;)*
        })?)*
    }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[doc = $variant_doc])* $variant $({
                $($(#[doc = $field_doc])* $field: $type,)*
            })?,)*
        }

        $crate::config::declare::serialize_as_written!($name);

        impl $crate::config::section::Section for $name {
            fn read(table: &mut $crate::config::reader::TableReader<'_>) -> Option<Self> {
                let default: Option<&'static str> = None;
                $(let default = default.or(Some($default_tag));)?
                match table.tag(&[$($tag),*], default)? {
                    $($tag => {
                        $($(let $field: Option<$type> = $crate::config::declare::take!(
                            table, $field, $form, [$($default)?] [$($derived)?]);)*)?
                        Some(Self::$variant { $($($field: $field?,)*)? })
                    })*
                    _ => None,
                }
            }

            fn write(&self) -> $crate::config::form::Object {
                match self {
                    $(Self::$variant { $($($field,)*)? } => {
                        // A kind without keys of its own adds nothing; `expect` would fail for the others.
                        #[allow(unused_mut)]
                        let mut out = $crate::config::declare::tagged_object($tag);
                        $($($crate::config::form::Field::put(
                            &$form, stringify!($field), $field, &mut out);)*)?
                        out
                    })*
                }
            }

            fn shape() -> $crate::config::section::Shape {
                let default: Option<&'static str> = None;
                $(let default = default.or(Some($default_tag));)?
                let mut kinds = Vec::new();
                $(
                    // As above.
                    #[allow(unused_mut)]
                    let mut keys = Vec::new();
                    $($(keys.extend($crate::config::declare::keys!(
                        concat!($($field_doc, "\n"),*), $field, $type, $form,
                        [$($default)?] [$($derived)?]));)*)?
                    kinds.push($crate::config::section::Kind {
                        tag: $tag,
                        doc: $crate::config::declare::tidy(concat!($($variant_doc, "\n"),*)),
                        keys,
                    });
                )*
                $crate::config::section::Shape::Kinds { default, kinds }
            }
        }
    };
}

/// Declares an enum whose sections are structs of their own: `Variant(Struct) = "kind"`.
macro_rules! tagged_records {
    ($(#[doc = $doc:literal])* pub enum $name:ident {
        $($(#[doc = $variant_doc:literal])* $variant:ident($record:ty) = $tag:literal,)*
    }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[doc = $variant_doc])* $variant($record),)*
        }

        $crate::config::declare::serialize_as_written!($name);

        impl $crate::config::section::Section for $name {
            fn read(table: &mut $crate::config::reader::TableReader<'_>) -> Option<Self> {
                match table.tag(&[$($tag),*], None)? {
                    $($tag => <$record as $crate::config::section::Section>::read(table)
                        .map(Self::$variant),)*
                    _ => None,
                }
            }

            fn write(&self) -> $crate::config::form::Object {
                match self {
                    $(Self::$variant(record) => {
                        let mut out = $crate::config::declare::tagged_object($tag);
                        out.extend($crate::config::section::Section::write(record));
                        out
                    })*
                }
            }

            fn shape() -> $crate::config::section::Shape {
                let kinds = vec![$($crate::config::section::Kind {
                    tag: $tag,
                    doc: $crate::config::declare::tidy(concat!($($variant_doc, "\n"),*)),
                    keys: match <$record as $crate::config::section::Section>::shape() {
                        $crate::config::section::Shape::Keys(keys) => keys,
                        $crate::config::section::Shape::Kinds { .. } => Vec::new(),
                    },
                },)*];
                $crate::config::section::Shape::Kinds { default: None, kinds }
            }
        }
    };
}

/// Declares an enum whose values are written by name.
macro_rules! names {
    ($(#[doc = $doc:literal])* pub enum $name:ident {
        $($(#[doc = $variant_doc:literal])* $variant:ident = $text:literal,)*
    }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[doc = $variant_doc])* $variant,)*
        }

        impl $name {
            /// The name as written in a config.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl $crate::config::form::Named for $name {
            const ALL: &'static [$crate::config::form::NameOf<Self>] = &[
                $($crate::config::form::NameOf {
                    value: Self::$variant,
                    text: $text,
                    doc: concat!($($variant_doc, "\n"),*),
                },)*
            ];
        }
    };
}

/// Serializes a section as the user would write it, with every default.
macro_rules! serialize_as_written {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(
                    &$crate::config::section::Section::write(self),
                    serializer,
                )
            }
        }
    };
}

/// Takes one field out of a table.
macro_rules! take {
    ($table:ident, $field:ident, $form:expr, [] []) => {
        $crate::config::form::Field::take(&$form, stringify!($field), None, $table)
    };
    ($table:ident, $field:ident, $form:expr, [$default:expr] []) => {
        $crate::config::form::Field::take(&$form, stringify!($field), Some($default), $table)
    };
    ($table:ident, $field:ident, $form:expr, [] [$derived:expr]) => {
        $crate::config::form::Field::take(&$form, stringify!($field), Some($derived), $table)
    };
}

/// Describes the keys of one field.
macro_rules! keys {
    ($doc:expr, $field:ident, $type:ty, $form:expr, [] []) => {
        $crate::config::declare::keys!(@ $doc, $field, $type, $form, |_| {
            $crate::config::section::Presence::Required
        })
    };
    ($doc:expr, $field:ident, $type:ty, $form:expr, [$default:expr] []) => {
        $crate::config::declare::keys!(@ $doc, $field, $type, $form, |form| {
            let spelled = $crate::config::form::Field::spell(form, &$default);
            $crate::config::section::Presence::Default(spelled)
        })
    };
    ($doc:expr, $field:ident, $type:ty, $form:expr, [] [$derived:expr]) => {
        $crate::config::declare::keys!(@ $doc, $field, $type, $form, |_| {
            $crate::config::section::Presence::Derived
        })
    };
    (@ $doc:expr, $field:ident, $type:ty, $form:expr, $presence:expr) => {
        $crate::config::declare::describe::<$type, _>(
            $form, stringify!($field), $doc, $presence)
    };
}

/// The keys of a field, from its declaration.
pub(super) fn describe<T, F: Field<Value = T>>(
    form: F,
    name: &'static str,
    doc: &str,
    presence: impl FnOnce(&F) -> Presence,
) -> Vec<Key> {
    let presence = presence(&form);
    form.keys(name, tidy(doc), presence)
}

pub(super) use {keys, names, record, serialize_as_written, tagged, tagged_records, take};
