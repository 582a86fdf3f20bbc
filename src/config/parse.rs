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
    let mut config = config?;
    settle(&mut config, root);
    check::contradictions(&config, root, faults);
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
/// only the first counts, and none after a list, table or text that has no end.
pub(super) fn report_syntax(
    text: &str,
    mut errors: Vec<toml::de::Error>,
    source: usize,
    faults: &mut Faults,
) {
    const OPEN: [&str; 4] = ["unclosed", "array", "inline table", "invalid"];
    errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
    let mut last_line = None;
    for error in errors {
        let range = error.span().unwrap_or(0..0);
        let before = text.as_bytes().get(..range.start).unwrap_or_default();
        let line = before.iter().filter(|&&byte| byte == b'\n').count();
        if last_line == Some(line) {
            continue;
        }
        last_line = Some(line);
        let message = error.message();
        let mut fault = Diagnostic::new(
            format!("not valid TOML: {message}"),
            &Span::new(source, range),
        );
        if message.contains("string values must be quoted") {
            fault = fault.help("put texts in quotes: key = \"text\"");
        }
        faults.push(fault);
        if OPEN.iter().any(|open| message.contains(open)) {
            break;
        }
    }
}
