//! `trainer resize`: another number of workers for a live run.

use std::io::Write;
use std::path::Path;

use crate::run::ControlRequest;

use super::args::Resize;
use super::control::{Patience, ask};
use super::outcome::{CommandResult, Outcome};
use super::select::Standing;

/// Asks a run to go on with another number of workers. The group changes as soon as new workers are
/// ready; until then the run trains on.
pub(super) fn resize(
    args: &Resize,
    runs_dir: &Path,
    quiet: bool,
    out: &mut dyn Write,
) -> CommandResult {
    let standing = Standing::find(runs_dir, &args.name.run)?;
    let request = ControlRequest::Resize(args.size);
    ask(&standing, request, Patience::new(args.timeout))?;
    if !quiet {
        let name = &standing.summary.name;
        let plural = if args.size == 1 { "" } else { "s" };
        writeln!(out, "{name} goes on with {} worker{plural}", args.size)?;
    }
    Ok(Outcome::Done)
}
