//! From text to a resolved config, or to all that is wrong with it.

use toml::de::DeTable;

use super::check;
use super::diagnostic::{Diagnostic, Diagnostics, Faults, Source, Span};
use super::experiment::Config;
use super::form::{At, Form};
use super::interpolate::Environment;
use super::overrides;
use super::section::section;
use super::tree::{Node, Planter, Table, Value};

/// Longest config file, in bytes.
pub const SOURCE_BYTES_MAX: usize = 1 << 20;

/// Most overrides.
const OVERRIDES_MAX: usize = 1000;

/// Reads a config. `overrides` are what follows `--set` on the command line, e.g.
/// `train.epochs=3`: a value is read as TOML if it is some, else as text. `environment` looks up
/// `${NAME}`.
///
/// # Errors
///
/// Every fault there is: of the syntax, or of keys and values, or contradictions between them.
pub fn parse(
    source: &Source,
    overrides: &[String],
    environment: &Environment<'_>,
) -> Result<Config, Diagnostics> {
    let mut faults = Faults::default();
    let mut sources = vec![source.clone()];
    sources.extend(overrides.iter().map(|text| overrides::source(text)));
    let config = read(source, overrides, environment, &mut faults);
    match config {
        Some(config) if faults.is_empty() => Ok(config),
        _ => {
            if faults.is_empty() {
                // Cannot be: a reader that gives nothing says why. Said rather than trusted.
                let message = "the config cannot be read";
                faults.push(Diagnostic::new(message, &Span::default()));
            }
            Err(faults.diagnose(sources))
        }
    }
}

fn read(
    source: &Source,
    overrides: &[String],
    environment: &Environment<'_>,
    faults: &mut Faults,
) -> Option<Config> {
    if source.text.len() > SOURCE_BYTES_MAX {
        let message = format!("the config is longer than {SOURCE_BYTES_MAX} bytes");
        faults.push(Diagnostic::new(message, &Span::default()));
        return None;
    }
    if overrides.len() > OVERRIDES_MAX {
        let message = format!("there are more than {OVERRIDES_MAX} overrides");
        faults.push(Diagnostic::new(message, &Span::default()));
        return None;
    }
    let (parsed, errors) = DeTable::parse_recoverable(&source.text);
    report_syntax(&source.text, errors, 0, faults);
    if !faults.is_empty() {
        return None;
    }
    let mut planter = Planter {
        source: 0,
        text: &source.text,
        offset: 0,
        environment,
        faults,
    };
    let mut root = planter.table(parsed.get_ref(), 0);
    overrides::apply(&mut root, overrides, environment, faults);
    let node = Node {
        value: Value::Table(root),
        span: Span::default(),
    };
    let mut at = At {
        path: String::new(),
        faults,
    };
    let config = section::<Config>().read(&node, &mut at);
    let Value::Table(root) = &node.value else {
        return None;
    };
    check::contradictions(root, faults);
    let mut config = config?;
    settle(&mut config, root);
    Some(config)
}

/// Defaults that follow from other sections.
fn settle(config: &mut Config, root: &Table) {
    let validated = config.data.validation() != &super::Split::None;
    if !validated && root.find("checkpoint.keep.best").is_none() {
        config.checkpoint.keep.best = 0;
    }
}

/// Reports what `toml` says of a text. One mistake often gives several errors there: of each line
/// only one counts, and none after a list, table or text that has no end.
pub(super) fn report_syntax(
    text: &str,
    errors: Vec<toml::de::Error>,
    source: usize,
    faults: &mut Faults,
) {
    const LIST: [&str; 2] = [" array", "inline table"];
    const OPEN: [&str; 3] = ["basic string", "literal string, expected", "multi-line"];
    let says = |error: &toml::de::Error, words: &[&str]| {
        words.iter().any(|word| error.message().contains(word))
    };
    let mut placed: Vec<(usize, bool, toml::de::Error)> = errors
        .into_iter()
        .map(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text.get(..start).unwrap_or_default().matches('\n').count();
            (line, !says(&error, &LIST), error)
        })
        .collect();
    // An error of a list comes before others of its line: it is the cause.
    placed.sort_by_key(|(line, local, error)| {
        (*line, *local, error.span().map_or(0, |span| span.start))
    });
    placed.dedup_by_key(|(line, _, _)| *line);
    for (_, local, error) in placed {
        let range = error.span().unwrap_or(0..0);
        let message = error.message();
        let bare = text
            .get(range.start..)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_alphabetic() || c == '/'));
        let mut fault = Diagnostic::new(
            format!("not valid TOML: {message}"),
            &Span::new(source, range),
        );
        if !local {
            fault = fault.help("is there a list or table, here or above, without its `]` or `}`?");
        } else if bare && (message.contains("quoted") || message.contains("invalid")) {
            fault = fault.help("put texts in quotes: key = \"text\"");
        }
        faults.push(fault);
        if !local || says(&error, &OPEN) {
            break;
        }
    }
}
