//! `--set a.b=c`: values from the command line that replace those of the file.
//!
//! A value is read as TOML if it is some (`3`, `true`, `"x"`, `[1, 2]`, `{ a = 1 }`), else it is
//! taken as text. `--set train.steps=5` also replaces `train.epochs` of the file, of which exactly
//! one is given. List entries are named by their index: `model.layers.0.out=8`.

use toml::de::DeValue;

use super::diagnostic::{Diagnostic, Faults, Source, Span};
use super::interpolate::Environment;
use super::parse::report_syntax;
use super::tree::{Entry, Node, Planter, Table, Value};
use super::unit::LENGTH_KEYS;

/// What comes before an override where it is shown.
const PREFIX: &str = "--set ";

/// Most keys of a path.
const PATH_KEYS_MAX: usize = 8;

/// An override as it is shown.
pub(super) fn source(text: &str) -> Source {
    Source {
        name: "command line".to_string(),
        text: format!("{PREFIX}{text}"),
    }
}

/// Puts the overrides into the tree, later ones over earlier ones.
pub(super) fn apply(
    root: &mut Table,
    overrides: &[String],
    environment: &Environment<'_>,
    faults: &mut Faults,
) {
    for (index, text) in overrides.iter().enumerate() {
        let shown = source(text);
        let mut planter = Planter {
            source: index + 1,
            text: &shown.text,
            offset: 0,
            environment,
            faults,
        };
        let Some((path, node)) = read(text, &mut planter) else {
            continue;
        };
        let Some(fault) = put(root, &path, node).err() else {
            continue;
        };
        faults.push(fault);
    }
}

/// A key of a path with its place.
type PathKey = (String, Span);

/// Splits an override into path and value.
fn read(text: &str, planter: &mut Planter<'_>) -> Option<(Vec<PathKey>, Node)> {
    let all = planter.span(PREFIX.len()..PREFIX.len() + text.len());
    let Some((path, value)) = text.split_once('=') else {
        let fault = Diagnostic::new("an override has no value", &all);
        planter
            .faults
            .push(fault.help("write `--set section.key=value`"));
        return None;
    };
    let mut keys = Vec::new();
    let mut start = PREFIX.len();
    for key in path.split('.') {
        let trimmed = key.trim();
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let span = planter.span(start..start + key.len());
        if trimmed.is_empty() || !trimmed.chars().all(bare) || keys.len() == PATH_KEYS_MAX {
            let fault = Diagnostic::new("this is not the path of a key", &span);
            planter
                .faults
                .push(fault.help("write `--set section.key=value`"));
            return None;
        }
        keys.push((trimmed.to_string(), span));
        start += key.len() + 1;
    }
    let node = read_value(value, start, planter)?;
    Some((keys, node))
}

/// The value of an override, which starts at byte `start` of the shown text.
fn read_value(value: &str, start: usize, planter: &mut Planter<'_>) -> Option<Node> {
    let start = start + (value.len() - value.trim_start().len());
    let value = value.trim();
    let (parsed, errors) = DeValue::parse_recoverable(value);
    if errors.is_empty() {
        planter.offset = start;
        return Some(planter.node(parsed.get_ref(), parsed.span(), 0));
    }
    if value.starts_with(['"', '\'', '[', '{']) {
        // It was meant as TOML.
        let mut inner = Faults::default();
        report_syntax(value, errors, planter.source, &mut inner);
        planter.faults.take_moved(inner, start);
        return None;
    }
    let span = planter.span(start..start + value.len());
    let value = planter.text(value, &span);
    Some(Node { value, span })
}

/// Puts a value at a path, making tables on the way.
fn put(root: &mut Table, path: &[PathKey], node: Node) -> Result<(), Diagnostic> {
    let Some(((last, last_span), tables)) = path.split_last() else {
        return Ok(());
    };
    let mut table = root;
    let mut seen = String::new();
    let mut tables = tables.iter();
    while let Some((key, span)) = tables.next() {
        seen = if seen.is_empty() {
            key.clone()
        } else {
            format!("{seen}.{key}")
        };
        let entry = table.child(key, span);
        table = match &mut entry.node.value {
            Value::Table(inner) => inner,
            Value::List(list) => {
                let message = format!("`{seen}` is a list of {} values", list.len());
                let next = tables.next();
                let index = next.and_then(|(index, _)| index.parse::<usize>().ok());
                let Some(Value::Table(inner)) = index
                    .and_then(|index| list.get_mut(index))
                    .map(|node| &mut node.value)
                else {
                    let place = next.map_or(span, |(_, span)| span);
                    return Err(Diagnostic::new(message, place).help(format!(
                        "name a table in it by its index (`{seen}.0.key=value`), or set all of it"
                    )));
                };
                inner
            }
            // Replaced: the reader says what belongs here.
            other => {
                *other = Value::Table(Table::default());
                match other {
                    Value::Table(inner) => inner,
                    _ => return Ok(()),
                }
            }
        };
    }
    if seen == "train" && LENGTH_KEYS.contains(&last.as_str()) {
        let given = |entry: &Entry| LENGTH_KEYS.contains(&entry.key.as_str());
        table
            .entries
            .retain(|entry| !given(entry) || entry.key_span.source > 0);
    }
    table.entries.retain(|entry| entry.key != *last);
    table.entries.push(Entry {
        key: last.clone(),
        key_span: last_span.clone(),
        node,
    });
    Ok(())
}
