//! The loop: one optimiser step after another, and what happens at the boundaries between them.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::accumulate::{Totals, accumulate, to_f64};
use super::due::Due;
use super::evaluate::evaluate;
use super::group::Group;
use super::guard;
use super::halt::Halt;
use super::job::Reporter;
use super::memory::MemoryWatch;
use super::node::ShardSums;
use super::save::Saver;
use super::state::{About, Boundary, State};
use super::{clip, nan};
use crate::config::Config;
use crate::data::{Dataset, Part, Prefetcher, StepBatch, TargetShape};
use crate::plan::{Reduction, Timetable, schedule};
use crate::run::wire::{Outcome, Phase};
use crate::run::{Command, Event, Fault, Phases, Step, StepReport};

/// A training that is under way.
pub(super) struct Session<'a> {
    pub(super) config: &'a Config,
    pub(super) about: About<'a>,
    pub(super) dataset: &'a Dataset,
    pub(super) timetable: &'a Timetable,
    pub(super) state: &'a mut State,
    pub(super) group: &'a mut Group,
    pub(super) batches: Prefetcher,
    /// Only the first worker writes checkpoints.
    pub(super) saver: Option<&'a mut Saver>,
    pub(super) evaluation: Due,
    pub(super) memory: MemoryWatch,
    /// Seconds that checkpoints took since the last report.
    pub(super) carried_seconds: f64,
    pub(super) reporter: &'a mut dyn Reporter,
}

/// What each worker tells the others in a step.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Share {
    /// How training ends before this step is made. Only the first worker's word counts.
    ends: Option<Outcome>,
    /// Whether an evaluation is due at the end of this step. Only the first worker's word counts: a
    /// clock may decide it.
    evaluate: bool,
    /// Its shards, in order.
    shards: Vec<ShardSums>,
    /// What it has seen, to be held against what it should have.
    pub(super) witness: guard::Witness,
}

impl Share {
    /// A share that is only about what was seen.
    #[cfg(test)]
    pub(super) fn witnessing(witness: guard::Witness) -> Self {
        Self {
            witness,
            ..Self::default()
        }
    }
}

