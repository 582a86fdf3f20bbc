//! From the job to its outcome.

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use super::channel::{Channel, Reports};
use super::panics;
use crate::checkpoint::{self, Snapshot};
use crate::config::{self, Config, Source};
use crate::data::Dataset;
use crate::ops;
use crate::run::wire::{FromWorker, Job, Outcome, WIRE_VERSION};
use crate::run::{Event, Fault, RunDir};
use crate::store::Lock;
use crate::train::{self, Reporter};

/// The whole life of a worker process. Its only argument is the hidden command; everything else comes
/// through standard input.
///
/// # Errors
///
/// The fault that ended the training, after it was reported. It decides the exit code, and is worth
/// printing: the output of a worker is its log.
pub fn main() -> Result<(), Fault> {
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

/// Turns a panic into a fault.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panics::fault()))
}

fn work(job: &Job, reports: &mut Reports<'_>) -> Result<Outcome, Fault> {
    let config = read_config(job)?;
    let dir = RunDir::new(&job.run_dir);
    let _lock = Lock::take_worker(&dir, job.rank)?;
    // The device takes a while to open on a GPU, the data on a disk: side by side.
    let (device, dataset) = thread::scope(|scope| {
        let device = scope.spawn(|| ops::device::open(config.resources.backend, job.threads));
        let dataset = Dataset::open(&config.data, config.seed, Some(&dir.prepared()));
        let device = device.join().unwrap_or_else(|_| Err(panics::fault()));
        (device, dataset)
    });
    let dataset = Arc::new(dataset?);
    reports.event(Event::DataPrepared {
        summary: Box::new(dataset.summary().clone()),
    });
    let checkpoint = find_checkpoint(&dir.checkpoints(), job.checkpoint.as_deref(), reports)?;
    let training = train::Job {
        config: &config,
        config_sha256: &job.config_sha256,
        dataset,
        device: device?,
        checkpoints: &dir.checkpoints(),
        checkpoint,
    };
    train::train(training, reports)
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
    reports: &mut Reports<'_>,
) -> Result<Option<(String, Snapshot)>, Fault> {
    if let Some(name) = named {
        let snapshot = checkpoint::load(&folder.join(name))?;
        return Ok(Some((name.to_string(), snapshot)));
    }
    let (found, rejected) = checkpoint::newest_good(folder)?;
    let none_left = found.is_none() && !rejected.is_empty();
    let count = rejected.len();
    for (checkpoint, reason) in rejected {
        reports.event(Event::CheckpointRejected { checkpoint, reason });
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
