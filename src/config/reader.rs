//! Taking the keys of a section out of a table, and reporting those that are unknown or missing.

use super::diagnostic::{Diagnostic, Faults, Span};
use super::form::{At, either};
use super::section::{Section, Shape, TAG};
use super::suggest;
use super::tree::{Entry, Table, Value};

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
