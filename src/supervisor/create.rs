//! A new run: its directory, whole or not at all, and its start.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;

use super::brief::Plan;
use super::cluster::{Cluster, Hub};
use super::display::Displays;
use super::launch::{Launch, Processes};
use super::queue::Wanted;
use super::recorder::Recorder;
use super::recovery::Machine;
use super::session::{Finished, Session};
use crate::collective::nccl_is_here;
use crate::config::{Config, Slots, Transport};
use crate::device::{Device, ProbeOptions, Request, Want, cores, devices};
use crate::run::wire::Network;
use crate::run::{
    Attempt, Entry, Event, Fault, Reader, RunDir, RunId, RunIdentity, RunState, Token,
};
use crate::store::{
    DIRECTORY_FORMAT, Feed, Fold, JOURNAL_FORMAT, Journal, Lock, now_ms, remove, shown_name,
};

/// Ids that are tried before a folder counts as broken.
const IDS_MAX: u32 = 16;

/// A run that is to be.
#[derive(Clone, Copy, Debug)]
pub struct NewRun<'a> {
    /// Resolved config.
    pub config: &'a Config,
    /// The config as the user wrote it.
    pub source: &'a str,
    /// Folder of runs; made when it is not there.
    pub runs_dir: &'a Path,
    /// The hosts of the run, where there are several.
    pub cluster: Option<&'a Cluster>,
}

/// Makes a run and supervises it until it ends or pauses.
///
/// # Errors
///
/// When the run directory cannot be made, or the last word cannot be recorded. A training that fails
/// is no error here: see [`Finished::fault`].
pub fn start(new: NewRun<'_>, readers: &mut [Box<dyn Reader + Send>]) -> Result<Finished, Fault> {
    let crew = Crew::of(new.config, None, new.cluster)?;
    match new.cluster {
        None => start_with(new, &crew, readers, &mut Processes),
        Some(cluster) => {
            let mut hub = Hub::open(cluster, crew.per_node)?;
            start_with(new, &crew, readers, &mut hub)
        }
    }
}

/// [`start`] with workers of a kind.
pub(super) fn start_with(
    new: NewRun<'_>,
    crew: &Crew,
    readers: &mut [Box<dyn Reader + Send>],
    launcher: &mut dyn Launch,
) -> Result<Finished, Fault> {
    let config = new.config.to_toml();
    let config_sha256 = new.config.sha256();
    let made = make(&new, &config, &config_sha256)?;
    let plan = plan(
        &made.dir,
        new.config,
        crew,
        RunState::Queued,
        Attempt::new(1),
    )?;
    let finished = supervise(plan, made, readers, launcher)?;
    discard_if_rejected(&finished);
    Ok(finished)
}

/// Removes a new run whose config or data were refused before the first step: the fault has said why,
/// and a list of runs is not the place for typing mistakes. One that cannot be removed stays as failed.
fn discard_if_rejected(finished: &Finished) {
    let refused = (finished.fault.as_ref()).is_some_and(|fault| fault.class.is_of_input());
    if refused
        && !finished.began
        && let Ok(_lock) = Lock::take(&finished.dir)
    {
        let _ = remove(&finished.dir);
    }
}

/// A run directory that this process holds.
pub(super) struct Held {
    /// Files.
    pub(super) dir: RunDir,
    /// The right to work on it.
    pub(super) lock: Lock,
    /// The journal, open.
    pub(super) journal: Journal,
    /// What the journal holds so far.
    pub(super) fold: Fold,
    /// In the journal, but not shown to anybody yet.
    pub(super) written: Vec<Entry>,
    /// Length of the journal that the index may know.
    pub(super) indexed_bytes: u64,
}

/// Runs a session with its displays.
pub(super) fn supervise(
    plan: Plan,
    held: Held,
    readers: &mut [Box<dyn Reader + Send>],
    launcher: &mut dyn Launch,
) -> Result<Finished, Fault> {
    let Held {
        dir,
        lock,
        journal,
        fold,
        written,
        indexed_bytes,
    } = held;
    thread::scope(|scope| {
        let feed = Feed::start(&dir, indexed_bytes);
        let displays = Displays::start(scope, readers);
        let recorder = Recorder::new(&dir, journal, fold, feed, displays, written);
        let finished = Session::new(plan, launcher, recorder).run();
        // Displays may still show; the run itself is done, and others may work on it.
        drop(lock);
        finished
    })
}

