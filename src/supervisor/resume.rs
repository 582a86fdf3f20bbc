//! Going on with a run: after a pause, a crash, a failure, or with a changed config.

use std::fs;
use std::io;
use std::path::Path;

use super::cluster::{Cluster, Hub};
use super::create::{Crew, Held, plan, supervise, write_first};
use super::known::Known;
use super::launch::{Launch, Processes};
use super::session::Finished;
use crate::checkpoint::{list, supersede_after};
use crate::config::{Config, Source, difference, parse};
use crate::run::{
    Attempt, Event, Fault, Reader, RunDir, RunState, RunSummary, StateCause, Step, WorldSize,
};
use crate::store::{FOUND_DEAD, Journal, Lock, Reopened, file, identity};

/// A run to go on with.
#[derive(Clone, Copy, Debug)]
pub struct Resume<'a> {
    /// Its directory.
    pub dir: &'a RunDir,
    /// Directory name of the checkpoint to go back to; without one the newest good one is used.
    pub checkpoint: Option<&'a str>,
    /// Another config with the text it was read from; without one the run's own is used.
    pub config: Option<(&'a Config, &'a str)>,
    /// Whether that config may differ from the run's own.
    pub allow_config_change: bool,
    /// Workers of this attempt on each host, instead of the config's number.
    pub slots: Option<u32>,
    /// The hosts of this attempt, where there are several.
    pub cluster: Option<&'a Cluster>,
}

/// Goes on with a run and supervises it until it ends or pauses. A run that is complete is left
/// alone.
///
/// # Errors
///
/// When the run is alive, its record is damaged, its config would change without permission, or the
/// checkpoint does not exist. A training that fails is no error here: see [`Finished::fault`].
pub fn resume(
    request: Resume<'_>,
    readers: &mut [Box<dyn Reader + Send>],
) -> Result<Finished, Fault> {
    let Some(cluster) = request.cluster else {
        return resume_with(request, readers, &mut Processes);
    };
    let config = match request.config {
        Some((config, _)) => config.clone(),
        None => read_config(&request.dir.config())?,
    };
    let crew = Crew::of(&config, request.slots, Some(cluster))?;
    resume_with(request, readers, &mut Hub::open(cluster, crew.per_node)?)
}

/// [`resume`] with workers of a kind.
pub(super) fn resume_with(
    request: Resume<'_>,
    readers: &mut [Box<dyn Reader + Send>],
    launcher: &mut dyn Launch,
) -> Result<Finished, Fault> {
    let dir = request.dir;
    identity(dir)?;
    let lock = Lock::take(dir)?;
    let Reopened {
        mut journal,
        fold,
        notes,
    } = Journal::open(dir)?;
    let summary = fold
        .summary()
        .cloned()
        .ok_or_else(|| Fault::damaged("the journal says nothing"))?;
    let own = own_config(dir, &summary)?;
    let changes = changes(&request, &own)?;
    let ended = matches!(summary.state, RunState::Completed | RunState::EarlyStopped);
    if ended && changes.is_empty() && request.checkpoint.is_none() {
        // Other hosts that came for it have nothing to do either, which is no fault.
        launcher.finish(0);
        return Ok(ended_before(dir, &summary));
    }
    let config = match request.config {
        Some((config, _)) if !changes.is_empty() => config,
        _ => &own,
    };
    // What is refused here leaves the run as it was.
    let crew = Crew::of(config, request.slots, request.cluster)?;
    let attempt = summary.attempts.next();
    let mut first = left_behind(notes, &summary);
    first.extend(checkpoint_events(dir, &summary, request.checkpoint)?.map(|e| (attempt, e)));
    if let Some((config, source)) = request.config
        && !changes.is_empty()
    {
        write_next_config(dir, config, source)?;
        let event = Event::ConfigChanged {
            config_sha256: config.sha256(),
            changes: changes.clone(),
        };
        first.push((attempt, event));
    }
    // A run that still claims to live has no supervisor: this process holds the lock.
    let state = match summary.state {
        state if state.is_live() => RunState::Failed,
        state => state,
    };
    let mut plan = plan(dir, config, &crew, state, attempt)?;
    plan.machine.known = Known::of(&summary);
    plan.machine.world = (summary.workers > 0).then(|| WorldSize::new(summary.workers));
    plan.reason = "the run was resumed".to_string();
    plan.checkpoint = request.checkpoint.map(ToString::to_string);
    let indexed_bytes = journal.bytes();
    let written = write_first(&mut journal, first)?;
    if !changes.is_empty() {
        adopt_next_config(dir)?;
    }
    let held = Held {
        dir: dir.clone(),
        lock,
        journal,
        fold,
        written,
        indexed_bytes,
    };
    supervise(plan, held, readers, launcher)
}

/// What the last attempt left to be said: repairs of the journal, and a death without a last word.
fn left_behind(notes: Vec<String>, summary: &RunSummary) -> Vec<(Attempt, Event)> {
    let attempt = summary.attempts.next();
    let mut first: Vec<(Attempt, Event)> = notes
        .into_iter()
        .map(|message| (attempt, Event::Warned { message }))
        .collect();
    first.extend(last_word(summary).map(|event| (summary.attempts, event)));
    first
}

