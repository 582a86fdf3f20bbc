//! A run as a display needs it, folded from its events. Pure: no clock, no input, no output.

use std::collections::{BTreeMap, VecDeque};

use super::human::precise;
use crate::run::{
    Attempt, Best, CheckpointInfo, Entry, Epoch, Event, RunId, RunState, RunSummary, Step,
    StepReport,
};

/// Most step reports that rates are computed over.
const WINDOW_MAX: usize = 512;
/// Reports older than this leave the window, in milliseconds.
const WINDOW_MS: u64 = 60_000;
/// Reports that stay in the window however old they are: steps may take minutes.
const WINDOW_MIN: usize = 8;
/// Weight of the newest loss in the smoothed one. The first losses count alike, or the first of all
/// would be seen for long.
const SMOOTHING: f64 = 0.1;
/// Most splits that are remembered; there are three.
const SPLITS_MAX: usize = 8;

/// A run as a display needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunView {
    /// Identity, once it is known.
    pub id: Option<RunId>,
    /// Name with short id; empty until it is known.
    pub name: String,
    /// State.
    pub state: Option<RunState>,
    /// Reason of the last transition.
    pub reason: String,
    /// Attempt.
    pub attempt: Attempt,
    /// Device the tensors live on; empty until training begins.
    pub device: String,
    /// Trainable parameters; 0 until the model was built.
    pub parameters: u64,
    /// Finished steps.
    pub step: Step,
    /// Steps of the whole run; 0 until training begins.
    pub steps_total: u64,
    /// Steps of one epoch; 0 until training begins.
    pub steps_per_epoch: u64,
    /// Epoch of the last step.
    pub epoch: Epoch,
    /// Loss of the last reported step.
    pub loss: Option<f64>,
    /// Exponential mean of the loss over about ten reports.
    pub smoothed_loss: Option<f64>,
    /// Learning rate of the last reported step.
    pub learning_rate: Option<f64>,
    /// Last evaluation by split.
    pub evaluations: BTreeMap<String, Evaluation>,
    /// Best value of the metric that checkpoints go by.
    pub best: Option<Best>,
    /// Newest checkpoint.
    pub checkpoint: Option<CheckpointInfo>,
    /// Checkpoints written during this attempt.
    pub checkpoints_written: u64,
    /// Step and reason of a checkpoint that failed, until one is written again. An alarm: every
    /// display shows it.
    pub checkpoint_failure: Option<(Step, String)>,
    /// Warnings so far.
    pub warnings: u64,
    /// Message of the last fault of this attempt.
    pub fault: Option<String>,
    /// Whether that fault is one of config or data.
    pub fault_of_input: bool,
    /// When the first entry of this attempt came, milliseconds since 1970.
    pub began_ms: u64,
    /// When the last entry came.
    pub updated_ms: u64,
    window: VecDeque<Sample>,
    /// Losses in `smoothed_loss`.
    smoothed_over: u32,
}

/// One evaluation of one split.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Finished steps.
    pub step: Step,
    /// Values by name.
    pub metrics: BTreeMap<String, f64>,
}

/// What rates need of a step report.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    time_ms: u64,
    step: Step,
    samples: u64,
    tokens: u64,
    seconds: f64,
}

impl RunView {
    /// The view of a recorded run, before any further event.
    #[must_use]
    pub fn of(summary: &RunSummary) -> Self {
        let mut view = Self {
            id: Some(summary.id),
            name: summary.name.clone(),
            state: Some(summary.state),
            reason: summary.reason.clone(),
            attempt: summary.attempts,
            parameters: summary.parameters,
            step: summary.step,
            steps_total: summary.steps_total,
            steps_per_epoch: summary.steps_per_epoch,
            best: summary.best.clone(),
            checkpoint: summary.checkpoints.last().cloned(),
            updated_ms: summary.updated_ms,
            ..Self::default()
        };
        view.epoch = Epoch::new(
            summary
                .step
                .get()
                .saturating_sub(1)
                .checked_div(summary.steps_per_epoch)
                .unwrap_or(0),
        );
        for (split, values) in summary.metrics.iter().take(SPLITS_MAX) {
            let step = values.values().map(|point| point.step).max();
            let metrics = values
                .iter()
                .map(|(name, point)| (name.clone(), point.value))
                .collect();
            if let (Some(step), true) = (step, split != crate::run::SPLIT_TRAIN) {
                let evaluation = Evaluation { step, metrics };
                view.evaluations.insert(split.clone(), evaluation);
            }
        }
        view
    }

