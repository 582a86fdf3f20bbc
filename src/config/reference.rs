//! All keys as Markdown tables, for the README.

use std::fmt::Write as _;

use super::experiment::Config;
use super::section::{Key, Presence, Section, Shape, TAG};
use super::spell::inline;

/// Markdown tables of all keys: key, value, default, meaning.
#[must_use]
pub fn reference() -> String {
    let mut out = String::new();
    let Shape::Keys(keys) = Config::shape() else {
        return out;
    };
    let (sections, plain): (Vec<&Key>, Vec<&Key>) =
        keys.iter().partition(|key| key.form.shape().is_some());
    table(&mut out, &plain);
    for section in sections {
        if let Some(shape) = &section.form.shape() {
            chapter(&mut out, section.name, &section.doc, shape);
        }
    }
    out
}

/// A section with its keys, then the lists of tables inside it.
fn chapter(out: &mut String, name: &str, doc: &str, shape: &Shape) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "\n### `[{name}]`\n\n{doc}");
    match shape {
        Shape::Keys(keys) => {
            out.push('\n');
            table(out, &keys.iter().collect::<Vec<_>>());
        }
        Shape::Kinds { default, kinds } => {
            for kind in kinds {
                let usual = if *default == Some(kind.tag) {
                    " (default)"
                } else {
                    ""
                };
                let _ = writeln!(out, "\n`{TAG} = \"{}\"`{usual}: {}", kind.tag, kind.doc);
                if !kind.keys.is_empty() {
                    out.push('\n');
                    table(out, &kind.keys.iter().collect::<Vec<_>>());
                }
            }
        }
    }
    for (_, key) in shape.every_key() {
        if let Some(inner @ Shape::Kinds { .. }) = &key.form.shape() {
            chapter(out, &format!("[{name}.{}]", key.name), &key.doc, inner);
        }
    }
}

/// The rows of some keys; the keys of a table inside follow it as `outer.inner`.
fn table(out: &mut String, keys: &[&Key]) {
    out.push_str("| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
    for key in keys {
        row(out, "", key);
    }
}

fn row(out: &mut String, prefix: &str, key: &Key) {
    let default = match &key.presence {
        Presence::Default(value) => format!("`{}`", inline(value)),
        Presence::Derived => "see meaning".to_string(),
        Presence::Required => "required".to_string(),
        Presence::OneOf => "one is required".to_string(),
    };
    let inner = match key.form.shape() {
        Some(Shape::Keys(inner)) => inner,
        _ => Vec::new(),
    };
    let default = match (&key.presence, inner.is_empty()) {
        (Presence::Derived, false) => "as its keys".to_string(),
        _ => default,
    };
    let cells = [
        format!("`{prefix}{}`", key.name),
        key.form.takes(),
        default,
        key.doc.clone(),
    ];
    let escaped = cells.map(|cell| cell.replace('|', "\\|"));
    let _ = writeln!(out, "| {} |", escaped.join(" | "));
    let prefix = format!("{prefix}{}.", key.name);
    for key in &inner {
        row(out, &prefix, key);
    }
}
