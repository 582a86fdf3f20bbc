//! Held-out parts.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use crate::config::form::{At, Form, number, path, real};
use crate::config::tree::{Node, Value};

/// A held-out part: nothing, a seeded share of the training samples, or files of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Split {
    /// No such part.
    None,
    /// Share of the training file's samples, above 0 and below 1, chosen by the seed.
    Fraction(f64),
    /// A file or folder of its own, in the same format as `train`.
    Path(PathBuf),
}

/// Takes a share, a path or `false`.
pub(super) struct SplitForm;

impl Form for SplitForm {
    type Value = Split;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<Split> {
        let share = real(0.0..1.0).above();
        match (&node.value, number(node)) {
            (Value::Flag(false), _) => Some(Split::None),
            (
                Value::Text {
                    text,
                    filled_in: true,
                },
                None,
            ) if text == "false" => Some(Split::None),
            (_, Some(number)) if share.contains(number) => Some(Split::Fraction(number)),
            (Value::Text { .. }, None) => path().read(node, at).map(Split::Path),
            _ => at.refuse(node, &self.takes()),
        }
    }

    fn write(&self, value: &Split) -> Json {
        match value {
            Split::None => json!(false),
            Split::Fraction(share) => json!(share),
            Split::Path(file) => path().write(file),
        }
    }

    fn schema(&self) -> Json {
        let share = real(0.0..1.0).above().plain_schema();
        json!({"anyOf": [{"const": false}, share, path().schema()]})
    }

    fn takes(&self) -> String {
        "a share above 0 and below 1, a path, or `false`".to_string()
    }
}
