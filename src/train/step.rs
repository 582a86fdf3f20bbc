//! The loop: one optimiser step after another, and what happens at the boundaries between them.

use std::collections::BTreeMap;
use std::time::Instant;

use super::accumulate::{Totals, accumulate, to_f64};
use super::due::Due;
use super::evaluate::evaluate;
use super::job::Reporter;
use super::learner::Learner;
use super::memory::MemoryWatch;
use super::save::Saver;
use super::watch::MetricWatch;
use super::{clip, nan};
use crate::checkpoint::{STATE_VERSION, Snapshot, TrainState};
use crate::config::Config;
use crate::data::{Dataset, Part, Prefetcher, StepBatch, Target};
use crate::plan::{Timetable, schedule};
use crate::run::wire::{Outcome, Phase};
use crate::run::{Command, Event, Fault, Phases, Step, StepReport};

/// A training that is under way.
pub(super) struct Session<'a> {
    pub(super) config: &'a Config,
    pub(super) config_sha256: &'a str,
    pub(super) dataset: &'a Dataset,
    pub(super) timetable: Timetable,
    pub(super) learner: Learner,
    pub(super) batches: Prefetcher,
    pub(super) watch: MetricWatch,
    pub(super) saver: Saver,
    pub(super) evaluation: Due,
    pub(super) memory: MemoryWatch,
    /// Finished steps.
    pub(super) step: Step,
    /// Seconds that checkpoints took since the last report.
    pub(super) carried_seconds: f64,
    pub(super) reporter: &'a mut dyn Reporter,
}

