//! Sections: tables with a fixed set of keys.
//!
//! The macro `record!` declares a struct and, with the same words, how each field is written, its
//! default and its meaning; `tagged!` does so for an enum whose `kind` chooses the keys, `names!`
//! for one that is a mere name. From a declaration come the type, the reader, the printer, the JSON
//! Schema and the reference table.

use serde_json::{Value as Json, json};

use super::diagnostic::{Diagnostic, Faults, Span};
use super::form::{self, At, Form, Object, either};
use super::suggest;
use super::tree::{Entry, Node, Table, Value};

/// Key that chooses the variant of a tagged section.
pub(super) const TAG: &str = "kind";

/// One key of a section, for schema, reference and suggestions.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) doc: String,
    pub(super) presence: Presence,
    pub(super) form: Box<dyn form::Describe>,
}

/// Whether a key must be there.
pub(super) enum Presence {
    /// It must.
    Required,
    /// It has a default.
    Default(Json),
    /// Its default follows from other keys.
    Derived,
    /// Exactly one of the keys of the section that say so must be there.
    OneOf,
}

/// The keys of a section.
pub(super) enum Shape {
    /// Always the same.
    Keys(Vec<Key>),
    /// Chosen by `kind`.
    Kinds {
        default: Option<&'static str>,
        kinds: Vec<Kind>,
    },
}

/// One variant of a tagged section.
pub(super) struct Kind {
    pub(super) tag: &'static str,
    pub(super) doc: String,
    pub(super) keys: Vec<Key>,
}

impl Shape {
    /// Whether some key must be there.
    pub(super) fn requires(&self) -> bool {
        let requires = |keys: &[Key]| {
            let must = |key: &Key| matches!(key.presence, Presence::Required | Presence::OneOf);
            keys.iter().any(must)
        };
        match self {
            Shape::Keys(keys) => requires(keys),
            Shape::Kinds { default, kinds } => default.is_none_or(|default| {
                let kind = kinds.iter().find(|kind| kind.tag == default);
                kind.is_none_or(|kind| requires(&kind.keys))
            }),
        }
    }

    /// All keys, whatever the variant, with the variant.
    pub(super) fn every_key(&self) -> Vec<(Option<&'static str>, &Key)> {
        match self {
            Shape::Keys(keys) => keys.iter().map(|key| (None, key)).collect(),
            Shape::Kinds { kinds, .. } => kinds
                .iter()
                .flat_map(|kind| kind.keys.iter().map(|key| (Some(kind.tag), key)))
                .collect(),
        }
    }
}

/// A table with a fixed set of keys.
pub(super) trait Section: Sized + 'static {
    /// Takes all keys; reports what is wrong with them. Unknown and missing keys are reported by
    /// the reader's `finish`.
    fn read(table: &mut TableReader<'_>) -> Option<Self>;

    /// Puts all keys with their values.
    fn write(&self) -> Object;

    /// The keys.
    fn shape() -> Shape;
}

/// A key that is needed and absent.
struct Missing {
    name: &'static str,
    takes: String,
}

/// Takes keys out of a table and remembers which there are.
pub(super) struct TableReader<'a> {
    table: &'a Table,
    /// Dotted path of the table; empty for the whole config.
    path: String,
    /// The table's header or braces.
    span: Span,
    faults: &'a mut Faults,
    known: Vec<&'static str>,
    missing: Vec<Missing>,
    /// Set when the kind is wrong, and so it is not known which keys belong here.
    lost: bool,
}

impl<'a> TableReader<'a> {
    /// A reader of a table.
    pub(super) fn new(
        table: &'a Table,
        path: impl Into<String>,
        span: Span,
        faults: &'a mut Faults,
    ) -> Self {
        Self {
            table,
            path: path.into(),
            span,
            faults,
            known: Vec::new(),
            missing: Vec::new(),
            lost: false,
        }
    }

    /// The entry of a key, which is known from now on.
    pub(super) fn entry(&mut self, name: &'static str) -> Option<&'a Entry> {
        self.known.push(name);
        self.table.get(name)
    }

    /// The place of a key's value, to read it at.
    pub(super) fn at(&mut self, name: &str) -> At<'_> {
        let path = if self.path.is_empty() {
            name.to_string()
        } else {
            format!("{}.{name}", self.path)
        };
        At {
            path,
            faults: self.faults,
        }
    }

    /// Notes that a key is needed and absent.
    pub(super) fn miss(&mut self, name: &'static str, takes: String) {
        self.missing.push(Missing { name, takes });
    }

    /// Reports a fault of the whole table.
    pub(super) fn fault(&mut self, fault: impl FnOnce(&Span) -> Diagnostic) {
        let fault = fault(&self.span);
        self.faults.push(fault);
    }

    /// Reads the section inside this table that is written with no key at all.
    pub(super) fn empty<S: Section>(&mut self, name: &str) -> Option<S> {
        let path = self.at(name).path;
        let empty = Table::default();
        S::read(&mut TableReader::new(
            &empty,
            path,
            self.span.clone(),
            self.faults,
        ))
    }

