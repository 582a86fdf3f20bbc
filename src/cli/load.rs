//! Reading a config file with the changes from the command line.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;

use crate::config::{self, Config, Diagnostics, SOURCE_BYTES_MAX, Source};
use crate::run::Fault;

/// A config with the text it came from.
#[derive(Debug)]
pub(super) struct Loaded {
    /// As the user wrote it.
    pub(super) source: Source,
    /// What it means.
    pub(super) config: Config,
}

/// Reads a config file and applies `KEY=VALUE` changes.
///
/// # Errors
///
/// When the file cannot be read, or with every fault in it.
pub(super) fn load(path: &Path, changes: &[String]) -> Result<Loaded, Fault> {
    let source = read(path)?;
    let config = parse(&source, changes)?;
    Ok(Loaded { source, config })
}

/// Reads the text of a config.
///
/// # Errors
///
/// When the file cannot be read, is too long, or is no text.
pub(super) fn read(path: &Path) -> Result<Source, Fault> {
    let failed = |error| Fault::io("read", path, &error);
    if path.is_dir() {
        let text = format!("{} is a folder, not a config file", path.display());
        return Err(Fault::usage(text).advise("name the TOML file in it"));
    }
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(SOURCE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() > SOURCE_BYTES_MAX {
        let text = format!("{} is longer than {SOURCE_BYTES_MAX} bytes", path.display());
        return Err(Fault::usage(text).advise("is this a config file?"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Fault::usage(format!("{} is not UTF-8 text (byte {at})", path.display()))
            .advise("is this a config file?")
    })?;
    Ok(Source {
        name: path.display().to_string(),
        text,
    })
}

/// Resolves a text with changes; `${NAME}` comes from the environment of this process.
///
/// # Errors
///
/// With every fault in it.
pub(super) fn parse(source: &Source, changes: &[String]) -> Result<Config, Fault> {
    let environment = |name: &str| std::env::var(name).ok();
    config::parse(source, changes, &environment).map_err(|faults| explain(&faults))
}

/// All faults as one, in colour when a person looks.
fn explain(faults: &Diagnostics) -> Fault {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let color = std::io::stderr().is_terminal() && !no_color;
    let text = faults.render(color);
    Fault::usage(format!("{}\n\n{}", faults.headline(), text.trim_end()))
}