/// What a resume of a run says that has nothing left to do.
fn ended_before(dir: &RunDir, summary: &RunSummary) -> Finished {
    Finished {
        dir: dir.clone(),
        state: summary.state,
        reason: format!("the run had ended before: {}", summary.reason),
        fault: None,
        began: summary.steps_total > 0,
    }
}

/// The run's own config, checked against the journal: the file must be what the journal says.
fn own_config(dir: &RunDir, summary: &RunSummary) -> Result<Config, Fault> {
    let path = dir.config();
    let config = read_config(&path)?;
    if config.sha256() == summary.config_sha256 {
        return Ok(config);
    }
    // A crash between the journal entry of a change and the file's new name.
    let next = next_config(dir);
    if let Ok(changed) = read_config(&next)
        && changed.sha256() == summary.config_sha256
    {
        adopt_next_config(dir)?;
        return Ok(changed);
    }
    Err(Fault::damaged(format!(
        "{} is not the config that the run was started with (SHA-256 {}, recorded {})",
        path.display(),
        config.sha256(),
        summary.config_sha256
    ))
    .advise(
        "bring the file back; to change a config, give the new one to `trainer resume \
         --allow-config-change`, and values from the environment must be what they were",
    ))
}

fn read_config(path: &Path) -> Result<Config, Fault> {
    let text = file::read_small(path)
        .and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other))
        .map_err(|error| Fault::io("read", path, &error))?;
    let source = Source {
        name: path.display().to_string(),
        text,
    };
    parse(&source, &[], &|name: &str| std::env::var(name).ok())
        .map_err(|faults| Fault::damaged(faults.render(false)))
}

fn adopt_next_config(dir: &RunDir) -> Result<(), Fault> {
    fs::rename(next_config(dir), dir.config())
        .map_err(|error| Fault::io("replace", &dir.config(), &error))
}

fn next_config(dir: &RunDir) -> std::path::PathBuf {
    dir.root().join("config.next.toml")
}

/// What a new config would change, if that is allowed.
fn changes(request: &Resume<'_>, own: &Config) -> Result<Vec<String>, Fault> {
    let changes = request
        .config
        .map(|(config, _)| difference(own, config))
        .unwrap_or_default();
    if changes.is_empty() || request.allow_config_change {
        return Ok(changes);
    }
    Err(Fault::usage(format!(
        "the config differs from the run's own:\n  {}",
        changes.join("\n  ")
    ))
    .advise("`--allow-config-change` goes on with the new one; a new run leaves this one as it is"))
}

/// Writes the changed config beside the old one. It takes its place when the journal knows.
fn write_next_config(dir: &RunDir, config: &Config, source: &str) -> Result<(), Fault> {
    file::replace(&next_config(dir), config.to_toml().as_bytes(), true)?;
    file::replace(&dir.config_source(), source.as_bytes(), true)?;
    Ok(())
}

/// What the supervisor before did not say any more.
fn last_word(summary: &RunSummary) -> Option<Event> {
    let to = summary.state.next(StateCause::FoundDead).ok()?;
    Some(Event::StateChanged {
        from: summary.state,
        to,
        cause: StateCause::FoundDead,
        reason: FOUND_DEAD.to_string(),
    })
}

/// Brings journal and disk together: checkpoints that were written or removed without a word, and
/// those that the run leaves behind when it goes back to `chosen`.
fn checkpoint_events(
    dir: &RunDir,
    summary: &RunSummary,
    chosen: Option<&str>,
) -> Result<impl Iterator<Item = Event>, Fault> {
    let folder = dir.checkpoints();
    let on_disk = list(&folder)?;
    let mut events = Vec::new();
    for known in &summary.checkpoints {
        if on_disk.iter().all(|found| found.step != known.step) {
            events.push(Event::CheckpointRemoved { step: known.step });
        }
    }
    for found in &on_disk {
        let known = summary
            .checkpoints
            .iter()
            .any(|known| known.step == found.step);
        if let (false, Ok(info)) = (known, &found.info) {
            events.push(Event::CheckpointCommitted(info.clone()));
        }
    }
    if let Some(chosen) = chosen {
        let Some(step) = on_disk
            .iter()
            .find(|found| found.directory == chosen)
            .map(|found| found.step)
        else {
            return Err(Fault::usage(format!(
                "there is no checkpoint `{chosen}` in {}",
                folder.display()
            ))
            .advise("`trainer checkpoints` lists those that exist"));
        };
        for name in supersede_after(&folder, step)? {
            events.push(Event::Warned {
                message: format!(
                    "the run goes back to step {step}; {name} is left behind as superseded-{name}"
                ),
            });
        }
        events.extend(later(&on_disk, step));
    }
    Ok(events.into_iter())
}

fn later(on_disk: &[crate::checkpoint::Listed], step: Step) -> impl Iterator<Item = Event> {
    on_disk
        .iter()
        .map(|found| found.step)
        .filter(move |&found| found > step)
        .map(|step| Event::CheckpointRemoved { step })
}
