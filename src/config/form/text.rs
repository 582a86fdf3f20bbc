//! Texts, paths and names.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::{At, Form, either, or_reference};
use crate::config::check::METRICS;
use crate::config::declare::tidy;
use crate::config::interpolate;
use crate::config::suggest::nearest;
use crate::config::tree::{Node, Value};

/// Longest text, in characters.
const TEXT_CHARS_MAX: usize = 4096;

/// Longest name of an experiment.
const NAME_CHARS_MAX: usize = 64;

/// A text.
pub(in crate::config) struct Text {
    empty: bool,
}

/// Takes any text that is not empty.
pub(in crate::config) fn text() -> Text {
    Text { empty: false }
}

/// Takes any text.
pub(in crate::config) fn text_or_empty() -> Text {
    Text { empty: true }
}

/// The text of a node, if it is one of reasonable length without a NUL.
fn text_of(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text { text, .. } => Some(text.as_str())
            .filter(|text| text.chars().count() <= TEXT_CHARS_MAX && !text.contains('\0')),
        _ => None,
    }
}

/// What to do when something else than a text is found on the command line.
fn quote_help(node: &Node) -> Option<String> {
    let other = !matches!(node.value, Value::Text { .. });
    (other && node.span.source > 0)
        .then(|| "put the value in quotes to make it a text: '\"…\"'".to_string())
}

impl Form for Text {
    type Value = String;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<String> {
        let text = text_of(node).filter(|text| self.empty || !text.is_empty());
        text.map(str::to_string)
            .or_else(|| at.refuse_with(node, &self.takes(), quote_help(node)))
    }

    fn write(&self, value: &String) -> Json {
        Json::from(interpolate::escape(value))
    }

    fn schema(&self) -> Json {
        let min = u32::from(!self.empty);
        json!({"type": "string", "minLength": min, "maxLength": TEXT_CHARS_MAX})
    }

    fn takes(&self) -> String {
        if self.empty {
            "a text".to_string()
        } else {
            "a text that is not empty".to_string()
        }
    }
}

/// A path, relative to the folder that the command runs in, or absolute.
pub(in crate::config) struct Path {
    empty: bool,
}

/// Takes the path of a file or folder.
pub(in crate::config) fn path() -> Path {
    Path { empty: false }
}

/// Takes a path, or the empty text for none.
pub(in crate::config) fn path_or_empty() -> Path {
    Path { empty: true }
}

impl Form for Path {
    type Value = PathBuf;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<PathBuf> {
        let text = text_of(node).filter(|text| self.empty || !text.is_empty());
        text.map(PathBuf::from)
            .or_else(|| at.refuse_with(node, &self.takes(), quote_help(node)))
    }

    fn write(&self, value: &PathBuf) -> Json {
        Json::from(interpolate::escape(&value.to_string_lossy()))
    }

    fn schema(&self) -> Json {
        Text { empty: self.empty }.schema()
    }

    fn takes(&self) -> String {
        "the path of a file or folder".to_string()
    }
}

/// Name of an experiment.
pub(in crate::config) struct Name;

/// Takes names that can be part of a directory's name.
pub(in crate::config) fn name() -> Name {
    Name
}

impl Form for Name {
    type Value = String;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<String> {
        let fits = |text: &&str| {
            text.starts_with(|c: char| c.is_ascii_alphanumeric())
                && text.len() <= NAME_CHARS_MAX
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        let text = text_of(node).filter(fits);
        text.map(str::to_string)
            .or_else(|| at.refuse_with(node, &self.takes(), quote_help(node)))
    }

    fn write(&self, value: &String) -> Json {
        Json::from(value.as_str())
    }

    fn schema(&self) -> Json {
        let last = NAME_CHARS_MAX - 1;
        let pattern = format!("^[A-Za-z0-9][A-Za-z0-9._-]{{0,{last}}}$");
        or_reference(&json!({"type": "string", "pattern": pattern, "examples": ["digits"]}))
    }

    fn takes(&self) -> String {
        format!(
            "at most {NAME_CHARS_MAX} letters, digits, `-`, `_` and `.`, the first a letter or digit"
        )
    }
}

/// One character.
pub(in crate::config) struct Character;

/// Takes one ASCII character that can separate fields.
pub(in crate::config) fn character() -> Character {
    Character
}

impl Form for Character {
    type Value = char;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<char> {
        let text = text_of(node).unwrap_or("");
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) if c.is_ascii() && !"\"\n\r".contains(c) => Some(c),
            _ => at.refuse(node, &self.takes()),
        }
    }

    fn write(&self, value: &char) -> Json {
        Json::from(value.to_string())
    }

    fn schema(&self) -> Json {
        or_reference(&json!({
            "type": "string", "pattern": "^[\\x01-\\x7f]$", "not": {"pattern": "[\"\\n\\r]"},
            "examples": [",", ";", "\t"],
        }))
    }

    fn takes(&self) -> String {
        "one ASCII character, not a quote or line end".to_string()
    }
}

