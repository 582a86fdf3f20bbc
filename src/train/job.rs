//! What training is given, and how it begins and ends.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;

use super::due::Due;
use super::learner::Learner;
use super::memory::MemoryWatch;
use super::metric::Meter;
use super::save::Saver;
use super::step::Session;
use super::watch::{self, MetricWatch};
use crate::checkpoint::{Snapshot, TrainState};
use crate::config::Config;
use crate::data::{Dataset, Part, Prefetcher};
use crate::ops;
use crate::plan::Timetable;
use crate::run::wire::{Outcome, Phase};
use crate::run::{Command, Event, Fault, Step};

/// Where training tells what happens, and hears what is asked of it.
pub trait Reporter {
    /// Something happened.
    fn event(&mut self, event: Event);

    /// The next command that has arrived, if any. Does not wait.
    fn command(&mut self) -> Option<Command>;

    /// What training does from now on; cheap, called at least once per step.
    fn phase(&mut self, step: Step, phase: Phase);
}

/// One training, from a fresh start or from a checkpoint.
pub struct Job<'a> {
    /// Resolved config.
    pub config: &'a Config,
    /// Its SHA-256, written into checkpoints.
    pub config_sha256: &'a str,
    /// Data.
    pub dataset: Arc<Dataset>,
    /// Where tensors live, without autodiff.
    pub device: Device,
    /// Directory that checkpoints are written to.
    pub checkpoints: &'a Path,
    /// Checkpoint to continue from, with its directory name.
    pub checkpoint: Option<(String, Snapshot)>,
}

/// Trains until the configured length, early stopping, or a command that ends it. A checkpoint
/// exists for the step it ended at.
///
/// # Errors
///
/// When config, data and checkpoint do not fit together; when a loss or gradient is not finite;
/// when data cannot be read, the device fails, or the last checkpoint cannot be written. Checkpoints
/// written before stay.
pub fn train(job: Job<'_>, reporter: &mut dyn Reporter) -> Result<Outcome, Fault> {
    let Job {
        config,
        config_sha256,
        dataset,
        device,
        checkpoints,
        checkpoint,
    } = job;
    let (name, snapshot) = checkpoint.unzip();
    let start = snapshot.as_ref().map_or(Step::new(0), |c| c.step);
    reporter.phase(start, Phase::Preparing);
    let samples = dataset.samples(Part::Train);
    if samples == 0 {
        return Err(Fault::usage("the training part of the data is empty")
            .advise("check `[data]` with `trainer data inspect`"));
    }
    let timetable = Timetable::new(config, samples);
    if let Some(snapshot) = &snapshot {
        check_data(&snapshot.state, config_sha256, &dataset, reporter)?;
    }
    let (learner, watch) = prepare(config, &dataset, &device, snapshot.as_ref(), reporter)?;
    let ended = snapshot.is_some_and(|snapshot| snapshot.state.ended);
    if let Some(outcome) = finished(ended, start, &timetable, &watch) {
        return Ok(outcome);
    }
    reporter.event(Event::TrainingBegan {
        step: start,
        steps_total: timetable.steps_total(),
        steps_per_epoch: timetable.steps_per_epoch(),
        checkpoint: name,
        device: ops::device::describe(&device),
    });
    let batches = Prefetcher::start(
        Arc::clone(&dataset),
        timetable.clone(),
        config.seed,
        start,
        config.train.prefetch as usize,
    );
    let mut session = Session {
        config,
        config_sha256,
        dataset: &dataset,
        timetable,
        learner,
        batches,
        watch,
        saver: Saver::start(checkpoints, &config.checkpoint, start),
        evaluation: Due::new(config.eval.every),
        memory: MemoryWatch::default(),
        step: start,
        carried_seconds: 0.0,
        reporter,
    };
    let outcome = session.run();
    session.end(outcome)
}

/// Model and memory, fresh or from a checkpoint.
fn prepare(
    config: &Config,
    dataset: &Dataset,
    device: &Device,
    snapshot: Option<&Snapshot>,
    reporter: &mut dyn Reporter,
) -> Result<(Learner, MetricWatch), Fault> {
    let measured = match dataset.samples(Part::Validation) {
        0 => Vec::new(),
        _ => Meter::new(dataset.target(), config.eval.top_k).names(),
    };
    watch::check(config, &measured)?;
    let mut learner = Learner::new(config, dataset.input(), dataset.target(), device)?;
    let mut watch = MetricWatch::new(&config.checkpoint, config.train.early_stopping.as_ref());
    reporter.event(Event::ModelBuilt {
        layers: learner.network.summary(),
        parameters: learner.network.parameter_count() as u64,
    });
    if let Some(snapshot) = snapshot {
        learner.restore(config, snapshot)?;
        watch.restore(&snapshot.state);
    }
    Ok((learner, watch))
}

/// How a run had ended already when its checkpoint was written, if it asks for nothing more: it died
/// between its last checkpoint and its last word, or it is resumed without being extended.
fn finished(
    ended: bool,
    step: Step,
    timetable: &Timetable,
    watch: &MetricWatch,
) -> Option<Outcome> {
    if !ended {
        None
    } else if step.get() >= timetable.steps_total() {
        Some(Outcome::Completed)
    } else if watch.stops() {
        Some(Outcome::EarlyStopped)
    } else {
        None
    }
}

/// The data must be those that the checkpoint was trained on, unless the config was changed.
fn check_data(
    state: &TrainState,
    config_sha256: &str,
    dataset: &Dataset,
    reporter: &mut dyn Reporter,
) -> Result<(), Fault> {
    let found = &dataset.summary().fingerprint;
    if *found == state.data_fingerprint {
        return Ok(());
    }
    let message = format!(
        "the data are not those that the checkpoint was trained on (fingerprint {found}, then {})",
        state.data_fingerprint
    );
    if state.config_sha256 == config_sha256 {
        return Err(Fault::damaged(message)
            .at(state.step)
            .advise("bring the files back to what they were, or start a new run"));
    }
    reporter.event(Event::Warned { message });
    Ok(())
}
