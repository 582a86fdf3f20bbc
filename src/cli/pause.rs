//! `trainer pause` and `trainer stop`: end a live run at its next step, with a checkpoint.

use std::io::Write;
use std::path::Path;

use crate::run::ControlRequest;

use super::args::Control;
use super::control::{Patience, ask, wait_for_end};
use super::outcome::{CommandResult, Outcome};
use super::select::Standing;

/// Ends a run as paused.
pub(super) fn pause(
    args: &Control,
    runs_dir: &Path,
    quiet: bool,
    out: &mut dyn Write,
) -> CommandResult {
    end(args, ControlRequest::Pause, runs_dir, quiet, out)
}

/// Ends a run as cancelled.
pub(super) fn stop(
    args: &Control,
    runs_dir: &Path,
    quiet: bool,
    out: &mut dyn Write,
) -> CommandResult {
    end(args, ControlRequest::Stop, runs_dir, quiet, out)
}

fn end(
    args: &Control,
    request: ControlRequest,
    runs_dir: &Path,
    quiet: bool,
    out: &mut dyn Write,
) -> CommandResult {
    let patience = Patience::new(args.timeout);
    let standing = Standing::find(runs_dir, &args.name.run)?;
    ask(&standing, request, patience)?;
    let after = wait_for_end(&standing.run, patience)?;
    if !quiet {
        let summary = &after.summary;
        // Not always what was asked for: it may have come to its own end first.
        writeln!(
            out,
            "{} is {} at step {}",
            summary.name, summary.state, summary.step
        )?;
    }
    Ok(Outcome::Done)
}
