//! `trainer show`: one run on one page.

use std::io::Write;
use std::path::Path;

use crate::ui;

use super::args::Query;
use super::checkpoints;
use super::json::{self, RunJson};
use super::outcome::{CommandResult, Outcome};
use super::screen::Screen;
use super::select::Standing;

/// Prints a run. Only JSON says whether checkpoints verify: that takes as long as reading them.
pub(super) fn show(args: &Query, runs_dir: &Path, out: &mut dyn Write) -> CommandResult {
    let standing = Standing::find(runs_dir, &args.name.run)?;
    let found = checkpoints::look(&standing, args.json)?;
    if args.json {
        json::pretty(&RunJson::full(&standing, &found), out)?;
    } else {
        let Screen { columns, style } = Screen::stdout();
        let directory = standing.run.root();
        ui::run(standing.row(), directory, &found, columns, style, out)?;
    }
    Ok(Outcome::Done)
}
