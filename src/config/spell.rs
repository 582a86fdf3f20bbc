//! The resolved config as text, and its hash.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use super::experiment::Config;
use super::section::Section;

impl Config {
    /// The config as TOML with every default, which gives an equal config when it is parsed.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let sections = self.write();
        for (key, value) in sections.iter().filter(|(_, value)| !value.is_object()) {
            push_line(&mut out, key, value);
        }
        for (name, section) in &sections {
            if let Json::Object(section) = section {
                push_section(&mut out, name, section);
            }
        }
        out
    }

    /// SHA-256, in hexadecimal, of the resolved config in canonical form: JSON without spaces, keys
    /// sorted, every default present, numbers in their shortest form. How the file was laid out
    /// and which defaults it spelt out do not matter.
    #[must_use]
    pub fn sha256(&self) -> String {
        let canonical = canonical(&Json::Object(self.write())).to_string();
        let mut hex = String::new();
        for byte in Sha256::digest(canonical) {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }
}

/// A section with its lists of tables, as `[name]` and `[[name.key]]`.
fn push_section(out: &mut String, name: &str, section: &Map<String, Json>) {
    let is_tables = |value: &Json| {
        let list = value.as_array();
        list.is_some_and(|list| !list.is_empty() && list.iter().all(Json::is_object))
    };
    let _ = writeln!(out, "\n[{name}]");
    for (key, value) in section.iter().filter(|(_, value)| !is_tables(value)) {
        push_line(out, key, value);
    }
    for (key, value) in section.iter().filter(|(_, value)| is_tables(value)) {
        for table in value.as_array().into_iter().flatten() {
            let _ = writeln!(out, "\n[[{name}.{key}]]");
            for (key, value) in table.as_object().into_iter().flatten() {
                push_line(out, key, value);
            }
        }
    }
}

fn push_line(out: &mut String, key: &str, value: &Json) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{key} = {}", inline(value));
}

/// A value on one line of TOML.
pub(super) fn inline(value: &Json) -> String {
    match value {
        // TOML has no such value, and no config holds it.
        Json::Null => "false".to_string(),
        Json::Bool(flag) => flag.to_string(),
        Json::Number(number) => number.to_string(),
        Json::String(text) => toml::Value::String(text.clone()).to_string(),
        Json::Array(list) => {
            let items: Vec<String> = list.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Json::Object(table) => {
            let items: Vec<String> = table
                .iter()
                .map(|(key, value)| format!("{key} = {}", inline(value)))
                .collect();
            format!("{{ {} }}", items.join(", "))
        }
    }
}

/// With the keys of every table sorted.
fn canonical(value: &Json) -> Json {
    match value {
        Json::Object(table) => {
            let mut keys: Vec<&String> = table.keys().collect();
            keys.sort_unstable();
            let entries = keys
                .into_iter()
                .filter_map(|key| Some((key.clone(), canonical(table.get(key)?))));
            Json::Object(entries.collect())
        }
        Json::Array(list) => Json::Array(list.iter().map(canonical).collect()),
        other => other.clone(),
    }
}