    /// Reads `kind`.
    pub(super) fn tag(
        &mut self,
        tags: &[&'static str],
        default: Option<&'static str>,
    ) -> Option<&'static str> {
        let takes = either(tags.iter().map(|tag| format!("\"{tag}\"")));
        let Some(entry) = self.entry(TAG) else {
            if default.is_none() {
                self.miss(TAG, takes);
                self.lost = true;
            }
            return default;
        };
        let text = match &entry.node.value {
            Value::Text { text, .. } => text.as_str(),
            _ => "",
        };
        let tag = tags.iter().copied().find(|tag| *tag == text);
        if tag.is_none() {
            self.lost = true;
            let help = suggest::nearest(text, tags.iter().copied())
                .map(|tag| format!("did you mean \"{tag}\"?"));
            return self.at(TAG).refuse_with(&entry.node, &takes, help);
        }
        tag
    }

    /// Reports unknown and missing keys.
    pub(super) fn finish(self, shape: fn() -> Shape) {
        let name = |key: &str| {
            if self.path.is_empty() {
                format!("`{key}`")
            } else {
                format!("`{}.{key}`", self.path)
            }
        };
        // A misspelt key is one fault, not an unknown and a missing one.
        let mut meant = Vec::new();
        for entry in &self.table.entries {
            let key = entry.key.as_str();
            if self.lost || self.known.contains(&key) || self.faults.is_full() {
                continue;
            }
            if self.path.is_empty() && super::experiment::LATER.contains(&key) {
                let message = format!("`[{key}]` is not supported by this version");
                let fault = Diagnostic::new(message, &entry.key_span);
                self.faults.push(fault.help("remove it"));
                continue;
            }
            let free = |name: &&'static str| self.table.get(name).is_none();
            let near = suggest::nearest(key, self.known.iter().copied().filter(free));
            meant.extend(near);
            let near = near.or_else(|| suggest::nearest(key, self.known.iter().copied()));
            let shown = key.escape_debug().to_string();
            let message = if self.path.is_empty() && matches!(entry.node.value, Value::Table(_)) {
                format!("there is no section `[{shown}]`")
            } else {
                format!("there is no key {}", name(&shown))
            };
            let mut fault = Diagnostic::new(message, &entry.key_span);
            let help = near
                .map(|near| format!("did you mean `{near}`?"))
                .or_else(|| other_kinds(&shape(), key))
                .or_else(|| super::experiment::home_of(key));
            let all = || format!("the keys here are {}", listed(&self.known));
            fault = fault.help(help.unwrap_or_else(all));
            self.faults.push(fault);
        }
        for missing in &self.missing {
            if !meant.contains(&missing.name) {
                let shape = shape();
                let keys = shape.every_key();
                let key = keys.iter().find(|(_, key)| key.name == missing.name);
                let section = key.is_some_and(|(_, key)| key.form.shape().is_some());
                let shown = if self.path.is_empty() && section {
                    format!("section `[{}]`", missing.name)
                } else {
                    name(missing.name)
                };
                let fault = Diagnostic::new(format!("{shown} is missing"), &self.span);
                self.faults
                    .push(fault.help(format!("it takes {}", missing.takes)));
            }
        }
    }
}

/// Which other kinds of this section have the key.
fn other_kinds(shape: &Shape, name: &str) -> Option<String> {
    let kinds = shape.every_key();
    let tags: Vec<String> = kinds
        .iter()
        .filter(|(_, key)| key.name == name)
        .filter_map(|(tag, _)| tag.map(|tag| format!("\"{tag}\"")))
        .collect();
    (!tags.is_empty()).then(|| format!("it is a key of kind {}", either(tags)))
}

/// Names in a row, each in backquotes.
fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// The form of a section: a table.
pub(super) struct SectionForm<S>(std::marker::PhantomData<S>);

/// Takes a table with the keys of a section.
pub(super) fn section<S: Section>() -> SectionForm<S> {
    SectionForm(std::marker::PhantomData)
}

impl<S: Section> Form for SectionForm<S> {
    type Value = S;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<S> {
        let Value::Table(table) = &node.value else {
            return at.refuse(node, &self.takes());
        };
        let mut reader = TableReader::new(table, at.path.clone(), node.span.clone(), at.faults);
        let value = S::read(&mut reader);
        reader.finish(S::shape);
        value
    }

    fn write(&self, value: &S) -> Json {
        Json::Object(value.write())
    }

    fn schema(&self) -> Json {
        super::schema::of_shape(&S::shape())
    }

    fn takes(&self) -> String {
        let shape = S::shape();
        let (needed, one_of) = match &shape {
            Shape::Keys(keys) => {
                let with = |wanted: fn(&Presence) -> bool| {
                    let keys = keys.iter().filter(|key| wanted(&key.presence));
                    keys.map(|key| key.name).collect::<Vec<_>>()
                };
                (
                    with(|presence| matches!(presence, Presence::Required)),
                    with(|presence| matches!(presence, Presence::OneOf)),
                )
            }
            Shape::Kinds { default: None, .. } => (vec![TAG], Vec::new()),
            Shape::Kinds { .. } => (Vec::new(), Vec::new()),
        };
        let mut needed: Vec<String> = needed.iter().map(|name| format!("`{name}`")).collect();
        if !one_of.is_empty() {
            needed.push(either(one_of.iter().map(|name| format!("`{name}`"))));
        }
        if needed.is_empty() {
            "a table".to_string()
        } else {
            format!("a table with at least {}", needed.join(", "))
        }
    }

