//! `trainer checkpoint`: a checkpoint of a live run now.

use std::io::Write;
use std::path::Path;

use crate::checkpoint;
use crate::run::{ControlRequest, Fault};

use super::args::Control;
use super::control::{Patience, ask};
use super::outcome::{CommandResult, Outcome};
use super::select::Standing;

/// Asks for a checkpoint and says where it is.
pub(super) fn checkpoint(
    args: &Control,
    runs_dir: &Path,
    quiet: bool,
    out: &mut dyn Write,
) -> CommandResult {
    let standing = Standing::find(runs_dir, &args.name.run)?;
    let patience = Patience::new(args.timeout);
    ask(&standing, ControlRequest::Checkpoint, patience)?;
    if quiet {
        return Ok(Outcome::Done);
    }
    let folder = standing.run.checkpoints();
    let newest = checkpoint::list(&folder).map_err(Fault::from)?.pop();
    match newest {
        Some(newest) => writeln!(out, "{}", folder.join(newest.directory).display())?,
        None => writeln!(out, "written")?,
    }
    Ok(Outcome::Done)
}
