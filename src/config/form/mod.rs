//! How values are written: one form per kind of value.
//!
//! A form reads a value and refuses what is wrong with it, writes it back as the user would, and
//! says what it takes, for people and as JSON Schema. Parser, printer, schema and reference
//! therefore cannot disagree.

mod list;
mod number;
mod text;

use serde_json::{Map, Value as Json, json};

pub(super) use list::{List, list, optional, pair};
pub(super) use number::{Real, flag, number, only, real, whole};
pub(super) use text::{
    METRIC_PREFIX, NameOf, Named, Text, character, metric, name, names, names_except, path,
    path_or_empty, text, text_or_empty,
};

use super::diagnostic::{Diagnostic, Faults};
use super::reader::TableReader;
use super::section::{Key, Presence, Shape};
use super::tree::{Node, Value};

/// Values of the user's spelling, in order.
pub(super) type Object = Map<String, Json>;

/// Where a value is read, and where its faults go.
pub(super) struct At<'a> {
    /// Dotted path of the key.
    pub(super) path: String,
    /// Faults so far.
    pub(super) faults: &'a mut Faults,
}

impl At<'_> {
    /// Reports that the value is not what the key takes.
    pub(super) fn refuse<T>(&mut self, node: &Node, takes: &str) -> Option<T> {
        self.refuse_with(node, takes, None)
    }

    /// As [`At::refuse`], with what to do.
    pub(super) fn refuse_with<T>(
        &mut self,
        node: &Node,
        takes: &str,
        help: Option<String>,
    ) -> Option<T> {
        if !matches!(node.value, Value::Refused) {
            let message = format!("`{}` takes {takes}", self.path);
            let mut fault =
                Diagnostic::new(message, &node.span).label(format!("found {}", node.describe()));
            if let Some(help) = help {
                fault = fault.help(help);
            }
            self.faults.push(fault);
        }
        None
    }

    /// The place of a part of this value.
    pub(super) fn part(&mut self, part: &str) -> At<'_> {
        At {
            path: format!("{}{part}", self.path),
            faults: self.faults,
        }
    }
}

/// One kind of value.
pub(super) trait Form: 'static {
    /// What it becomes.
    type Value;

    /// Reads a value; reports what is wrong with it.
    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<Self::Value>;

    /// Writes a value so that [`Form::read`] gives it back.
    fn write(&self, value: &Self::Value) -> Json;

    /// JSON Schema of what is taken.
    fn schema(&self) -> Json;

    /// What is taken, in words that follow "takes".
    fn takes(&self) -> String;

    /// The keys inside, where the value is a table or a list of tables.
    fn shape(&self) -> Option<Shape> {
        None
    }

    /// What an absent key without a default means: a fault, by default.
    fn absent(&self, name: &'static str, table: &mut TableReader<'_>) -> Option<Self::Value> {
        table.miss(name, self.takes());
        None
    }
}

/// One field of a section, written with one key or several.
pub(super) trait Field {
    /// What it becomes.
    type Value;

    /// Takes the field out of a table.
    fn take(
        &self,
        name: &'static str,
        default: Option<Self::Value>,
        table: &mut TableReader<'_>,
    ) -> Option<Self::Value>;

    /// Puts the field into a table.
    fn put(&self, name: &'static str, value: &Self::Value, out: &mut Object);

    /// The keys it is written with.
    fn keys(self, name: &'static str, doc: String, presence: Presence) -> Vec<Key>;

    /// The default as the user would write it.
    fn spell(&self, value: &Self::Value) -> Json;
}

impl<F: Form> Field for F {
    type Value = F::Value;

    fn take(
        &self,
        name: &'static str,
        default: Option<F::Value>,
        table: &mut TableReader<'_>,
    ) -> Option<F::Value> {
        match (table.entry(name), default) {
            (Some(entry), _) => self.read(&entry.node, &mut table.at(name)),
            (None, Some(default)) => Some(default),
            (None, None) => self.absent(name, table),
        }
    }

    fn put(&self, name: &'static str, value: &F::Value, out: &mut Object) {
        out.insert(name.to_string(), self.write(value));
    }

    fn keys(self, name: &'static str, doc: String, presence: Presence) -> Vec<Key> {
        // A section may be left out when all its keys may.
        let needless = matches!(presence, Presence::Required)
            && self.shape().is_some_and(|shape| !shape.requires());
        vec![Key {
            name,
            doc,
            presence: if needless {
                Presence::Derived
            } else {
                presence
            },
            form: Box::new(self),
        }]
    }

    fn spell(&self, value: &F::Value) -> Json {
        self.write(value)
    }
}

/// What a form says of itself, whatever its values become.
pub(super) trait Describe {
    /// See [`Form::schema`].
    fn schema(&self) -> Json;

    /// See [`Form::takes`].
    fn takes(&self) -> String;

    /// See [`Form::shape`].
    fn shape(&self) -> Option<Shape>;
}

impl<F: Form> Describe for F {
    fn schema(&self) -> Json {
        Form::schema(self)
    }

    fn takes(&self) -> String {
        Form::takes(self)
    }

    fn shape(&self) -> Option<Shape> {
        Form::shape(self)
    }
}

/// Things to choose from, in words: `a, b or c`.
pub(super) fn either(things: impl IntoIterator<Item = String>) -> String {
    let things: Vec<String> = things.into_iter().collect();
    match things.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => things.concat(),
    }
}

/// A schema that also takes a text with a reference to an environment variable.
pub(super) fn or_reference(schema: &Json) -> Json {
    json!({"anyOf": [schema, {"$ref": "#/$defs/reference"}]})
}
