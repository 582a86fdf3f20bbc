//! `trainer man`: manual pages from the same declarations as the help texts.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::run::Fault;

use super::args::Cli;
use super::outcome::{CommandResult, Outcome};

/// Prints the page of `trainer`, or writes the page of every command into a folder.
pub(super) fn man(folder: Option<&Path>, out: &mut dyn Write) -> CommandResult {
    let command = Cli::command();
    let Some(folder) = folder else {
        Man::new(command).render(out)?;
        return Ok(Outcome::Done);
    };
    std::fs::create_dir_all(folder).map_err(|error| Fault::io("create", folder, &error))?;
    clap_mangen::generate_to(command, folder)
        .map_err(|error| Fault::io("write manual pages into", folder, &error))?;
    Ok(Outcome::Done)
}
