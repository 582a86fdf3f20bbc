//! Which samples a step sees, and how they fall into shards.

use std::ops::Range;

use super::permutation::Permutation;
use super::rng::Purpose;
use crate::config::{Config, Length};
use crate::run::{Epoch, SampleId, ShardId, Step};

/// The whole run in numbers. All of it follows from the config and the size of the training part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timetable {
    seed: u64,
    samples: u64,
    global_batch: u64,
    shards: u32,
    steps_total: u64,
}

/// What one step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPlan {
    /// Steps finished before this one.
    pub step: Step,
    /// Epoch it belongs to.
    pub epoch: Epoch,
    /// Whether it is the last of its epoch.
    pub ends_epoch: bool,
    /// The samples of the global batch, in order.
    pub samples: Vec<SampleId>,
    /// Where each shard lies in `samples`, by [`ShardId`]; sizes differ by at most one. Empty shards
    /// (a short last batch) do nothing.
    pub shards: Vec<Range<usize>>,
}

impl Timetable {
    /// The timetable of a config over a training part of `samples` samples, which must not be 0.
    #[must_use]
    pub fn new(config: &Config, samples: u64) -> Self {
        let mut timetable = Self {
            seed: config.seed,
            samples: samples.max(1),
            global_batch: u64::from(config.train.global_batch.max(1)),
            shards: config.train.shards.max(1),
            steps_total: 0,
        };
        timetable.steps_total = match config.train.length {
            Length::Steps(steps) => steps,
            Length::Epochs(epochs) => epochs.saturating_mul(timetable.steps_per_epoch()),
            // Not a length of the whole: refused by `config`.
            Length::Percent(_) => 0,
        };
        timetable
    }

    /// Steps of the whole run.
    #[must_use]
    pub fn steps_total(&self) -> u64 {
        self.steps_total
    }

    /// Steps of one epoch; the last one may be short.
    #[must_use]
    pub fn steps_per_epoch(&self) -> u64 {
        self.samples.div_ceil(self.global_batch)
    }

    /// Samples seen when `step` steps are finished.
    #[must_use]
    pub fn samples_seen(&self, step: Step) -> u64 {
        let epochs = step.get() / self.steps_per_epoch();
        let within = step.get() % self.steps_per_epoch() * self.global_batch;
        epochs * self.samples + within
    }

    /// Epoch of the step that follows `step` finished ones.
    #[must_use]
    pub fn epoch(&self, step: Step) -> Epoch {
        Epoch::new(step.get() / self.steps_per_epoch())
    }

    /// Steps in a length; a percentage is of the whole run, rounded to the nearest step.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "steps stay far below 2^52, percentages between 0 and 100"
    )]
    pub fn steps_in(&self, length: Length) -> u64 {
        match length {
            Length::Steps(steps) => steps,
            Length::Epochs(epochs) => epochs.saturating_mul(self.steps_per_epoch()),
            Length::Percent(percent) => (self.steps_total as f64 * percent / 100.0).round() as u64,
        }
    }

    /// The plan of the step that follows `step` finished ones.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a global batch fits in memory"
    )]
    pub fn at(&self, step: Step) -> StepPlan {
        let epoch = self.epoch(step);
        let first = step.get() % self.steps_per_epoch() * self.global_batch;
        let end = (first + self.global_batch).min(self.samples);
        let order = Permutation::new(self.samples, self.seed, Purpose::Order, epoch.get());
        StepPlan {
            step,
            epoch,
            ends_epoch: end == self.samples,
            samples: (first..end)
                .map(|place| SampleId::new(order.at(place)))
                .collect(),
            shards: cut((end - first) as usize, self.shards as usize),
        }
    }
}

impl StepPlan {
    /// The samples of one shard.
    #[must_use]
    pub fn shard(&self, shard: ShardId) -> &[SampleId] {
        &self.samples[self.shards[shard.get() as usize].clone()]
    }

    /// Number of shards that hold samples; those that do not come last.
    #[must_use]
    pub fn filled(&self) -> u32 {
        let filled = self.shards.iter().take_while(|shard| !shard.is_empty());
        u32::try_from(filled.count()).unwrap_or(u32::MAX)
    }
}

/// Cuts `len` things into `parts` ranges whose sizes differ by at most one, larger ones first.
fn cut(len: usize, parts: usize) -> Vec<Range<usize>> {
    let (size, larger) = (len / parts, len % parts);
    let mut start = 0;
    (0..parts)
        .map(|part| {
            let end = start + size + usize::from(part < larger);
            std::mem::replace(&mut start, end)..end
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn timetable(samples: u64, global_batch: u64, shards: u32) -> Timetable {
        Timetable {
            seed: 3,
            samples,
            global_batch,
            shards,
            steps_total: 100,
        }
    }

    proptest! {
        #[test]
        fn an_epoch_shows_every_sample_once(
            samples in 1u64..500, global_batch in 1u64..80, shards in 1u32..9, epoch in 0u64..3
        ) {
            let timetable = timetable(samples, global_batch, shards);
            let steps = timetable.steps_per_epoch();
            let mut seen = Vec::new();
            for step in epoch * steps..(epoch + 1) * steps {
                let plan = timetable.at(Step::new(step));
                prop_assert_eq!(plan.epoch.get(), epoch);
                prop_assert_eq!(plan.ends_epoch, step + 1 == (epoch + 1) * steps);
                let sizes: Vec<usize> = plan.shards.iter().map(ExactSizeIterator::len).collect();
                prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
                for shard in 0..shards {
                    seen.extend(plan.shard(ShardId::new(shard)).iter().map(|id| id.get()));
                }
                prop_assert_eq!(timetable.samples_seen(Step::new(step + 1)), epoch * samples + seen.len() as u64);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..samples).collect::<Vec<_>>());
        }
    }

    #[test]
    fn lengths_become_steps() {
        let timetable = timetable(100, 30, 1);
        assert_eq!(timetable.steps_per_epoch(), 4);
        assert_eq!(timetable.steps_in(Length::Epochs(2)), 8);
        assert_eq!(timetable.steps_in(Length::Percent(5.0)), 5);
        assert_eq!(timetable.steps_in(Length::Steps(7)), 7);
    }
}