/// A metric of the validation part.
pub(in crate::config) struct Metric;

/// Takes `validation/<name>`. Which names a task has is checked where the task is known.
pub(in crate::config) fn metric() -> Metric {
    Metric
}

/// What comes before the name of a metric.
pub(in crate::config) const METRIC_PREFIX: &str = "validation/";

impl Form for Metric {
    type Value = String;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<String> {
        let fits = |text: &&str| {
            text.strip_prefix(METRIC_PREFIX).is_some_and(|name| {
                !name.is_empty()
                    && name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            })
        };
        let text = text_of(node).filter(fits).map(str::to_string);
        text.or_else(|| {
            let help = text_of(node)
                .map(|text| text.rsplit('/').next().unwrap_or(text))
                .filter(|name| METRICS.contains(name))
                .map(|name| format!("did you mean \"{METRIC_PREFIX}{name}\"?"));
            at.refuse_with(node, &self.takes(), help)
        })
    }

    fn write(&self, value: &String) -> Json {
        Json::from(value.as_str())
    }

    fn schema(&self) -> Json {
        let names = METRICS.map(|name| format!("{METRIC_PREFIX}{name}"));
        or_reference(&json!({
            "type": "string", "pattern": "^validation/[a-z0-9_]+$", "examples": names,
        }))
    }

    fn takes(&self) -> String {
        "a metric of the validation part, like \"validation/loss\"".to_string()
    }
}

/// A name of an enumeration with its meaning.
pub(in crate::config) struct NameOf<T: 'static> {
    pub(in crate::config) value: T,
    pub(in crate::config) text: &'static str,
    pub(in crate::config) doc: &'static str,
}

/// Enumerations whose values are written by name (macro `names!`).
pub(in crate::config) trait Named: Copy + PartialEq + 'static {
    /// All values.
    const ALL: &'static [NameOf<Self>];
}

/// One of the names of an enumeration.
pub(in crate::config) struct Names<T: 'static> {
    except: &'static [T],
}

/// Takes one of the names of an enumeration.
pub(in crate::config) fn names<T: Named>() -> Names<T> {
    names_except(&[])
}

/// Takes one of the names of an enumeration without some of them.
pub(in crate::config) fn names_except<T: Named>(except: &'static [T]) -> Names<T> {
    Names { except }
}

impl<T: Named> Names<T> {
    fn all(&self) -> impl Iterator<Item = &'static NameOf<T>> {
        T::ALL
            .iter()
            .filter(|name| !self.except.contains(&name.value))
    }
}

impl<T: Named> Form for Names<T> {
    type Value = T;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<T> {
        let text = text_of(node).unwrap_or("");
        let name = self.all().find(|name| name.text == text);
        name.map(|name| name.value).or_else(|| {
            let help = nearest(text, self.all().map(|name| name.text))
                .map(|name| format!("did you mean \"{name}\"?"));
            at.refuse_with(node, &self.takes(), help)
        })
    }

    fn write(&self, value: &T) -> Json {
        let name = T::ALL.iter().find(|name| name.value == *value);
        Json::from(name.map_or("", |name| name.text))
    }

    fn schema(&self) -> Json {
        let names: Vec<&str> = self.all().map(|name| name.text).collect();
        let meanings: Vec<String> = self
            .all()
            .map(|name| format!("`{}`: {}", name.text, tidy(name.doc)))
            .collect();
        let mut schema = or_reference(&json!({"enum": names}));
        schema["description"] = Json::from(meanings.join("\n"));
        schema
    }

    fn takes(&self) -> String {
        either(self.all().map(|name| format!("\"{}\"", name.text)))
    }
}
