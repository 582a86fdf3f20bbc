//! `trainer checkpoints`: which there are, and whether they can be trusted.

use std::io::{self, Write};
use std::path::Path;

use crate::checkpoint::{self, CheckpointError};
use crate::run::{Fault, FaultClass};

use super::args::{Checkpoints, CheckpointsCommand, Query};
use super::json::{self, CheckpointJson};
use super::outcome::{CommandResult, Outcome};
use super::select::Standing;
use super::table::{self, Table};

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
    let found = look(&standing, false)?;
    if as_json {
        json::pretty(&found, out)?;
    } else {
        print(&found, 0, out)?;
    }
    Ok(Outcome::Done)
}

fn verify(query: &Query, runs_dir: &Path, out: &mut dyn Write) -> CommandResult {
    let standing = Standing::find(runs_dir, &query.name.run)?;
    let found = look(&standing, true)?;
    if query.json {
        json::pretty(&found, out)?;
    } else {
        print(&found, 0, out)?;
    }
    let damaged = found.iter().filter(|one| one.problem.is_some()).count();
    if damaged == 0 {
        return Ok(Outcome::Done);
    }
    out.flush()?;
    let text = format!("{damaged} of {} checkpoints are damaged", found.len());
    Err(Fault::new(FaultClass::Damaged, text)
        .advise("`trainer resume` puts them aside and uses the newest that verifies")
        .into())
}

/// The checkpoints on disk, oldest first; with every file read and compared if `verify`.
///
/// # Errors
///
/// When the folder cannot be read.
pub(super) fn look(standing: &Standing, verify: bool) -> Result<Vec<CheckpointJson>, Fault> {
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
        found.push(CheckpointJson {
            step: listed.step.get(),
            path: path.display().to_string(),
            bytes: info.map(|info| info.bytes),
            sha256: info.map(|info| info.model_sha256.clone()),
            metric: info.and_then(|info| info.metric),
            verified,
            problem,
        });
    }
    Ok(found)
}

/// As a table.
///
/// # Errors
///
/// When the output cannot be written.
pub(super) fn print(
    found: &[CheckpointJson],
    indent: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut rows =
        Table::new(&["STEP", "SIZE", "METRIC", "SHA-256", "STATE", "PATH"]).right(&[0, 1]);
    for one in found {
        let state = match (one.verified, &one.problem) {
            (_, Some(problem)) => format!("damaged: {problem}"),
            (Some(true), None) => "verified".to_string(),
            _ => "not read".to_string(),
        };
        rows.row(&[
            one.step.to_string(),
            one.bytes.map_or_else(|| "?".to_string(), table::bytes),
            one.metric.map_or_else(|| "-".to_string(), table::number),
            one.sha256.as_deref().map_or("?", short).to_string(),
            state,
            one.path.clone(),
        ]);
    }
    rows.print(indent, out)
}

/// Enough of a hash to tell two apart by eye.
fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}
