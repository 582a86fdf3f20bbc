//! What differs between two configs.

use serde_json::Value as Json;

use super::experiment::Config;
use super::section::Section;
use super::spell::inline;

/// One line per key that differs: `train.epochs: 10 -> 20`. A key that only one of them has (a
/// section of another kind) shows `(none)` for the other.
#[must_use]
pub fn difference(old: &Config, new: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let (old, new) = (Json::Object(old.write()), Json::Object(new.write()));
    compare("", Some(&old), Some(&new), &mut lines);
    lines
}

fn compare(path: &str, old: Option<&Json>, new: Option<&Json>, lines: &mut Vec<String>) {
    if old == new {
        return;
    }
    if let (Some(Json::Object(before)), Some(Json::Object(after))) = (old, new) {
        let added = after.keys().filter(|key| !before.contains_key(*key));
        for key in before.keys().chain(added) {
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            compare(&path, before.get(key), after.get(key), lines);
        }
        return;
    }
    let show = |value: Option<&Json>| value.map_or_else(|| "(none)".to_string(), inline);
    lines.push(format!("{path}: {} -> {}", show(old), show(new)));
}
