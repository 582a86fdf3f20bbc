//! The text as a tree of values with their places, before any key has a meaning.
//!
//! `toml` parses; here its tree becomes an owned one in which `${NAME}` is filled in and which can
//! hold values from several texts (overrides).

use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, Faults, Span};
use super::interpolate::{self, Environment};

/// Deepest nesting of tables and lists. No key of a config lies deeper than 5.
const DEPTH_MAX: usize = 12;

/// Most entries of one list or table.
const ENTRIES_MAX: usize = 10_000;

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) span: Span,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text {
        text: String,
        /// Whether all of it came from one `${…}`: then it may stand for a number or a boolean.
        filled_in: bool,
    },
    Whole(i128),
    Real(f64),
    Flag(bool),
    DateTime,
    /// Something that was refused already: nothing more is said of it.
    Refused,
    List(Vec<Node>),
    Table(Table),
}

/// A table; keys are unique.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) entries: Vec<Entry>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Span,
    pub(super) node: Node,
}

impl Table {
    /// The entry of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The entry of a key, which becomes an empty table if there is none.
    pub(super) fn child(&mut self, key: &str, span: &Span) -> &mut Entry {
        let index = self.entries.iter().position(|entry| entry.key == key);
        let index = index.unwrap_or_else(|| {
            self.entries.push(Entry {
                key: key.to_string(),
                key_span: span.clone(),
                node: Node {
                    value: Value::Table(Table::default()),
                    span: span.clone(),
                },
            });
            self.entries.len() - 1
        });
        &mut self.entries[index]
    }

    /// Key and value at a dotted path.
    pub(super) fn find(&self, path: &str) -> Option<&Entry> {
        let Some((first, rest)) = path.split_once('.') else {
            return self.get(path);
        };
        match &self.get(first)?.node.value {
            Value::Table(table) => table.find(rest),
            _ => None,
        }
    }
}

impl Node {
    /// The tree of a JSON value; nothing is filled in. `None` when it is nested too deep.
    pub(super) fn from_json(json: &serde_json::Value, depth: usize) -> Option<Self> {
        use serde_json::Value as Json;
        if depth > DEPTH_MAX {
            return None;
        }
        let value = match json {
            Json::Null => Value::Refused,
            Json::Bool(flag) => Value::Flag(*flag),
            Json::Number(number) => match number.as_i128() {
                Some(number) => Value::Whole(number),
                None => Value::Real(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::Text {
                text: text.clone(),
                filled_in: false,
            },
            Json::Array(list) => {
                let nodes = list.iter().map(|json| Self::from_json(json, depth + 1));
                Value::List(nodes.collect::<Option<_>>()?)
            }
            Json::Object(table) => {
                let entry = |(key, json): (&String, &Json)| {
                    Some(Entry {
                        key: key.clone(),
                        key_span: Span::default(),
                        node: Self::from_json(json, depth + 1)?,
                    })
                };
                Value::Table(Table {
                    entries: table.iter().map(entry).collect::<Option<_>>()?,
                })
            }
        };
        Some(Self {
            value,
            span: Span::default(),
        })
    }

    /// What it is, for messages.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            Value::Text { text, .. } => format!("the text {}", quoted(text)),
            Value::Whole(i128::MAX) => "a number far too large".to_string(),
            Value::Whole(number) => format!("the number {number}"),
            Value::Real(number) => format!("the number {number}"),
            Value::Flag(flag) => format!("`{flag}`"),
            Value::DateTime => "a date or time".to_string(),
            Value::Refused => "nothing".to_string(),
            Value::List(list) => match list.len() {
                1 => "a list of 1 value".to_string(),
                len => format!("a list of {len} values"),
            },
            Value::Table(_) => "a table".to_string(),
        }
    }
}

/// A text as it can be shown in a message: quoted, escaped, cut.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let cut: String = text.chars().take(SHOWN_MAX).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_debug())
}

/// Turns parsed TOML into a [`Node`].
pub(super) struct Planter<'a> {
    /// Index of the text.
    pub(super) source: usize,
    /// The text that spans point into.
    pub(super) text: &'a str,
    /// What the spans of `toml` are moved by to point into `text`.
    pub(super) offset: usize,
    /// Where `${NAME}` is looked up.
    pub(super) environment: &'a Environment<'a>,
    /// Where faults go.
    pub(super) faults: &'a mut Faults,
}

impl Planter<'_> {
    /// A place in the text.
    pub(super) fn span(&self, range: std::ops::Range<usize>) -> Span {
        Span::new(
            self.source,
            range.start + self.offset..range.end + self.offset,
        )
    }

    /// The tree of a table.
    pub(super) fn table(&mut self, table: &DeTable<'_>, depth: usize) -> Table {
        let entries = table.iter().take(ENTRIES_MAX).map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_span: self.span(key.span()),
            node: self.node(value.get_ref(), value.span(), depth + 1),
        });
        Table {
            entries: entries.collect(),
        }
    }

    /// The tree of a value.
    pub(super) fn node(
        &mut self,
        value: &DeValue<'_>,
        range: std::ops::Range<usize>,
        depth: usize,
    ) -> Node {
        let span = self.span(range);
        if depth > DEPTH_MAX {
            let message = format!("nesting is deeper than {DEPTH_MAX} levels");
            self.faults.push(Diagnostic::new(message, &span));
            return Node {
                value: Value::Refused,
                span,
            };
        }
        let value = match value {
            DeValue::String(text) => self.text(text, &span),
            DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
                // Far out of every range, and refused as such.
                .map_or(Value::Whole(i128::MAX), Value::Whole),
            DeValue::Float(number) => Value::Real(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Datetime(_) => Value::DateTime,
            DeValue::Array(list) => {
                if list.len() > ENTRIES_MAX {
                    let message = format!("a list has more than {ENTRIES_MAX} entries");
                    self.faults.push(Diagnostic::new(message, &span));
                }
                let nodes = list.iter().take(ENTRIES_MAX);
                Value::List(
                    nodes
                        .map(|node| self.node(node.get_ref(), node.span(), depth + 1))
                        .collect(),
                )
            }
            DeValue::Table(table) => Value::Table(self.table(table, depth)),
        };
        Node { value, span }
    }

    /// A text with `${NAME}` filled in.
    pub(super) fn text(&mut self, text: &str, span: &Span) -> Value {
        match interpolate::fill(text, self.environment) {
            Ok((text, filled_in)) => Value::Text { text, filled_in },
            Err(fault) => {
                let diagnostic =
                    Diagnostic::new(fault.message(), &self.find(span, fault.reference()))
                        .help(fault.help());
                self.faults.push(diagnostic);
                Value::Refused
            }
        }
    }

    /// The place of `part` within a span, or the span where it cannot be found (escapes).
    fn find(&self, span: &Span, part: &str) -> Span {
        let (start, end) = span.range;
        let found = self.text.get(start..end).and_then(|text| text.find(part));
        found.map_or_else(
            || span.clone(),
            |at| Span::new(span.source, start + at..start + at + part.len()),
        )
    }
}
