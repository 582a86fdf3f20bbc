//! `trainer config`: whether a config is right, what it means, and what can be in one.

use std::io::Write;

use serde::Serialize;

use crate::config::{self, SumOrder};

use super::args::{ConfigCommand, ConfigFile};
use super::json::{self, FORMAT};
use super::load::load;
use super::outcome::{CommandResult, Outcome};

/// What is said where the number of workers is part of the experiment. A comment, so that what is shown
/// stays a config.
const DEPENDS_ON_WORKERS: &str = "\
# train.reduction is \"fast\": the last bits of the result follow from the number of workers. It is the
# same again, bit for bit, only with the same number throughout.
";

#[derive(Serialize)]
struct CheckJson {
    format: u32,
    valid: bool,
    sha256: String,
}

#[derive(Serialize)]
struct ShowJson<'a> {
    format: u32,
    sha256: String,
    config: &'a config::Config,
    depends_on_workers: bool,
}

/// Checks, shows, or prints the schema.
pub(super) fn config(command: &ConfigCommand, quiet: bool, out: &mut dyn Write) -> CommandResult {
    match command {
        ConfigCommand::Check(file) => check(file, quiet, out),
        ConfigCommand::Show(file) => show(file, out),
        ConfigCommand::Schema => {
            json::pretty(&config::schema(), out)?;
            Ok(Outcome::Done)
        }
    }
}

fn check(file: &ConfigFile, quiet: bool, out: &mut dyn Write) -> CommandResult {
    let loaded = load(&file.config, &file.set.set)?;
    if file.json {
        let found = CheckJson {
            format: FORMAT,
            valid: true,
            sha256: loaded.config.sha256(),
        };
        json::pretty(&found, out)?;
    } else if !quiet {
        writeln!(out, "{} is a valid config", loaded.source.name)?;
    }
    Ok(Outcome::Done)
}

fn show(file: &ConfigFile, out: &mut dyn Write) -> CommandResult {
    let loaded = load(&file.config, &file.set.set)?;
    let depends_on_workers = loaded.config.train.reduction == SumOrder::Fast;
    if file.json {
        let shown = ShowJson {
            format: FORMAT,
            sha256: loaded.config.sha256(),
            config: &loaded.config,
            depends_on_workers,
        };
        json::pretty(&shown, out)?;
    } else {
        if depends_on_workers {
            writeln!(out, "{DEPENDS_ON_WORKERS}")?;
        }
        write!(out, "{}", loaded.config.to_toml())?;
    }
    Ok(Outcome::Done)
}