/// What a session is about that starts a run of this config.
///
/// # Errors
///
/// When the system gives no random numbers.
pub(super) fn plan(
    dir: &RunDir,
    config: &Config,
    crew: &Crew,
    state: RunState,
    attempt: Attempt,
) -> Result<Plan, Fault> {
    let (recovery, shards) = (config.recovery.clone(), config.train.shards.max(1));
    let network =
        match config.resources.transport {
            Transport::Tcp => Some(Network {
                address: Ipv4Addr::LOCALHOST.into(),
                token: Some(Token::random().map_err(|error| {
                    Fault::machine(format!("cannot read random numbers: {error}"))
                })?),
            }),
            Transport::Auto | Transport::Shm | Transport::Nccl => None,
        };
    let mut machine = Machine::new(recovery, state, attempt, crew.workers, shards);
    machine.order = config.train.reduction;
    Ok(Plan {
        dir: dir.clone(),
        config: config.to_toml(),
        config_sha256: config.sha256(),
        machine,
        reason: "the run was started".to_string(),
        checkpoint: None,
        probe: probe_options(config),
        shards,
        order: config.train.reduction,
        timeout_ms: timeout_ms(config),
        threads: config.resources.threads,
        per_node: crew.per_node,
        network,
        wanted: crew.wanted(config, &shown_name(dir)),
    })
}

/// How many workers a run has, and where.
pub(super) struct Crew {
    /// All of them.
    pub(super) workers: u32,
    /// Those of one host.
    pub(super) per_node: u32,
    /// Devices of this host that runs share out among themselves; none where they need not.
    devices: Vec<Device>,
}

impl Crew {
    /// Of a config, with `slots` workers of each host or those of the config.
    ///
    /// # Errors
    ///
    /// When there are more workers than shards, or nothing to exchange gradients through.
    pub(super) fn of(
        config: &Config,
        slots: Option<u32>,
        cluster: Option<&Cluster>,
    ) -> Result<Self, Fault> {
        if config.resources.transport == Transport::Nccl {
            nccl_is_here()?;
        }
        let shards = config.train.shards.max(1);
        let devices = devices(config.resources.backend.as_str());
        let nodes = cluster.map_or(1, |cluster| cluster.nodes);
        let per_node = slots.unwrap_or(match config.resources.slots {
            Slots::Count(count) => count,
            Slots::All => {
                let count = u32::try_from(devices.len()).unwrap_or(u32::MAX);
                let there_are = if count > 0 { count } else { cores() };
                there_are.min((shards / nodes).max(1))
            }
        });
        let workers = per_node.saturating_mul(nodes);
        if workers > shards {
            return Err(Fault::usage(format!(
                "{workers} workers ({per_node} on each of {nodes} nodes) cannot share {shards} shards"
            ))
            .advise(format!(
                "set train.shards to {workers} or more; another number of shards is another run"
            )));
        }
        if !devices.is_empty() && devices.len() < per_node as usize {
            return Err(Fault::machine(format!(
                "{per_node} workers need a device each, and this machine has {}",
                devices.len()
            ))
            .advise("lower resources.slots; `trainer slots` lists the devices"));
        }
        Ok(Self {
            workers,
            per_node,
            devices,
        })
    }

    /// The devices that a run called `name` takes before it begins.
    fn wanted(&self, config: &Config, name: &str) -> Option<Wanted> {
        let want = match config.resources.devices.as_slice() {
            [] => Want::Count(self.per_node),
            named => Want::These(named.to_vec()),
        };
        (!self.devices.is_empty()).then(|| Wanted {
            devices: self.devices.clone(),
            request: Request {
                name: name.to_string(),
                priority: i32::try_from(config.resources.priority).unwrap_or(0),
                want,
            },
        })
    }
}

