//! Lists, pairs, and values that may be left out.

use std::ops::RangeInclusive;

use serde_json::{Value as Json, json};

use super::{At, Form};
use crate::config::section::Shape;
use crate::config::tree::{Node, Value};

/// A list of values of one form.
pub(in crate::config) struct List<F> {
    form: F,
    min: usize,
    max: usize,
}

/// Takes lists of so many values.
pub(in crate::config) fn list<F: Form>(form: F, len: RangeInclusive<usize>) -> List<F> {
    List {
        form,
        min: *len.start(),
        max: *len.end(),
    }
}

impl<F: Form> Form for List<F> {
    type Value = Vec<F::Value>;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<Vec<F::Value>> {
        let Value::List(nodes) = &node.value else {
            return at.refuse(node, &self.takes());
        };
        if !(self.min..=self.max).contains(&nodes.len()) {
            return at.refuse(node, &self.takes());
        }
        // All of them are read before one that is wrong ends it: every fault is told.
        let values: Vec<Option<F::Value>> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| self.form.read(node, &mut at.part(&format!("[{index}]"))))
            .collect();
        values.into_iter().collect()
    }

    fn write(&self, value: &Vec<F::Value>) -> Json {
        Json::Array(value.iter().map(|value| self.form.write(value)).collect())
    }

    fn schema(&self) -> Json {
        json!({
            "type": "array", "items": self.form.schema(),
            "minItems": self.min, "maxItems": self.max,
        })
    }

    fn takes(&self) -> String {
        let item = self.form.takes();
        if self.min == self.max {
            format!("a list of {} values, each {item}", self.min)
        } else {
            format!("a list of {} to {} values, each {item}", self.min, self.max)
        }
    }

    fn shape(&self) -> Option<Shape> {
        self.form.shape()
    }
}

/// Two values of one form.
pub(in crate::config) struct Pair<F>(List<F>);

/// Takes lists of two values.
pub(in crate::config) fn pair<F: Form>(form: F) -> Pair<F> {
    Pair(list(form, 2..=2))
}

impl<F: Form> Form for Pair<F>
where
    F::Value: Copy,
{
    type Value = [F::Value; 2];

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<[F::Value; 2]> {
        self.0.read(node, at)?.try_into().ok()
    }

    fn write(&self, value: &[F::Value; 2]) -> Json {
        self.0.write(&value.to_vec())
    }

    fn schema(&self) -> Json {
        self.0.schema()
    }

    fn takes(&self) -> String {
        self.0.takes()
    }
}

/// A value or `false`.
pub(in crate::config) struct Optional<F>(F);

/// Takes a value, or `false` for none.
pub(in crate::config) fn optional<F: Form>(form: F) -> Optional<F> {
    Optional(form)
}

impl<F: Form> Form for Optional<F> {
    type Value = Option<F::Value>;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<Option<F::Value>> {
        match &node.value {
            Value::Flag(false) => Some(None),
            _ => self.0.read(node, at).map(Some),
        }
    }

    fn write(&self, value: &Option<F::Value>) -> Json {
        value
            .as_ref()
            .map_or(Json::Bool(false), |value| self.0.write(value))
    }

    fn schema(&self) -> Json {
        json!({"anyOf": [{"const": false}, self.0.schema()]})
    }

    fn takes(&self) -> String {
        format!("{}, or `false`", self.0.takes())
    }

    fn shape(&self) -> Option<Shape> {
        self.0.shape()
    }
}