    fn shape(&self) -> Option<Shape> {
        Some(S::shape())
    }

    fn absent(&self, name: &'static str, table: &mut TableReader<'_>) -> Option<S> {
        if S::shape().requires() {
            table.miss(name, self.takes());
            None
        } else {
            table.empty(name)
        }
    }
}

/// Reads a section out of JSON in the user's spelling; contradictions with other sections are not
/// its concern.
pub(super) fn from_json<S: Section>(json: &Json) -> Result<S, String> {
    let node = Node::from_json(json, 0).ok_or("nested too deep")?;
    let mut faults = Faults::default();
    let mut at = At {
        path: "value".to_string(),
        faults: &mut faults,
    };
    let value = section::<S>().read(&node, &mut at);
    match value {
        Some(value) if faults.is_empty() => Ok(value),
        _ => Err(faults.messages().join("; ")),
    }
}

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

        $crate::config::section::serialize_as_written!($name);

        impl $crate::config::section::Section for $name {
            fn read(table: &mut $crate::config::section::TableReader<'_>) -> Option<Self> {
                $(let $field: Option<$type> = $crate::config::section::take!(
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
                $(keys.extend($crate::config::section::keys!(
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

        $crate::config::section::serialize_as_written!($name);

        impl $crate::config::section::Section for $name {
            fn read(table: &mut $crate::config::section::TableReader<'_>) -> Option<Self> {
                let default: Option<&'static str> = None;
                $(let default = default.or(Some($default_tag));)?
                match table.tag(&[$($tag),*], default)? {
                    $($tag => {
                        $($(let $field: Option<$type> = $crate::config::section::take!(
                            table, $field, $form, [$($default)?] [$($derived)?]);)*)?
                        Some(Self::$variant { $($($field: $field?,)*)? })
                    })*
                    _ => None,
                }
            }

            fn write(&self) -> $crate::config::form::Object {
                match self {
                    $(Self::$variant { $($($field,)*)? } => {
                        #[allow(unused_mut)]
                        let mut out = $crate::config::section::tagged_object($tag);
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
                    #[allow(unused_mut)]
                    let mut keys = Vec::new();
                    $($(keys.extend($crate::config::section::keys!(
                        concat!($($field_doc, "\n"),*), $field, $type, $form,
                        [$($default)?] [$($derived)?]));)*)?
                    kinds.push($crate::config::section::Kind {
                        tag: $tag,
                        doc: $crate::config::section::tidy(concat!($($variant_doc, "\n"),*)),
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

        $crate::config::section::serialize_as_written!($name);

        impl $crate::config::section::Section for $name {
            fn read(table: &mut $crate::config::section::TableReader<'_>) -> Option<Self> {
                match table.tag(&[$($tag),*], None)? {
                    $($tag => <$record as $crate::config::section::Section>::read(table)
                        .map(Self::$variant),)*
                    _ => None,
                }
            }

            fn write(&self) -> $crate::config::form::Object {
                match self {
                    $(Self::$variant(record) => {
                        let mut out = $crate::config::section::tagged_object($tag);
                        out.extend($crate::config::section::Section::write(record));
                        out
                    })*
                }
            }

            fn shape() -> $crate::config::section::Shape {
                let kinds = vec![$($crate::config::section::Kind {
                    tag: $tag,
                    doc: $crate::config::section::tidy(concat!($($variant_doc, "\n"),*)),
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
        $crate::config::section::keys!(@ $doc, $field, $type, $form, |_| {
            $crate::config::section::Presence::Required
        })
    };
    ($doc:expr, $field:ident, $type:ty, $form:expr, [$default:expr] []) => {
        $crate::config::section::keys!(@ $doc, $field, $type, $form, |form| {
            let spelled = $crate::config::form::Field::spell(form, &$default);
            $crate::config::section::Presence::Default(spelled)
        })
    };
    ($doc:expr, $field:ident, $type:ty, $form:expr, [] [$derived:expr]) => {
        $crate::config::section::keys!(@ $doc, $field, $type, $form, |_| {
            $crate::config::section::Presence::Derived
        })
    };
    (@ $doc:expr, $field:ident, $type:ty, $form:expr, $presence:expr) => {
        $crate::config::section::describe::<$type, _>(
            $form, stringify!($field), $doc, $presence)
    };
}

/// The keys of a field, from its declaration.
pub(super) fn describe<T, F: super::form::Field<Value = T>>(
    form: F,
    name: &'static str,
    doc: &str,
    presence: impl FnOnce(&F) -> Presence,
) -> Vec<Key> {
    let presence = presence(&form);
    form.keys(name, tidy(doc), presence)
}

pub(super) use {keys, names, record, serialize_as_written, tagged, tagged_records, take};
