//! What of a step the journal has already. Pure.
//!
//! A training that continues from a checkpoint tells once more what it had told of that step: the
//! supervisor before may have been killed between the checkpoint and its entry in the journal.

use std::collections::BTreeMap;

use crate::run::{Event, RunSummary, SPLIT_TRAIN, Step};

/// The last step that was recorded of each split, and of improvements.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    splits: BTreeMap<String, Step>,
    improved: Option<Step>,
    /// Step that training continues from: what is told of later ones is news, also if an earlier
    /// attempt had come farther.
    from: Option<Step>,
}

impl Known {
    /// What a journal has.
    pub(super) fn of(summary: &RunSummary) -> Self {
        let last = |points: &BTreeMap<_, crate::run::MetricPoint>| {
            points.values().map(|point| point.step).max()
        };
        let splits = summary.metrics.iter();
        Self {
            splits: splits
                .filter_map(|(split, points)| Some((split.clone(), last(points)?)))
                .collect(),
            improved: summary.best.as_ref().map(|best| best.step),
            from: None,
        }
    }

    /// Whether the journal has this already.
    pub(super) fn has(&self, event: &Event) -> bool {
        let Some((split, step)) = about(event) else {
            return false;
        };
        let recorded = match split {
            Some(split) => self.splits.get(split).copied(),
            None => self.improved,
        };
        Some(step) <= self.from && Some(step) <= recorded
    }

    /// The journal has this now.
    pub(super) fn take(&mut self, event: &Event) {
        if let Event::TrainingBegan { step, .. } = event {
            self.from = Some(*step);
        }
        match about(event) {
            Some((Some(split), step)) => {
                self.splits.insert(split.to_string(), step);
            }
            Some((None, step)) => self.improved = Some(step),
            None => {}
        }
    }
}

/// The split and step that an event is about; no split for an improvement.
fn about(event: &Event) -> Option<(Option<&str>, Step)> {
    match event {
        Event::StepFinished(report) => Some((Some(SPLIT_TRAIN), report.step)),
        Event::Evaluated { split, step, .. } => Some((Some(split), *step)),
        Event::Improved { step, .. } => Some((None, *step)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn improved(step: u64) -> Event {
        Event::Improved {
            step: Step::new(step),
            metric: "validation/loss".to_string(),
            value: 0.5,
        }
    }

    fn began(step: u64) -> Event {
        Event::TrainingBegan {
            step: Step::new(step),
            steps_total: 100,
            steps_per_epoch: 10,
            checkpoint: None,
            device: "cpu".to_string(),
        }
    }

    #[test]
    fn what_is_told_again_is_news_only_if_it_was_lost() {
        let mut known = Known::default();
        known.take(&began(0));
        assert!(!known.has(&improved(10)));
        known.take(&improved(10));
        // From the checkpoint of that step: the journal has it.
        known.take(&began(10));
        assert!(known.has(&improved(10)));
        // From a checkpoint whose entry was lost.
        known.take(&began(20));
        assert!(!known.has(&improved(20)));
        known.take(&improved(30));
        // From an earlier one: what comes is computed again, and recorded again.
        known.take(&began(20));
        assert!(!known.has(&improved(30)));
    }
}
