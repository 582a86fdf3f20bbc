//! Sections: tables with a fixed set of keys (declared by the macros of `declare`).

use serde_json::Value as Json;

use super::diagnostic::Faults;
use super::form::{self, At, Form, Object, either};
use super::reader::TableReader;
use super::tree::{Node, Value};

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
