//! `trainer run`: trains from a config file.

use std::path::Path;

use crate::supervisor::{self, NewRun};
use crate::ui::Origin;

use super::args::Run;
use super::display::Display;
use super::load::load;
use super::node::{Role, role};
use super::outcome::{CommandResult, Outcome};

/// Makes a run and supervises it to its end. The display says where it is and how to go on.
pub(super) fn run(args: &Run, runs_dir: &Path, quiet: bool) -> CommandResult {
    let Role::Holder(cluster) = role(&args.nodes, runs_dir)? else {
        return Ok(Outcome::Done);
    };
    let mut changes = args.set.set.clone();
    // The name is part of the config, so that it is checked and recorded like everything else.
    changes.extend(args.name.iter().map(|name| format!("name={name}")));
    let priority = args.priority;
    changes.extend(priority.map(|priority| format!("resources.priority={priority}")));
    changes.extend(
        args.slots
            .iter()
            .map(|slots| format!("resources.slots={slots}")),
    );
    let from_launcher = cluster.as_ref().and_then(|cluster| cluster.slots);
    changes.extend(from_launcher.map(|slots| format!("resources.slots={slots}")));
    let loaded = load(&args.config, &changes)?;
    let display = Display::choose(args.json, quiet);
    let mut readers = display.readers(Origin::New {
        runs_dir: runs_dir.to_path_buf(),
    });
    let new = NewRun {
        config: &loaded.config,
        source: &loaded.source.text,
        runs_dir,
        cluster: cluster.as_ref(),
    };
    let finished = supervisor::start(new, &mut readers)?;
    display.end(finished)
}
