//! Steps of a training, with nothing around them.

use std::sync::Arc;
use std::time::Instant;

use super::spread::Spread;
use crate::collective::Solo;
use crate::config::{Config, Every, Length};
use crate::data::Dataset;
use crate::model::Network;
use crate::ops::{self, Limits};
use crate::plan::nodes_max;
use crate::run::wire::Phase;
use crate::run::{Command, Event, Fault, Phases, Place, Rank, Step, StepReport, WorldSize};
use crate::train::{Ended, Job, Reporter, Trainee};

/// What the steps of a training cost.
#[derive(Clone, Debug)]
pub struct Training {
    /// The device, in words.
    pub device: String,
    /// Trainable numbers.
    pub parameters: u64,
    /// Samples of a step, on average.
    pub samples: f64,
    /// Tokens of a step, on average; 0 where there are none.
    pub tokens: f64,
    /// Wall time from one step to the next, in seconds.
    pub seconds: Spread,
    /// Median of each phase, in seconds. What is left over of a step is told apart nowhere.
    pub phases: Phases,
    /// Floating-point operations that a step needs at least.
    pub flops: f64,
    /// Bytes that a step moves at least.
    pub bytes: f64,
    /// Most memory that this process held until the last step, in bytes; 0 where the system does not
    /// say.
    pub peak_bytes: u64,
    /// What the device reaches.
    pub limits: Limits,
}

impl Training {
    /// Floating-point operations per second.
    #[must_use]
    pub fn flops_per_s(&self) -> f64 {
        self.flops / self.seconds.median
    }

    /// Bytes per second.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes / self.seconds.median
    }

    /// The shortest time that the device could need for a step, as a share of the time it needed: its
    /// arithmetic at the rate of matrix products or its bytes at that of copies, whichever is longer.
    #[must_use]
    pub fn limit_share(&self) -> f64 {
        let arithmetic = self.flops_per_s() / self.limits.flops_per_s;
        arithmetic.max(self.bytes_per_s() / self.limits.bytes_per_s)
    }
}

/// Trains for `warmup` steps and then `steps` more, which are measured; both as one worker of one run,
/// without evaluations and checkpoints. Then measures the device.
///
/// # Errors
///
/// As a run: when the data cannot be read, config and data do not fit together, the device fails, or
/// a loss is not finite.
pub fn training(config: &Config, warmup: u64, steps: u64) -> Result<Training, Fault> {
    let config = without_pauses(config.clone(), warmup.saturating_add(steps));
    let resources = &config.resources;
    let device = ops::device::open(resources.backend, 0, resources.threads)?;
    let dataset = Arc::new(Dataset::open(&config.data, config.seed, None)?);
    let network = Network::expand(&config.model, dataset.input(), dataset.target())?;
    let mut stopwatch = Stopwatch::new(warmup, steps);
    let job = Job {
        config: &config,
        config_sha256: "",
        dataset: Arc::clone(&dataset),
        device: device.clone(),
        checkpoints: None,
        checkpoint: Box::new(|_: &mut dyn Reporter| Ok(None)),
        slot: Rank::new(0),
    };
    let mut trainee = Trainee::new(job, &mut stopwatch)?;
    let train = &config.train;
    let nodes = nodes_max(train.shards, WorldSize::new(1), train.reduction);
    let alone = Box::new(Solo::new(trainee.vector_len(), nodes));
    if trainee.train(alone, &mut stopwatch)? == Ended::Interrupted {
        return Err(Fault::internal("a worker that is alone was interrupted"));
    }
    // Weights and batches are given back before the matrices of the measurement are made.
    drop(trainee);
    let limits = ops::measure(&device)?;
    let samples = mean(stopwatch.reports.iter().map(|report| report.samples));
    Ok(Training {
        device: ops::device::describe(&device),
        parameters: network.parameter_count() as u64,
        samples,
        tokens: mean(stopwatch.reports.iter().map(|report| report.tokens)),
        seconds: Spread::of(stopwatch.seconds.iter().copied()),
        phases: stopwatch.phases(),
        flops: to_f64(network.work().total()) * samples,
        bytes: to_f64(network.least_bytes(&config.optimizer, rounded(samples))),
        peak_bytes: stopwatch.peak_bytes,
        limits,
    })
}

/// The config of a training that only trains, and goes on after `steps` steps, where it is stopped.
fn without_pauses(mut config: Config, steps: u64) -> Config {
    config.train.length = Length::Steps(steps.saturating_add(1));
    config.train.early_stopping = None;
    config.eval.every = Every::Never;
    config.checkpoint.every = Every::Never;
    config.checkpoint.keep.best = 0;
    config.log.every = 1;
    config
}

/// Listens to a training, takes its times and ends it.
struct Stopwatch {
    warmup: u64,
    steps: u64,
    /// When the last step ended, or the first began.
    last: Instant,
    /// Finished steps, those of the warm-up included.
    finished: u64,
    /// Wall time of each measured step.
    seconds: Vec<f64>,
    /// What each of them said.
    reports: Vec<StepReport>,
    peak_bytes: u64,
}

impl Stopwatch {
    fn new(warmup: u64, steps: u64) -> Self {
        Self {
            warmup,
            steps,
            last: Instant::now(),
            finished: 0,
            seconds: Vec::new(),
            reports: Vec::new(),
            peak_bytes: 0,
        }
    }

    fn phases(&self) -> Phases {
        let median = |of: fn(&Phases) -> f64| {
            Spread::of(self.reports.iter().map(|report| of(&report.phases))).median
        };
        Phases {
            data: median(|phases| phases.data),
            forward: median(|phases| phases.forward),
            backward: median(|phases| phases.backward),
            reduce: median(|phases| phases.reduce),
            optimizer: median(|phases| phases.optimizer),
            checkpoint: 0.0,
        }
    }
}

impl Reporter for Stopwatch {
    fn event(&mut self, _: Option<Place>, event: Event) {
        match event {
            Event::TrainingBegan { .. } => self.last = Instant::now(),
            Event::StepFinished(report) => {
                let now = Instant::now();
                let seconds = now.duration_since(self.last).as_secs_f64();
                self.last = now;
                self.finished += 1;
                if self.finished > self.warmup {
                    self.seconds.push(seconds);
                    self.reports.push(report);
                }
            }
            Event::MemoryMeasured { peak_bytes, .. } => {
                self.peak_bytes = self.peak_bytes.max(peak_bytes);
            }
            _ => {}
        }
    }

    fn agreed(&mut self) {}

    fn command(&mut self) -> Option<Command> {
        (self.finished >= self.warmup.saturating_add(self.steps)).then_some(Command::Stop)
    }

    fn phase(&mut self, _: Step, _: Phase) {}
}

fn mean(values: impl ExactSizeIterator<Item = u64>) -> f64 {
    let count = values.len().max(1) as u64;
    to_f64(values.sum()) / to_f64(count)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a step stay below 2^53"
)]
fn to_f64(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of counts"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}
