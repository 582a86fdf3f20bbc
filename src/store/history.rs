//! Which reports of a journal still count, and the metric values in them.
//!
//! A run that continues from step n computes the steps after n once more. What earlier attempts
//! reported about those steps stays in the journal and is left out of every chart and summary.

use super::{Entries, StoreError};
use crate::run::{Entry, Event, RunDir, SPLIT_TRAIN, Step};

/// Where attempts began: for each the sequence number of its beginning and the steps finished then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restarts {
    /// By sequence number; steps ascend, because an entry with a later beginning at or below its
    /// step says nothing new.
    begins: Vec<(u64, Step)>,
    /// Sequence number up to which beginnings are known.
    until: u64,
}

impl Restarts {
    /// Notes that an attempt began, unless it is known; calls must come in journal order. Returns
    /// whether it was news.
    pub fn note(&mut self, seq: u64, step: Step) -> bool {
        if seq < self.until {
            return false;
        }
        self.until = seq + 1;
        // Superseded by this beginning: it cuts deeper than any before that started higher.
        while self
            .begins
            .last()
            .is_some_and(|&(_, earlier)| earlier >= step)
        {
            self.begins.pop();
        }
        self.begins.push((seq, step));
        true
    }

    /// Finds all beginnings in a journal, without parsing anything else.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn scan(dir: &RunDir) -> Result<Self, StoreError> {
        let mut restarts = Self::default();
        let mut entries = Entries::open(dir)?;
        while let Some(entry) = entries.next_if(|line| contains(line, b"\"training_began\"")) {
            let entry = entry?;
            if let Event::TrainingBegan { step, .. } = entry.event {
                restarts.note(entry.seq, step);
            }
        }
        Ok(restarts)
    }

    /// Whether a report about `step` at `seq` still counts: no later attempt began before that step.
    #[must_use]
    pub fn survives(&self, seq: u64, step: Step) -> bool {
        // Steps ascend with sequence numbers, so the first beginning after `seq` cuts deepest.
        let first_later = self.begins.partition_point(|&(begin, _)| begin <= seq);
        self.begins
            .get(first_later)
            .is_none_or(|&(_, begin)| step <= begin)
    }
}

/// Bytes of a line within which the name of its event stands: numbers come before it.
const NAME_BYTES_MAX: usize = 256;

fn contains(line: &[u8], pattern: &[u8]) -> bool {
    let start = line.get(..NAME_BYTES_MAX).unwrap_or(line);
    start.windows(pattern.len()).any(|window| window == pattern)
}

/// One value of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricRow {
    /// Finished steps.
    pub step: Step,
    /// `train`, `valid` or `test`.
    pub split: String,
    /// Metric.
    pub name: String,
    /// Value.
    pub value: f64,
}

/// Calls `take(step, split, name, value)` for each metric value in an event. Values that are not
/// numbers are left out.
pub(crate) fn for_each_value(event: &Event, mut take: impl FnMut(Step, &str, &str, f64)) {
    let mut finite = |step, split: &str, name: &str, value: f64| {
        if value.is_finite() {
            take(step, split, name, value);
        }
    };
    match event {
        Event::StepFinished(report) => {
            finite(report.step, SPLIT_TRAIN, "loss", report.loss);
            finite(
                report.step,
                SPLIT_TRAIN,
                "learning_rate",
                report.learning_rate,
            );
            finite(
                report.step,
                SPLIT_TRAIN,
                "gradient_norm",
                report.gradient_norm,
            );
            finite(report.step, SPLIT_TRAIN, "step_seconds", report.seconds);
            for (name, &value) in &report.metrics {
                finite(report.step, SPLIT_TRAIN, name, value);
            }
        }
        Event::Evaluated {
            step,
            split,
            metrics,
            ..
        } => {
            for (name, &value) in metrics {
                finite(*step, split, name, value);
            }
        }
        _ => {}
    }
}

/// The step that an event reports on, for events that a later attempt supersedes.
pub(crate) fn reported_step(event: &Event) -> Option<Step> {
    match event {
        Event::StepFinished(report) => Some(report.step),
        Event::Evaluated { step, .. } | Event::Improved { step, .. } => Some(*step),
        _ => None,
    }
}

/// Calls `take` for every metric value of the surviving history, in journal order. A value that is
/// reported twice for a step (by two attempts that both count) comes twice; the later one holds.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn history(dir: &RunDir, mut take: impl FnMut(MetricRow)) -> Result<(), StoreError> {
    let restarts = Restarts::scan(dir)?;
    for entry in Entries::open(dir)? {
        let Entry { seq, event, .. } = entry?;
        if reported_step(&event).is_some_and(|step| restarts.survives(seq, step)) {
            for_each_value(&event, |step, split, name, value| {
                take(MetricRow {
                    step,
                    split: split.to_string(),
                    name: name.to_string(),
                    value,
                });
            });
        }
    }
    Ok(())
}
