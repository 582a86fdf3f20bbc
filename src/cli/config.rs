//! `trainer config`: whether a config is right, what it means, and what can be in one.

use std::io::Write;

use serde::Serialize;

use crate::config;

use super::args::{ConfigCommand, ConfigFile};
use super::json::{self, FORMAT};
use super::load::load;
use super::outcome::{CommandResult, Outcome};

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
    if file.json {
        let shown = ShowJson {
            format: FORMAT,
            sha256: loaded.config.sha256(),
            config: &loaded.config,
        };
        json::pretty(&shown, out)?;
    } else {
        write!(out, "{}", loaded.config.to_toml())?;
    }
    Ok(Outcome::Done)
}