/// Longest time that a worker waits for the others of its group. The supervisor finds out much sooner
/// who is missing; this is for the case that it does not.
fn timeout_ms(config: &Config) -> u64 {
    const NEVER: u64 = 1_000_000_000_000;
    match config.recovery.hang_timeout_s {
        0 => NEVER,
        seconds => seconds.saturating_mul(2_000).saturating_add(10_000),
    }
}

/// Facts that only the config knows.
fn probe_options(config: &Config) -> ProbeOptions {
    let threads = match config.resources.threads {
        0 => cores(),
        threads => threads,
    };
    ProbeOptions {
        backend: config.resources.backend.as_str().to_string(),
        threads,
    }
}

/// Makes the directory under a hidden name, fills and locks it, and gives it its name: nobody sees
/// half a run, and no two runs get one name.
fn make(new: &NewRun<'_>, config: &str, config_sha256: &str) -> Result<Held, Fault> {
    let runs = new.runs_dir;
    fs::create_dir_all(runs).map_err(|error| Fault::io("make", runs, &error))?;
    for _ in 0..IDS_MAX {
        let id = RunId::new();
        let name = format!("{}-{}", new.config.name, id.short());
        let hidden = RunDir::new(runs.join(format!(".{name}.new")));
        let dir = RunDir::new(runs.join(&name));
        match fs::create_dir(hidden.root()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(Fault::io("make", hidden.root(), &error)),
        }
        let filled = fill(&hidden, id, &name, config_sha256, new.source, config);
        let named = filled.and_then(|held| match fs::rename(hidden.root(), dir.root()) {
            Ok(()) => Ok(Some(held)),
            Err(error) if is_taken(&error) => Ok(None),
            Err(error) => Err(Fault::io("make", dir.root(), &error)),
        });
        if let Ok(Some(mut held)) = named {
            held.journal.renamed(&dir);
            held.dir = dir;
            return Ok(held);
        }
        let _ = fs::remove_dir_all(hidden.root());
        named?;
    }
    Err(Fault::machine(format!(
        "no free name for a run in {}",
        runs.display()
    )))
}

fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists
            | io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::NotADirectory
    )
}

/// Writes the files of a new run, takes its lock and starts its journal.
fn fill(
    dir: &RunDir,
    id: RunId,
    name: &str,
    config_sha256: &str,
    source: &str,
    config: &str,
) -> Result<Held, Fault> {
    let identity = RunIdentity {
        format: DIRECTORY_FORMAT,
        id,
        name: name.to_string(),
        created_ms: now_ms(),
    };
    let identity = serde_json::to_string_pretty(&identity)
        .map_err(|error| Fault::internal(error.to_string()))?;
    let write = |path: &Path, text: &str| {
        fs::write(path, text).map_err(|error| Fault::io("write", path, &error))
    };
    write(&dir.identity(), &(identity + "\n"))?;
    write(&dir.config(), config)?;
    write(&dir.config_source(), source)?;
    for folder in [dir.logs(), dir.checkpoints()] {
        fs::create_dir(&folder).map_err(|error| Fault::io("make", &folder, &error))?;
    }
    let lock = Lock::take(dir)?;
    let mut journal = Journal::create(dir)?;
    let created = Event::RunCreated {
        format: JOURNAL_FORMAT,
        id,
        name: name.to_string(),
        config_sha256: config_sha256.to_string(),
    };
    Ok(Held {
        dir: dir.clone(),
        lock,
        written: write_first(&mut journal, vec![(Attempt::new(1), created)])?,
        journal,
        fold: Fold::default(),
        indexed_bytes: 0,
    })
}

/// Writes the first events of a session. Here a disk that refuses is an error: nothing has begun.
pub(super) fn write_first(
    journal: &mut Journal,
    events: Vec<(Attempt, Event)>,
) -> Result<Vec<Entry>, Fault> {
    let entries = events
        .into_iter()
        .filter_map(|(attempt, event)| journal.append(event, attempt))
        .collect();
    match journal.flush().pop() {
        None => Ok(entries),
        Some(trouble) => Err(Fault::machine(trouble).advise("free some disk space")),
    }
}