impl Session<'_> {
    /// Trains to the end.
    pub(super) fn run(&mut self) -> Result<Outcome, Halt> {
        loop {
            self.cross_boundary()?;
            if let Some(outcome) = self.ended() {
                self.save(true)?;
                return Ok(outcome);
            }
            if self.checkpoint_is_due() {
                self.save(false)?;
            }
            if let Some(outcome) = self.obey()? {
                self.announce(outcome)?;
                return Ok(outcome);
            }
            self.reporter.phase(self.state.step, Phase::Stepping);
            if let Some(outcome) = self.advance()? {
                return Ok(outcome);
            }
        }
    }

    /// One optimiser step, unless the first worker says that training ends here.
    fn advance(&mut self) -> Result<Option<Outcome>, Halt> {
        let start = Instant::now();
        let mut phases = Phases::default();
        let batch = self.batches.next()?;
        phases.data = start.elapsed().as_secs_f64();

        let (seed, seat) = (self.config.seed, self.group.seat());
        let order = self.config.train.reduction;
        let reduction = Reduction::new(batch.plan.filled(), seat.world, order);
        let learner = &self.state.learner;
        let local = accumulate(learner, &batch, &reduction, seat.rank, seed, &mut phases)?;

        let clock = Instant::now();
        let shares = self.group.exchange(&self.share(&batch, local.shards)?)?;
        let evaluate = match shares.first() {
            Some(first) if first.ends.is_some() => return Ok(first.ends),
            first => first.is_some_and(|first| first.evaluate),
        };
        self.state.told.settle();
        guard::check(&shares, &batch.plan)?;
        let sum = self
            .group
            .sum(&reduction, local.nodes, &self.state.learner)?;
        let shards: Vec<ShardSums> = shares.into_iter().flat_map(|share| share.shards).collect();
        let totals = Totals::of(sum, &shards).ok_or_else(|| nothing_counts(&batch))?;
        let weight = to_f64(totals.weight);
        let norm = clip::norm(&totals.gradient, 1.0 / weight)?;
        phases.reduce += clock.elapsed().as_secs_f64();
        if !(totals.loss.is_finite() && norm.is_finite()) {
            return Err(self.diagnose(&batch, &totals)?.into());
        }

        let clock = Instant::now();
        let learning_rate = schedule::learning_rate(
            &self.config.schedule,
            self.config.optimizer.learning_rate(),
            self.timetable,
            self.state.step,
        );
        let report = StepReport {
            step: self.state.step.next(),
            epoch: batch.plan.epoch,
            samples: batch.plan.samples.len() as u64,
            tokens: self.tokens(totals.weight),
            loss: totals.loss / weight,
            learning_rate,
            gradient_norm: norm,
            seconds: 0.0,
            phases,
            metrics: training_metrics(&totals),
        };
        let scale = clip::factor(norm, self.config.train.clip_norm) / weight;
        let learner = &mut self.state.learner;
        learner.update(totals.gradient, scale, learning_rate)?;
        learner.follow(totals.statistics, to_f64(report.samples));
        learner.wait()?;
        self.state.step = report.step;
        self.state.boundary = Boundary::Open {
            scheduled: evaluate,
        };
        self.report(report, start, clock);
        Ok(None)
    }

    /// What this worker tells of its part of a step.
    fn share(&self, batch: &StepBatch, shards: Vec<ShardSums>) -> Result<Share, Fault> {
        Ok(Share {
            ends: None,
            evaluate: self.evaluation.at(batch.plan.step.next(), self.timetable),
            shards,
            witness: guard::Witness::of(batch, &self.state.learner, self.group.is_alone())?,
        })
    }

    /// Tells the others that training ends before the next step.
    fn announce(&mut self, outcome: Outcome) -> Result<(), Halt> {
        let share = Share {
            ends: Some(outcome),
            ..Share::default()
        };
        self.group.exchange(&share).map(|_| ())
    }

    /// The fault of a step that is not finite, the same for all workers.
    fn diagnose(&mut self, batch: &StepBatch, totals: &Totals) -> Result<Fault, Halt> {
        let mine = nan::diagnose(self, batch).and_then(|fault| serde_json::to_string(&fault).ok());
        let found = self.group.exchange(&mine)?.into_iter().flatten().next();
        let found = found.and_then(|text| serde_json::from_str(&text).ok());
        Ok(found.unwrap_or_else(|| nan::overflow(self, batch, totals)))
    }

    /// Reports a step; those between two recorded ones say only that they are done. `start` is when
    /// it began, `update` when its update did.
    fn report(&mut self, mut report: StepReport, start: Instant, update: Instant) {
        report.phases.optimizer = update.elapsed().as_secs_f64();
        report.phases.checkpoint = std::mem::take(&mut self.carried_seconds);
        report.seconds = start.elapsed().as_secs_f64() + report.phases.checkpoint;
        let every = u64::from(self.config.log.every.max(1));
        let last = self.timetable.steps_total();
        if report.step.get().is_multiple_of(every) || report.step.get() == last {
            self.tell(Event::StepFinished(report));
        }
        if let Some(saver) = &mut self.saver {
            saver.poll(self.reporter);
        }
        if let Some(event) = self.memory.look(false) {
            self.reporter.event(None, event);
        }
    }

    /// Says what all workers know: the first one to the supervisor, the others to themselves, for
    /// the case that it is lost.
    fn tell(&mut self, event: Event) {
        let place = self.state.told.note(self.state.step, event.clone());
        if self.group.seat().is_first() {
            self.reporter.event(Some(place), event);
        }
    }

    /// How training ends at this step, if it does.
    fn ended(&self) -> Option<Outcome> {
        if self.state.step.get() >= self.timetable.steps_total() {
            Some(Outcome::Completed)
        } else if self.state.watch.stops() {
            Some(Outcome::EarlyStopped)
        } else {
            None
        }
    }

    /// Evaluates what is to be evaluated at this step. May be interrupted and called again.
    fn cross_boundary(&mut self) -> Result<(), Halt> {
        if let Boundary::Open { scheduled } = self.state.boundary {
            self.validate(scheduled)?;
            self.state.boundary = Boundary::Validated;
        }
        if self.state.boundary == Boundary::Validated {
            if self.ended().is_some() {
                self.evaluate(Part::Test)?;
            }
            self.state.boundary = Boundary::Done;
        }
        Ok(())
    }

    /// Evaluates the validation part when the config says so, and at the end.
    fn validate(&mut self, scheduled: bool) -> Result<(), Halt> {
        let last = self.state.step.get() >= self.timetable.steps_total();
        if !scheduled && !last {
            return Ok(());
        }
        if let Some(metrics) = self.evaluate(Part::Validation)? {
            let step = self.state.step;
            for event in self.state.watch.take(step, &metrics, scheduled) {
                self.tell(event);
            }
        }
        self.evaluation.done();
        Ok(())
    }

    /// Metrics of a part; `None` when there is no such part.
    fn evaluate(&mut self, part: Part) -> Result<Option<BTreeMap<String, f64>>, Halt> {
        let samples = self.dataset.samples(part);
        if samples == 0 {
            return Ok(None);
        }
        let step = self.state.step;
        self.reporter.phase(step, Phase::Evaluating);
        let start = Instant::now();
        let learner = &self.state.learner;
        let metrics = evaluate(learner, self.config, self.dataset, part, self.group)?;
        let before = Step::new(step.get().saturating_sub(1));
        self.tell(Event::Evaluated {
            step,
            epoch: self.timetable.epoch(before),
            split: part.split().to_string(),
            samples,
            seconds: start.elapsed().as_secs_f64(),
            metrics: metrics.clone(),
        });
        Ok(Some(metrics))
    }

    fn checkpoint_is_due(&self) -> bool {
        let saver = self.saver.as_ref();
        saver.is_some_and(|saver| saver.is_due(self.state.step, self.timetable))
    }

    /// Writes a checkpoint of this step, unless there is one.
    fn save(&mut self, ended: bool) -> Result<(), Fault> {
        let Some(saver) = &mut self.saver else {
            return Ok(());
        };
        if saver.has(self.state.step) {
            return Ok(());
        }
        self.reporter.phase(self.state.step, Phase::Saving);
        let began = Instant::now();
        let snapshot = self.state.snapshot(self.about, ended)?;
        saver.submit(snapshot, began, self.reporter);
        self.carried_seconds += began.elapsed().as_secs_f64();
        self.reporter.phase(self.state.step, Phase::Stepping);
        Ok(())
    }

    /// Does what was asked since the last step. Only the first worker is asked for anything.
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

    /// Waits for checkpoints, and until all workers have come here: as long as the last checkpoint is
    /// not on the disk, the memory of the others can still replace the first one's.
    pub(super) fn end(&mut self, outcome: Result<Outcome, Halt>) -> Result<Outcome, Halt> {
        if let Some(event) = self.memory.look(true) {
            self.reporter.event(None, event);
        }
        if let Err(Halt::Regroup) = outcome {
            return outcome;
        }
        let saved = match &mut self.saver {
            Some(saver) => {
                self.reporter.phase(self.state.step, Phase::Saving);
                saver.finish(self.state.step, self.reporter)
            }
            None => Ok(()),
        };
        // A fault of training says more than one of its last checkpoint.
        let outcome = outcome?;
        saved?;
        self.reporter.phase(self.state.step, Phase::Saving);
        self.group.barrier()?;
        Ok(outcome)
    }

    /// Tokens that count in a batch of this weight; 0 where there are none.
    fn tokens(&self, weight: u64) -> u64 {
        match self.dataset.target() {
            TargetShape::NextToken { .. } => weight,
            _ => 0,
        }
    }
}

fn nothing_counts(batch: &StepBatch) -> Fault {
    Fault::training("no target of this step's batch counts")
        .at(batch.plan.step.next())
        .on_samples(&batch.plan.samples)
        .advise("check the data with `trainer data inspect`")
}

/// Training metrics beside the loss, from the same forward pass.
fn training_metrics(totals: &Totals) -> BTreeMap<String, f64> {
    let accuracy = totals.hits.map(|hits| to_f64(hits) / to_f64(totals.weight));
    accuracy
        .map(|accuracy| ("accuracy".to_string(), accuracy))
        .into_iter()
        .collect()
}
