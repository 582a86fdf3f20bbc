//! From the job to its outcome.

use std::fs::File;
use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::channel::{Channel, Next, Reports};
use super::panics;
use crate::checkpoint::{self, Snapshot};
use crate::collective::{Collective, CollectiveError, Listener, Membership, Nccl, Shm, Solo, Tcp};
use crate::config::{self, Backend, Config, Source, Transport};
use crate::data::Dataset;
use crate::ops;
use crate::run::wire::{Formation, FromWorker, Job, Network, Outcome, WIRE_VERSION};
use crate::run::{Event, Fault, RunDir, Token};
use crate::store::Lock;
use crate::train::{self, Ended, Reporter, Trainee};

/// Longest time to find all others of a group that was just formed.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time until NCCL has connected their GPUs, which looks at all ways between them first.
const NCCL_JOIN_TIMEOUT: Duration = Duration::from_mins(1);

/// The whole life of a worker process. Its only argument is the hidden command; everything else comes
/// through standard input.
///
/// # Errors
///
/// The fault that ended the training, after it was reported. It decides the exit code, and is worth
/// printing: the output of a worker is its log.
pub fn main() -> Result<(), Fault> {
    ignore_signals();
    let (channel, job) = Channel::open()?;
    let channel = Arc::new(channel);
    panics::install();
    let outcome = match channel.start() {
        Ok(mut reports) => guarded(|| work(&job, &mut reports)),
        Err(error) => Err(Fault::machine(format!("cannot start a thread: {error}"))),
    };
    match outcome {
        Ok(outcome) => {
            channel.send(&FromWorker::Done(outcome));
            Ok(())
        }
        Err(mut fault) => {
            fault.rank.get_or_insert(job.rank);
            if channel.step().get() > 0 {
                fault.step.get_or_insert(channel.step());
            }
            channel.send(&FromWorker::Failed(Box::new(fault.clone())));
            Err(fault)
        }
    }
}

/// Signals that ask a run to leave are the supervisor's business, also where a scheduler sends them to
/// every process: it lets the workers write a checkpoint. The supervisor's own death still ends them.
fn ignore_signals() {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A handler that only sets a flag. Where it cannot be set, the signal ends the worker as ever.
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
}

/// Turns a panic into a fault.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panics::fault()))
}

/// Prepares, then trains in one group after another until training ends.
fn work(job: &Job, reports: &mut Reports<'_>) -> Result<Outcome, Fault> {
    let config = read_config(job)?;
    let dir = RunDir::new(&job.run_dir);
    let _lock = Lock::take_worker(&dir, job.rank)?;
    // A worker that was given a device sees no other.
    let index = job.device.as_ref().map_or(job.rank.get(), |_| 0);
    // The device takes a while to open on a GPU, the data on a disk: side by side.
    let (device, dataset) = thread::scope(|scope| {
        let device = scope.spawn(|| ops::device::open(backend(&config), index, job.threads));
        let dataset = Dataset::open(&config.data, config.seed, Some(&dir.prepared()));
        let device = device.join().unwrap_or_else(|_| Err(panics::fault()));
        (device, dataset)
    });
    let dataset = Arc::new(dataset?);
    if job.rank.get() == 0 {
        let summary = Box::new(dataset.summary().clone());
        reports.event(None, Event::DataPrepared { summary });
    }
    let checkpoints = dir.checkpoints();
    let training = train::Job {
        config: &config,
        config_sha256: &job.config_sha256,
        dataset,
        device: device?,
        checkpoints: Some(&checkpoints),
        checkpoint: Box::new(|reporter: &mut dyn Reporter| {
            find_checkpoint(&checkpoints, job.checkpoint.as_deref(), reporter)
        }),
        slot: job.rank,
    };
    let mut trainee = Trainee::new(training, reports)?;
    loop {
        let door = job.network.as_ref().map(Door::open).transpose()?;
        let address = door.as_ref().map(|door| door.address);
        let formation = match reports.next_group(trainee.vector_len(), trainee.step(), address) {
            Next::Leave => return Ok(Outcome::Released),
            Next::Form(formation) => formation,
        };
        let Some(collective) = join(&formation, door, reports)? else {
            continue;
        };
        reports.enter(formation.number, collective.handle());
        let ended = match config.resources.transport {
            Transport::Nccl => match connect(collective, index, &formation, reports)? {
                Some(collective) => trainee.train(collective, reports),
                None => Ok(Ended::Interrupted),
            },
            Transport::Auto | Transport::Shm | Transport::Tcp => trainee.train(collective, reports),
        };
        reports.leave();
        match ended? {
            Ended::Done(outcome) => return Ok(outcome),
            Ended::Interrupted => {}
        }
    }
}

/// Where a worker waits for the others of its next group.
struct Door<'a> {
    listener: Listener,
    address: SocketAddr,
    token: &'a Token,
}

impl<'a> Door<'a> {
    fn open(network: &'a Network) -> Result<Self, Fault> {
        let refused = |error: CollectiveError| {
            let address = network.address;
            Fault::machine(format!("workers cannot meet at {address}: {error}"))
        };
        let listener = Listener::bind((network.address, 0).into()).map_err(refused)?;
        let token = network.token.as_ref();
        let token = token.ok_or_else(|| Fault::internal("a worker without the run's token"))?;
        Ok(Self {
            address: listener.local_addr().map_err(refused)?,
            listener,
            token,
        })
    }
}