impl Session<'_> {
    /// Trains to the end.
    pub(super) fn run(&mut self) -> Result<Outcome, Fault> {
        if let Some(outcome) = self.obey()? {
            return Ok(outcome);
        }
        while self.step.get() < self.timetable.steps_total() {
            self.reporter.phase(self.step, Phase::Stepping);
            let report = self.advance()?;
            self.step = report.step;
            self.report(report);
            self.evaluate_if_due()?;
            let ended = self.ended();
            if ended.is_some() {
                self.evaluate_test()?;
            }
            if ended.is_some() || self.saver.is_due(self.step, &self.timetable) {
                self.save(ended.is_some())?;
            }
            if let Some(outcome) = ended {
                return Ok(outcome);
            }
            if let Some(outcome) = self.obey()? {
                return Ok(outcome);
            }
        }
        // Only reached when there was no step to make: the config was made shorter.
        self.evaluate_if_due()?;
        self.evaluate_test()?;
        self.save(true)?;
        Ok(Outcome::Completed)
    }

    /// One optimiser step.
    fn advance(&mut self) -> Result<StepReport, Fault> {
        let start = Instant::now();
        let mut phases = Phases::default();
        let batch = self.batches.next()?;
        phases.data = start.elapsed().as_secs_f64();

        let totals = accumulate(&self.learner, &batch, self.config.seed, &mut phases)?;
        let weight = to_f64(totals.weight);
        let norm = clip::norm(&totals.gradient, 1.0 / weight)?;
        if !(totals.loss.is_finite() && norm.is_finite()) {
            return Err(nan::diagnose(self, &batch, &totals));
        }

        let clock = Instant::now();
        let scale = clip::factor(norm, self.config.train.clip_norm) / weight;
        let learning_rate = schedule::learning_rate(
            &self.config.schedule,
            self.config.optimizer.learning_rate(),
            &self.timetable,
            self.step,
        );
        let (loss, metrics) = (totals.loss / weight, training_metrics(&totals));
        let samples = batch.plan.samples.len() as u64;
        self.learner.update(totals.gradient, scale, learning_rate)?;
        self.learner.follow(totals.statistics, to_f64(samples));
        self.learner.wait()?;
        phases.optimizer = clock.elapsed().as_secs_f64();
        phases.checkpoint = std::mem::take(&mut self.carried_seconds);
        Ok(StepReport {
            step: self.step.next(),
            epoch: batch.plan.epoch,
            samples,
            tokens: tokens(&batch, totals.weight),
            loss,
            learning_rate,
            gradient_norm: norm,
            seconds: start.elapsed().as_secs_f64() + phases.checkpoint,
            phases,
            metrics,
        })
    }

    /// Reports a step; those between two recorded ones say only that they are done.
    fn report(&mut self, report: StepReport) {
        let every = u64::from(self.config.log.every.max(1));
        let last = self.timetable.steps_total();
        if self.step.get().is_multiple_of(every) || self.step.get() == last {
            self.reporter.event(Event::StepFinished(report));
        }
        self.saver.poll(self.reporter);
        if let Some(event) = self.memory.look(false) {
            self.reporter.event(event);
        }
    }

    /// How training ends at this step, if it does.
    fn ended(&self) -> Option<Outcome> {
        if self.step.get() >= self.timetable.steps_total() {
            Some(Outcome::Completed)
        } else if self.watch.stops() {
            Some(Outcome::EarlyStopped)
        } else {
            None
        }
    }

    /// Evaluates the validation part when the config says so, and at the end.
    fn evaluate_if_due(&mut self) -> Result<(), Fault> {
        let scheduled = self.evaluation.at(self.step, &self.timetable);
        let last = self.step.get() >= self.timetable.steps_total();
        if !scheduled && !last {
            return Ok(());
        }
        if let Some(metrics) = self.evaluate(Part::Validation)? {
            for event in self.watch.take(self.step, &metrics, scheduled) {
                self.reporter.event(event);
            }
        }
        self.evaluation.done();
        Ok(())
    }

    fn evaluate_test(&mut self) -> Result<(), Fault> {
        self.evaluate(Part::Test).map(|_| ())
    }

    /// Metrics of a part; `None` when there is no such part.
    fn evaluate(&mut self, part: Part) -> Result<Option<BTreeMap<String, f64>>, Fault> {
        let samples = self.dataset.samples(part);
        if samples == 0 {
            return Ok(None);
        }
        self.reporter.phase(self.step, Phase::Evaluating);
        let start = Instant::now();
        let metrics = evaluate(&self.learner, self.config, self.dataset, part)?;
        self.reporter.event(Event::Evaluated {
            step: self.step,
            epoch: self.epoch(),
            split: part.split().to_string(),
            samples,
            seconds: start.elapsed().as_secs_f64(),
            metrics: metrics.clone(),
        });
        Ok(Some(metrics))
    }

    /// Epoch of the step that was finished last.
    fn epoch(&self) -> crate::run::Epoch {
        let before = Step::new(self.step.get().saturating_sub(1));
        self.timetable.epoch(before)
    }

    /// Writes a checkpoint of this step, unless there is one.
    fn save(&mut self, ended: bool) -> Result<(), Fault> {
        if self.saver.has(self.step) {
            return Ok(());
        }
        self.reporter.phase(self.step, Phase::Saving);
        let began = Instant::now();
        let snapshot = Snapshot {
            step: self.step,
            model: self.learner.model_bytes()?,
            optimizer: self.learner.optimizer_bytes()?,
            state: TrainState {
                version: STATE_VERSION,
                step: self.step,
                epoch: self.timetable.epoch(self.step),
                samples_seen: self.timetable.samples_seen(self.step),
                config_sha256: self.config_sha256.to_string(),
                data_fingerprint: self.dataset.summary().fingerprint.clone(),
                early_stopping: self.watch.memory.clone(),
                best: self.watch.best.clone(),
                last_metrics: self.watch.last_metrics.clone(),
                ended,
            },
            metric: self.watch.checkpoint_metric(),
        };
        self.saver.submit(snapshot, began, self.reporter);
        self.carried_seconds += began.elapsed().as_secs_f64();
        self.reporter.phase(self.step, Phase::Stepping);
        Ok(())
    }

    /// Does what was asked since the last step.
    fn obey(&mut self) -> Result<Option<Outcome>, Fault> {
        while let Some(command) = self.reporter.command() {
            let outcome = match command {
                Command::Pause => Some(Outcome::Paused),
                Command::Stop => Some(Outcome::Stopped),
                Command::Checkpoint => None,
            };
            self.save(false)?;
            if outcome.is_some() {
                return Ok(outcome);
            }
        }
        Ok(None)
    }

    /// Waits for checkpoints and says the last words, however training ended.
    pub(super) fn end(&mut self, outcome: Result<Outcome, Fault>) -> Result<Outcome, Fault> {
        self.reporter.phase(self.step, Phase::Saving);
        let saved = self.saver.finish(self.step, self.reporter);
        if let Some(event) = self.memory.look(true) {
            self.reporter.event(event);
        }
        // A fault of training says more than one of its last checkpoint.
        let outcome = outcome?;
        saved.map(|()| outcome)
    }
}

/// Training metrics beside the loss, from the same forward pass.
fn training_metrics(totals: &Totals) -> BTreeMap<String, f64> {
    let accuracy = totals.hits.map(|hits| to_f64(hits) / to_f64(totals.weight));
    accuracy
        .map(|accuracy| ("accuracy".to_string(), accuracy))
        .into_iter()
        .collect()
}

/// Tokens that count in a batch; 0 where there are none.
fn tokens(batch: &StepBatch, weight: u64) -> u64 {
    let tokens = batch
        .shards
        .iter()
        .any(|shard| matches!(shard.target, Target::Tokens(_)));
    if tokens { weight } else { 0 }
}
