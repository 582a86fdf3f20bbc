//! `trainer rm`: removes runs with all their files.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use crate::run::{Fault, RunDir};
use crate::store::{self, Lock};

use super::args::Rm;
use super::outcome::{CommandResult, Outcome};
use super::select;

/// Removes the runs, all or none as far as can be known before.
pub(super) fn rm(args: &Rm, runs_dir: &Path, quiet: bool, out: &mut dyn Write) -> CommandResult {
    let mut runs: Vec<RunDir> = Vec::new();
    for name in &args.runs {
        let run = select::find(runs_dir, name)?;
        if !runs.contains(&run) {
            runs.push(run);
        }
    }
    if !args.yes && !confirmed(&runs)? {
        return Err(Fault::usage("nothing was removed")
            .advise("answer `y`, or give --yes")
            .into());
    }
    // Held until the end: nobody may resume what is being removed. Dropped with the directory.
    let mut locks = Vec::with_capacity(runs.len());
    for run in &runs {
        locks.push(Lock::take(run).map_err(Fault::from)?);
    }
    for run in &runs {
        store::remove(run)?;
        if !quiet {
            writeln!(out, "removed {}", run.root().display())?;
        }
    }
    Ok(Outcome::Done)
}

/// Asks at the terminal; without one there is nobody to ask.
fn confirmed(runs: &[RunDir]) -> Result<bool, Fault> {
    if !io::stdin().is_terminal() {
        return Err(Fault::usage("removing a run needs a confirmation")
            .advise("give --yes when there is no terminal to ask at"));
    }
    let mut asked = io::stderr().lock();
    for run in runs {
        // A terminal that takes no text gives no answer either.
        let _ = writeln!(asked, "{}", run.root().display());
    }
    let _ = write!(
        asked,
        "remove {} with all checkpoints? [y/N] ",
        count(runs.len())
    );
    let _ = asked.flush();
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Fault::io("read", Path::new("standard input"), &error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn count(runs: usize) -> String {
    match runs {
        1 => "this run".to_string(),
        n => format!("these {n} runs"),
    }
}