/// Becomes one of a group. `None` when the others cannot be reached: the supervisor finds out who is
/// missing.
fn join(
    formation: &Formation,
    door: Option<Door<'_>>,
    reports: &mut Reports<'_>,
) -> Result<Option<Box<dyn Collective>>, Fault> {
    let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let (vector_len, nodes_max) = (size(formation.vector_len), size(formation.nodes_max));
    let seat = formation.seat;
    if seat.world.get() == 1 {
        return Ok(Some(Box::new(Solo::new(vector_len, nodes_max))));
    }
    let Some(door) = door.filter(|_| !formation.peers.is_empty()) else {
        return share(formation).map(Some);
    };
    let membership = Membership {
        rank: seat.rank,
        world: seat.world,
        peers: &formation.peers,
        token: door.token,
        vector_len,
        nodes_max,
        timeout: Duration::from_millis(formation.timeout_ms),
        join_timeout: JOIN_TIMEOUT,
    };
    match Tcp::join(&membership, door.listener) {
        Ok(tcp) => Ok(Some(Box::new(tcp))),
        Err(error) => {
            missed(formation, &error, reports);
            Ok(None)
        }
    }
}

/// From here on, sums of a group go through NCCL. `None` when the others cannot be reached.
fn connect(
    collective: Box<dyn Collective>,
    device: u32,
    formation: &Formation,
    reports: &mut Reports<'_>,
) -> Result<Option<Box<dyn Collective>>, Fault> {
    let timeout = Duration::from_millis(formation.timeout_ms);
    match Nccl::join(collective, device, timeout, NCCL_JOIN_TIMEOUT) {
        Ok(nccl) => Ok(Some(Box::new(nccl))),
        Err(error @ CollectiveError::Library { .. }) => Err(error.into()),
        Err(error) => {
            missed(formation, &error, reports);
            Ok(None)
        }
    }
}

fn missed(formation: &Formation, error: &CollectiveError, reports: &mut Reports<'_>) {
    let rank = formation.seat.rank;
    let message = format!("worker {rank} cannot join its group: {error}");
    reports.event(None, Event::Warned { message });
}

/// NCCL connects CUDA devices: without one there is nothing to fall back to.
fn backend(config: &Config) -> Backend {
    match (config.resources.transport, config.resources.backend) {
        (Transport::Nccl, Backend::Auto) => Backend::Cuda,
        (_, backend) => backend,
    }
}

/// Becomes one of a group that shares memory.
fn share(formation: &Formation) -> Result<Box<dyn Collective>, Fault> {
    let Formation {
        seat,
        segment,
        timeout_ms,
        ..
    } = formation;
    let path = segment
        .as_ref()
        .ok_or_else(|| Fault::internal("a group without a way to reach the others"))?;
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| Fault::io("open", path, &error))?;
    let shm = Shm::join(&file, seat.rank, Duration::from_millis(*timeout_ms)).map_err(|error| {
        Fault::machine(format!(
            "cannot use the memory shared by the workers: {error}"
        ))
    })?;
    Ok(Box::new(shm))
}

/// The config of the job, which must be the one that the supervisor means.
fn read_config(job: &Job) -> Result<Config, Fault> {
    if job.version != WIRE_VERSION {
        return Err(Fault::machine(format!(
            "the supervisor speaks version {} of the protocol, the worker {WIRE_VERSION}",
            job.version
        ))
        .advise(
            "the executable was replaced while the run was alive: start `trainer resume` again",
        ));
    }
    let source = Source {
        name: RunDir::new(&job.run_dir).config().display().to_string(),
        text: job.config.clone(),
    };
    let config = config::parse(&source, &[], &|name: &str| std::env::var(name).ok())
        .map_err(|faults| Fault::internal(faults.render(false)))?;
    let found = config.sha256();
    if found == job.config_sha256 {
        Ok(config)
    } else {
        Err(Fault::internal(format!(
            "the worker understood another config than the supervisor (SHA-256 {found}, not {})",
            job.config_sha256
        )))
    }
}

/// The checkpoint to go on from: the named one, else the newest that verifies, else none.
fn find_checkpoint(
    folder: &Path,
    named: Option<&str>,
    reporter: &mut dyn Reporter,
) -> Result<Option<(String, Snapshot)>, Fault> {
    if let Some(name) = named {
        let snapshot = checkpoint::load(&folder.join(name))?;
        return Ok(Some((name.to_string(), snapshot)));
    }
    let (found, rejected) = checkpoint::newest_good(folder)?;
    let none_left = found.is_none() && !rejected.is_empty();
    let count = rejected.len();
    for (checkpoint, reason) in rejected {
        reporter.event(None, Event::CheckpointRejected { checkpoint, reason });
    }
    if none_left {
        return Err(Fault::damaged(format!(
            "none of the {count} checkpoints in {} is whole",
            folder.display()
        ))
        .advise(
            "they were put aside as `rejected-…`; restore one from a copy, or `trainer resume` once \
             more to train from the beginning",
        ));
    }
    Ok(found)
}
