//! `trainer ls`: the runs of a folder, newest first.

use std::io::{self, Write};
use std::path::Path;

use crate::run::Fault;
use crate::store::{Listed, Runs, now_ms};
use crate::ui::{self, RunRow};

use super::args::Ls;
use super::json::{self, RunJson};
use super::outcome::{CommandResult, Outcome};
use super::screen::Screen;
use super::select::Standing;

/// Prints all runs, or those in some states. One that cannot be read is named on standard error.
pub(super) fn ls(args: &Ls, runs_dir: &Path, quiet: bool, out: &mut dyn Write) -> CommandResult {
    let mut runs = Vec::new();
    for listed in Runs::open(runs_dir).list().map_err(Fault::from)? {
        let Listed {
            name,
            dir,
            alive,
            summary,
            ..
        } = listed;
        match summary {
            Ok(summary) => runs.push(Standing {
                run: dir,
                alive,
                summary,
            }),
            Err(error) if !quiet => warn(&name, &error.to_string()),
            Err(_) => {}
        }
    }
    runs.reverse();
    if !args.state.is_empty() {
        runs.retain(|run| args.state.contains(&run.summary.state));
    }
    if args.json {
        let shown: Vec<RunJson> = runs.iter().map(RunJson::short).collect();
        json::pretty(&shown, out)?;
    } else if runs.is_empty() && !quiet {
        writeln!(out, "no runs in {}", runs_dir.display())?;
    } else {
        print(&runs, out)?;
    }
    Ok(Outcome::Done)
}

fn warn(name: &str, problem: &str) {
    let text = format!("warning: {name} is left out: {problem}\n");
    // Standard error may be closed; the list is still worth printing.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn print(runs: &[Standing], out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<RunRow> = runs.iter().map(Standing::row).collect();
    let screen = Screen::stdout();
    ui::runs(&rows, now_ms(), screen.columns, screen.style, out)
}
