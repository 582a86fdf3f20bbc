//! `trainer completions`: a script that asks this executable for candidates while one types.

use std::ffi::OsString;
use std::io::Write;

use clap::CommandFactory;
use clap_complete::env::{Bash, CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use crate::run::Fault;

use super::args::{Cli, Shell};
use super::outcome::{CommandResult, Outcome};

/// Set by the scripts when they call for candidates.
const VARIABLE: &str = "TRAINER_COMPLETE";

/// Prints the script of a shell.
pub(super) fn completions(shell: Shell, out: &mut dyn Write) -> CommandResult {
    let completer: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::Powershell => &Powershell,
        Shell::Zsh => &Zsh,
    };
    completer.write_registration(VARIABLE, "trainer", "trainer", "trainer", out)?;
    Ok(Outcome::Done)
}

/// Answers a script, when this process was called by one; false otherwise.
///
/// # Errors
///
/// When the shell is unknown or the answer cannot be written.
pub(super) fn answer_shell(arguments: &[OsString]) -> Result<bool, Fault> {
    // The environment is asked first: building the command line costs time at every start.
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(false);
    }
    CompleteEnv::with_factory(Cli::command)
        .var(VARIABLE)
        .try_complete(arguments, std::env::current_dir().ok().as_deref())
        .map_err(|error| Fault::usage(format!("cannot complete: {error}")))
}
