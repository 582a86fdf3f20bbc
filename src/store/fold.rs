//! Journal entries become the summary of a run: a pure function of the entries.

use std::collections::BTreeMap;

use super::entries::Place;
use super::history::{Restarts, for_each_value, reported_step};
use super::journal::JOURNAL_FORMAT;
use super::{Entries, StoreError};
use crate::run::{
    Attempt, Best, Entry, Event, MetricPoint, RunDir, RunId, RunState, RunSummary, Step,
};

/// A summary that grows with each entry.
#[derive(Clone, Debug)]
pub struct Fold {
    summary: Option<RunSummary>,
    restarts: Restarts,
    format: u32,
}

/// Whether a fold is still exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folded {
    /// It is.
    Exact,
    /// An attempt began before steps that are folded in already: fold the journal once more.
    Superseded,
}

impl Default for Fold {
    fn default() -> Self {
        Self::new(Restarts::default())
    }
}

impl Fold {
    /// An empty fold that knows where later attempts begin.
    #[must_use]
    pub fn new(restarts: Restarts) -> Self {
        Self {
            summary: None,
            restarts,
            format: JOURNAL_FORMAT,
        }
    }

    /// A fold that goes on from a summary.
    pub(crate) fn from_summary(summary: RunSummary) -> Self {
        Self {
            summary: Some(summary),
            ..Self::default()
        }
    }

    /// Folds the journal of a run; also says where its good part ends.
    pub(crate) fn of(dir: &RunDir) -> Result<(Self, Place), StoreError> {
        let mut fold = Self::new(Restarts::scan(dir)?);
        let mut entries = Entries::open(dir)?;
        for entry in &mut entries {
            fold.take(&entry?);
        }
        if fold.format > JOURNAL_FORMAT {
            return Err(StoreError::Newer {
                path: dir.journal(),
                found: fold.format,
                known: JOURNAL_FORMAT,
            });
        }
        if fold.summary.is_none() {
            return Err(StoreError::Damaged {
                path: dir.journal(),
                what: "no entry says which run it is of".to_string(),
            });
        }
        Ok((fold, entries.place()))
    }

    /// The summary, once the run's creation was folded in.
    #[must_use]
    pub fn summary(&self) -> Option<&RunSummary> {
        self.summary.as_ref()
    }

    /// Folds an entry in.
    pub fn take(&mut self, entry: &Entry) -> Folded {
        if let Event::RunCreated {
            format,
            id,
            name,
            config_sha256,
        } = &entry.event
        {
            self.format = *format;
            self.summary = Some(created(entry, *id, name, config_sha256));
            return Folded::Exact;
        }
        let Some(summary) = &mut self.summary else {
            return Folded::Exact;
        };
        summary.updated_ms = entry.time_ms;
        summary.entries = entry.seq + 1;
        summary.attempts = summary.attempts.max(entry.attempt);
        if let Some(step) = reported_step(&entry.event)
            && !self.restarts.survives(entry.seq, step)
        {
            return Folded::Exact;
        }
        let mut folded = Folded::Exact;
        if let Event::TrainingBegan { step, .. } = &entry.event {
            let news = self.restarts.note(entry.seq, *step);
            if news && *step < highest(summary) {
                folded = Folded::Superseded;
            }
        }
        apply(summary, &entry.event);
        folded
    }
}

/// Highest step that anything in a summary is about.
fn highest(summary: &RunSummary) -> Step {
    summary
        .metrics
        .values()
        .flat_map(BTreeMap::values)
        .map(|point| point.step)
        .chain(summary.best.as_ref().map(|best| best.step))
        .fold(summary.step, Step::max)
}

fn created(entry: &Entry, id: RunId, name: &str, config_sha256: &str) -> RunSummary {
    RunSummary {
        id,
        name: name.to_string(),
        state: RunState::Queued,
        reason: String::new(),
        created_ms: entry.time_ms,
        updated_ms: entry.time_ms,
        step: Step::new(0),
        steps_total: 0,
        steps_per_epoch: 0,
        attempts: entry.attempt.max(Attempt::new(1)),
        workers: 0,
        best: None,
        metrics: BTreeMap::new(),
        checkpoints: Vec::new(),
        config_sha256: config_sha256.to_string(),
        data_fingerprint: String::new(),
        parameters: 0,
        peak_bytes: 0,
        entries: entry.seq + 1,
    }
}

fn apply(summary: &mut RunSummary, event: &Event) {
    match event {
        Event::StateChanged { to, reason, .. } => {
            summary.state = *to;
            summary.reason.clone_from(reason);
        }
        Event::ConfigChanged { config_sha256, .. } => {
            summary.config_sha256.clone_from(config_sha256);
        }
        Event::DataPrepared { summary: data } => {
            summary.data_fingerprint.clone_from(&data.fingerprint);
        }
        Event::ModelBuilt { parameters, .. } => summary.parameters = *parameters,
        Event::TrainingBegan {
            step,
            steps_total,
            steps_per_epoch,
            ..
        } => {
            summary.step = *step;
            summary.steps_total = *steps_total;
            summary.steps_per_epoch = *steps_per_epoch;
            // A first group of one is not told of.
            summary.workers = summary.workers.max(1);
        }
        Event::GroupFormed { world_size, .. } => summary.workers = world_size.get(),
        Event::StepFinished(report) => summary.step = report.step,
        Event::CheckpointCommitted(info) => {
            summary.checkpoints.retain(|other| other.step != info.step);
            summary.checkpoints.push(info.clone());
            summary.checkpoints.sort_by_key(|info| info.step);
        }
        Event::CheckpointRemoved { step } => {
            summary.checkpoints.retain(|info| info.step != *step);
        }
        Event::CheckpointRejected { checkpoint, .. } => {
            summary
                .checkpoints
                .retain(|info| info.directory != *checkpoint);
        }
        Event::Improved {
            step,
            metric,
            value,
        } => {
            summary.best = Some(Best {
                metric: metric.clone(),
                value: *value,
                step: *step,
            });
        }
        Event::MemoryMeasured { peak_bytes, .. } => {
            summary.peak_bytes = summary.peak_bytes.max(*peak_bytes);
        }
        Event::RunCreated { .. }
        | Event::AttemptStarted { .. }
        | Event::WorkerStarted { .. }
        | Event::WorkerExited { .. }
        | Event::SlotsAwaited { .. }
        | Event::SlotsTaken { .. }
        | Event::Recovered { .. }
        | Event::Evaluated { .. }
        | Event::CheckpointFailed { .. }
        | Event::Warned { .. }
        | Event::FaultRaised { .. } => {}
    }
    for_each_value(event, |step, split, name, value| {
        let point = MetricPoint { step, value };
        match summary
            .metrics
            .get_mut(split)
            .and_then(|names| names.get_mut(name))
        {
            Some(last) => *last = point,
            None => {
                summary
                    .metrics
                    .entry(split.to_string())
                    .or_default()
                    .insert(name.to_string(), point);
            }
        }
    });
}

#[cfg(test)]
#[path = "fold/tests.rs"]
mod tests;
