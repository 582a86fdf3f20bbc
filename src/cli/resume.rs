//! `trainer resume`: goes on with a run, from its newest checkpoint or a named one.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::config::Config;
use crate::run::{Fault, RunDir, RunId, RunState, RunSummary};
use crate::store;
use crate::supervisor::{self, Finished};
use crate::ui::{JSON_FORMAT, Origin};

use super::args::Resume;
use super::display::Display;
use super::node::{Role, role};
use super::outcome::{CommandResult, Outcome};
use super::{json, load, select};

/// Goes on with a run and supervises it to its end.
pub(super) fn resume(
    args: &Resume,
    runs_dir: &Path,
    quiet: bool,
    out: &mut dyn Write,
) -> CommandResult {
    let Role::Holder(cluster) = role(&args.nodes, runs_dir)? else {
        return Ok(Outcome::Done);
    };
    let (dir, checkpoint) = target(&args.run, runs_dir)?;
    let before = store::summary(&dir).map_err(Fault::from)?;
    let changed = changed_config(args, &dir)?;
    let display = Display::choose(args.json, quiet);
    let mut readers = display.readers(Origin::Existing {
        directory: dir.root().to_path_buf(),
        summary: Box::new(before.clone()),
    });
    let request = supervisor::Resume {
        dir: &dir,
        checkpoint: checkpoint.as_deref(),
        config: changed
            .as_ref()
            .map(|(config, source)| (config, source.as_str())),
        allow_config_change: args.allow_config_change,
        slots: args.slots,
        cluster: cluster.as_ref(),
    };
    let finished = supervisor::resume(request, &mut readers)?;
    let attempts = store::summary(&dir).map_err(Fault::from)?.attempts;
    if attempts == before.attempts {
        return nothing_to_do(&before, &finished, display, out);
    }
    display.end(finished)
}

/// A run that is complete was left alone, and no display has said so.
fn nothing_to_do(
    run: &RunSummary,
    finished: &Finished,
    display: Display,
    out: &mut dyn Write,
) -> CommandResult {
    let RunSummary { id, name, .. } = run;
    match display {
        Display::Json => {
            let line = LeftAlone {
                format: JSON_FORMAT,
                id: *id,
                name,
                directory: finished.dir.root(),
                state: finished.state,
            };
            json::line(&line, out)?;
        }
        Display::Plain | Display::Progress => writeln!(
            out,
            "nothing to do: {name} is {}\n  to train on: `trainer resume {name} \
             --allow-config-change --set train.epochs=...`",
            finished.state
        )?,
        Display::Quiet => {}
    }
    Ok(Outcome::Done)
}

/// The only line about a run that was complete.
#[derive(Serialize)]
struct LeftAlone<'a> {
    format: u32,
    id: RunId,
    name: &'a str,
    directory: &'a Path,
    state: RunState,
}

/// The run that is meant, and the checkpoint in it if one was named by its directory.
fn target(text: &str, runs_dir: &Path) -> Result<(RunDir, Option<String>), Fault> {
    let path = Path::new(text);
    let checkpoints = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().and_then(|name| name.to_str());
    let (Some(root), Some(name)) = (checkpoints.parent(), name) else {
        return Ok((select::find(runs_dir, text)?, None));
    };
    let run = RunDir::new(root);
    if checkpoints == run.checkpoints() && run.identity().is_file() {
        if !path.is_dir() {
            return Err(
                Fault::usage(format!("there is no checkpoint {text}")).advise(format!(
                    "`trainer checkpoints list {}` shows those that exist",
                    root.display()
                )),
            );
        }
        return Ok((run, Some(name.to_string())));
    }
    Ok((select::find(runs_dir, text)?, None))
}

/// Another config with its text: a file, or the run's own, with `--set` changes.
fn changed_config(args: &Resume, dir: &RunDir) -> Result<Option<(Config, String)>, Fault> {
    if args.config.is_none() && args.set.set.is_empty() {
        return Ok(None);
    }
    let source = args.config.clone().unwrap_or_else(|| dir.config());
    let loaded = load::load(&source, &args.set.set)?;
    let text = if args.set.set.is_empty() {
        loaded.source.text
    } else {
        loaded.config.to_toml()
    };
    Ok(Some((loaded.config, text)))
}