    /// Takes the next event.
    pub fn take(&mut self, entry: &Entry) {
        if entry.attempt != self.attempt || self.began_ms == 0 {
            self.attempt = entry.attempt;
            self.began_ms = entry.time_ms;
            self.checkpoints_written = 0;
            self.fault = None;
        }
        self.updated_ms = entry.time_ms;
        match &entry.event {
            Event::RunCreated { id, name, .. } => {
                self.id = Some(*id);
                self.name.clone_from(name);
                self.state.get_or_insert(RunState::Queued);
            }
            Event::StateChanged { to, reason, .. } => {
                self.state = Some(*to);
                self.reason.clone_from(reason);
            }
            Event::ModelBuilt { parameters, .. } => self.parameters = *parameters,
            Event::TrainingBegan {
                step,
                steps_total,
                steps_per_epoch,
                device,
                ..
            } => {
                self.steps_total = *steps_total;
                self.steps_per_epoch = *steps_per_epoch;
                self.device.clone_from(device);
                self.go_on_from(*step);
            }
            Event::StepFinished(report) => self.take_step(report, entry.time_ms),
            Event::Evaluated {
                step,
                split,
                metrics,
                ..
            } => self.take_evaluation(*step, split, metrics),
            Event::CheckpointCommitted(info) => {
                self.checkpoint = Some(info.clone());
                self.checkpoints_written += 1;
                self.checkpoint_failure = None;
            }
            Event::CheckpointFailed { step, reason } => {
                self.checkpoint_failure = Some((*step, reason.clone()));
                self.warnings += 1;
            }
            Event::CheckpointRejected { .. } | Event::Warned { .. } => self.warnings += 1,
            Event::Improved {
                step,
                metric,
                value,
            } => {
                self.best = Some(Best {
                    metric: metric.clone(),
                    value: *value,
                    step: *step,
                });
            }
            Event::FaultRaised { fault } => {
                self.fault = Some(fault.message.clone());
                self.fault_of_input = fault.class.is_of_input();
            }
            Event::AttemptStarted { .. }
            | Event::ConfigChanged { .. }
            | Event::WorkerStarted { .. }
            | Event::WorkerExited { .. }
            | Event::DataPrepared { .. }
            | Event::CheckpointRemoved { .. }
            | Event::SlotsAwaited { .. }
            | Event::SlotsTaken { .. }
            | Event::GroupFormed { .. }
            | Event::Recovered { .. }
            | Event::MemoryMeasured { .. } => {}
        }
    }

    /// Share of the run that is done, 0 to 1; `None` until its length is known.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        (self.steps_total > 0)
            .then(|| (precise(self.step.get()) / precise(self.steps_total)).min(1.0))
    }

    /// Current epoch, from 1, and how many there are; `None` until both are known.
    #[must_use]
    pub fn epoch_of(&self) -> Option<(u64, u64)> {
        if self.steps_per_epoch == 0 || self.steps_total == 0 {
            return None;
        }
        let total = self.steps_total.div_ceil(self.steps_per_epoch);
        Some((self.epoch.get().saturating_add(1).min(total), total))
    }

    /// Training samples per second, over the last steps, without the time between them.
    #[must_use]
    pub fn samples_per_second(&self) -> Option<f64> {
        self.per_second(|sample| sample.samples)
    }

    /// Training tokens per second; `None` where there are no tokens.
    #[must_use]
    pub fn tokens_per_second(&self) -> Option<f64> {
        self.per_second(|sample| sample.tokens)
            .filter(|&rate| rate > 0.0)
    }

    /// Seconds until the last step, at the pace of the last minute (evaluations and all).
    #[must_use]
    pub fn seconds_left(&self) -> Option<f64> {
        let (first, last) = (self.window.front()?, self.window.back()?);
        let steps = last.step.get().checked_sub(first.step.get())?;
        let seconds = precise(last.time_ms.checked_sub(first.time_ms)?) / 1000.0;
        if steps == 0 || seconds <= 0.0 {
            return None;
        }
        let left = self.steps_total.saturating_sub(self.step.get());
        Some(precise(left) * seconds / precise(steps))
    }

    /// Seconds since this attempt began, as of `now_ms`.
    #[must_use]
    pub fn elapsed_seconds(&self, now_ms: u64) -> f64 {
        precise(now_ms.saturating_sub(self.began_ms)) / 1000.0
    }

    #[cfg(test)]
    pub(super) fn window_len(&self) -> usize {
        self.window.len()
    }

    fn per_second(&self, what: impl Fn(&Sample) -> u64) -> Option<f64> {
        let seconds: f64 = self.window.iter().map(|sample| sample.seconds).sum();
        let total = self.window.iter().map(what).fold(0, u64::saturating_add);
        (seconds > 0.0 && seconds.is_finite()).then(|| precise(total) / seconds)
    }

    /// An attempt continues from here, which may be before steps that were already seen.
    fn go_on_from(&mut self, step: Step) {
        self.step = step;
        self.epoch = Epoch::new(step.get().checked_div(self.steps_per_epoch).unwrap_or(0));
        self.window.clear();
        self.loss = None;
        self.smoothed_loss = None;
        self.smoothed_over = 0;
        self.evaluations
            .retain(|_, evaluation| evaluation.step <= step);
        if self.best.as_ref().is_some_and(|best| best.step > step) {
            self.best = None;
        }
    }

    fn take_step(&mut self, report: &StepReport, time_ms: u64) {
        if self
            .window
            .back()
            .is_some_and(|last| report.step <= last.step)
        {
            self.go_on_from(report.step);
        }
        self.step = report.step;
        self.epoch = report.epoch;
        self.loss = Some(report.loss);
        self.learning_rate = Some(report.learning_rate);
        if report.loss.is_finite() {
            self.smoothed_over = self.smoothed_over.saturating_add(1);
            let weight = (1.0 / f64::from(self.smoothed_over)).max(SMOOTHING);
            let before = self.smoothed_loss.unwrap_or(report.loss);
            self.smoothed_loss = Some(before + (report.loss - before) * weight);
        }
        self.window.push_back(Sample {
            time_ms,
            step: report.step,
            samples: report.samples,
            tokens: report.tokens,
            seconds: report.seconds.max(0.0),
        });
        while self.window.len() > WINDOW_MAX
            || self.window.len() > WINDOW_MIN
                && self
                    .window
                    .front()
                    .is_some_and(|first| time_ms.saturating_sub(first.time_ms) > WINDOW_MS)
        {
            self.window.pop_front();
        }
    }

    fn take_evaluation(&mut self, step: Step, split: &str, metrics: &BTreeMap<String, f64>) {
        if self.evaluations.len() < SPLITS_MAX || self.evaluations.contains_key(split) {
            let metrics = metrics.clone();
            self.evaluations
                .insert(split.to_string(), Evaluation { step, metrics });
        }
    }
}
