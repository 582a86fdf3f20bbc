//! `trainer checkpoints`: which there are, and whether they can be trusted.

use std::io::Write;
use std::path::Path;

use crate::checkpoint::{self, CheckpointError};
use crate::run::{Fault, FaultClass};
use crate::ui::{self, CheckpointRow};

use super::args::{Checkpoints, CheckpointsCommand, Query};
use super::json::{self, CheckpointJson};
use super::outcome::{CommandResult, Outcome};
use super::screen::Screen;
use super::select::Standing;

/// Lists or verifies.
pub(super) fn checkpoints(
    args: &Checkpoints,
    runs_dir: &Path,
    out: &mut dyn Write,
) -> CommandResult {
    match (&args.command, &args.run) {
        (Some(CheckpointsCommand::List(query)), _) => {
            list(&query.name.run, query.json, runs_dir, out)
        }
        (Some(CheckpointsCommand::Verify(query)), _) => verify(query, runs_dir, out),
        (None, Some(run)) => list(run, args.json, runs_dir, out),
        (None, None) => Err(Fault::usage("no run was named").into()),
    }
}

fn list(run: &str, as_json: bool, runs_dir: &Path, out: &mut dyn Write) -> CommandResult {
    let standing = Standing::find(runs_dir, run)?;
    print(&look(&standing, false)?, as_json, out)
}

fn verify(query: &Query, runs_dir: &Path, out: &mut dyn Write) -> CommandResult {
    let standing = Standing::find(runs_dir, &query.name.run)?;
    let found = look(&standing, true)?;
    print(&found, query.json, out)?;
    let damaged = found.iter().filter(|row| row.problem.is_some()).count();
    if damaged == 0 {
        return Ok(Outcome::Done);
    }
    out.flush()?;
    let text = format!("{damaged} of {} checkpoints are damaged", found.len());
    Err(Fault::new(FaultClass::Damaged, text)
        .advise("`trainer resume` puts them aside and uses the newest that verifies")
        .into())
}

fn print(found: &[CheckpointRow], as_json: bool, out: &mut dyn Write) -> CommandResult {
    if as_json {
        let rows: Vec<CheckpointJson> = found.iter().map(CheckpointJson::new).collect();
        json::pretty(&rows, out)?;
    } else {
        let screen = Screen::stdout();
        ui::checkpoints(found, screen.columns, screen.style, out)?;
    }
    Ok(Outcome::Done)
}

/// The checkpoints on disk, oldest first; with every file read and compared if `verify`.
///
/// # Errors
///
/// When the folder cannot be read.
pub(super) fn look(standing: &Standing, verify: bool) -> Result<Vec<CheckpointRow>, Fault> {
    let folder = standing.run.checkpoints();
    let mut found = Vec::new();
    for listed in checkpoint::list(&folder)? {
        let path = folder.join(&listed.directory);
        let recorded = standing.summary.checkpoints.iter();
        let recorded = recorded.rev().find(|info| info.step == listed.step);
        let (info, unreadable) = match listed.info {
            Ok(info) => (Some(info), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let mut verified = unreadable.is_some().then_some(false);
        let mut problem = unreadable;
        if verify && problem.is_none() {
            match checkpoint::verify(&path) {
                Ok(_) => verified = Some(true),
                // The run goes on, and its keep-policy has removed this one.
                Err(CheckpointError::NotFound { .. }) => continue,
                Err(error) => {
                    verified = Some(false);
                    problem = Some(error.to_string());
                }
            }
        }
        let info = info.as_ref().or(recorded);
        found.push(CheckpointRow {
            step: listed.step,
            path: path.display().to_string(),
            bytes: info.map(|info| info.bytes),
            model_sha256: info.map(|info| info.model_sha256.clone()),
            metric: info.and_then(|info| info.metric),
            verified,
            problem,
        });
    }
    Ok(found)
}
