//! What proves, step by step, that the workers train on what they should and hold the same weights.
//!
//! A sampler that repeats or leaves out samples on some worker, or weights that drift apart, change
//! the result without any error. Each worker therefore tells with its part of a step which samples it
//! saw, as a count and a hash, and now and then a checksum of its weights; every worker holds all of
//! it against the plan, which it can compute for all.

use serde::{Deserialize, Serialize};

use super::learner::Learner;
use super::step::Share;
use crate::data::StepBatch;
use crate::ops;
use crate::plan::{StepPlan, mix, shards_of};
use crate::run::{Fault, Rank, SampleId, ShardId, Step, WorldSize};

/// Steps from one comparison of all weights to the next.
const WEIGHTS_EVERY: u64 = 100;

/// What one worker has seen in a step, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Witness {
    step: Step,
    samples: u64,
    ids: u64,
    weights: Option<u64>,
}

impl Witness {
    /// Of this worker. One that is `alone` has nobody to be compared with, and its plan is its batch.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(super) fn of(batch: &StepBatch, learner: &Learner, alone: bool) -> Result<Self, Fault> {
        let step = batch.plan.step;
        let weights = if !alone && step.get().is_multiple_of(WEIGHTS_EVERY) {
            Some(checksum(&ops::download(learner.parameters.flat())?))
        } else {
            None
        };
        let ids = batch.shards.iter().flat_map(|shard| &shard.ids);
        Ok(Self {
            weights,
            ..Self::over(step, ids)
        })
    }

    fn over<'a>(step: Step, ids: impl Iterator<Item = &'a SampleId>) -> Self {
        let mut found = Self {
            step,
            ..Self::default()
        };
        for id in ids {
            found.samples += 1;
            found.ids = mix(found.ids ^ id.get());
        }
        found
    }
}

/// Holds what all workers say against the plan of the step.
///
/// # Errors
///
/// Names the worker that saw other samples than it should have, or whose weights differ from those of
/// the others.
pub(super) fn check(shares: &[Share], plan: &StepPlan) -> Result<(), Fault> {
    let world = WorldSize::new(u32::try_from(shares.len()).unwrap_or(u32::MAX));
    for (rank, share) in ranks().zip(shares) {
        let own = shards_of(plan.filled(), rank, world).map(ShardId::new);
        let expected = Witness::over(plan.step, own.flat_map(|shard| plan.shard(shard)));
        let found = Witness {
            weights: None,
            ..share.witness
        };
        if found != expected {
            return Err(diverged(plan, rank, &differing(found, expected)));
        }
    }
    let weights: Vec<Option<u64>> = shares.iter().map(|share| share.witness.weights).collect();
    match ranks()
        .zip(&weights)
        .find(|(_, of)| **of != usual(&weights))
    {
        Some((rank, _)) => Err(diverged(
            plan,
            rank,
            "its weights are not those of the others",
        )),
        None => Ok(()),
    }
}

fn ranks() -> impl Iterator<Item = Rank> {
    (0..).map(Rank::new)
}

/// What most workers hold; of equally many the lowest rank's.
fn usual(weights: &[Option<u64>]) -> Option<u64> {
    let votes = |of: &Option<u64>| weights.iter().filter(|other| *other == of).count();
    let best = weights.iter().map(votes).max();
    weights
        .iter()
        .find(|of| Some(votes(of)) == best)
        .copied()
        .flatten()
}

fn differing(found: Witness, expected: Witness) -> String {
    if found.step != expected.step {
        format!("it is at step {}", found.step)
    } else if found.samples != expected.samples {
        format!(
            "it saw {} samples instead of {}",
            found.samples, expected.samples
        )
    } else {
        "it saw other samples than it should have".to_string()
    }
}

fn diverged(plan: &StepPlan, rank: Rank, what: &str) -> Fault {
    let mut fault = Fault::internal(format!(
        "worker {rank} does not follow the plan of step {}: {what}",
        plan.step.next()
    ))
    .at(plan.step.next())
    .advise(
        "do all workers read the same data files? if so, check the machine's memory and report this; \
         `trainer resume` continues from the newest checkpoint",
    );
    fault.rank = Some(rank);
    fault
}

/// A hash of the bits of all values, in order.
fn checksum(values: &[f32]) -> u64 {
    values.iter().fold(values.len() as u64, |hash, value| {
        mix(hash ^ u64::from(value.to_bits()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Epoch;

    fn plan() -> StepPlan {
        StepPlan {
            step: Step::new(4),
            epoch: Epoch::new(0),
            ends_epoch: false,
            samples: (0..10).map(|id| SampleId::new(id * 7)).collect(),
            shards: vec![0..3, 3..6, 6..8, 8..10, 10..10],
        }
    }

    fn shares(world: u32) -> Vec<Share> {
        let plan = plan();
        (0..world)
            .map(|rank| {
                let own = shards_of(4, Rank::new(rank), WorldSize::new(world)).map(ShardId::new);
                Share::witnessing(Witness::over(plan.step, own.flat_map(|s| plan.shard(s))))
            })
            .collect()
    }

    #[test]
    fn workers_that_follow_the_plan_pass() {
        for world in 1..=5 {
            check(&shares(world), &plan()).unwrap();
        }
    }

    #[test]
    fn whoever_repeats_misses_or_reorders_samples_is_named() {
        let plan = plan();
        let ids = &plan.samples;
        for (seen, words) in [
            (vec![ids[5], ids[6], ids[7]], "3 samples instead of 2"),
            (vec![ids[6], ids[6]], "other samples"),
            (vec![ids[7], ids[6]], "other samples"),
        ] {
            let mut shares = shares(3);
            shares[1] = Share::witnessing(Witness::over(plan.step, seen.iter()));
            let fault = check(&shares, &plan).unwrap_err();
            assert_eq!(fault.rank, Some(Rank::new(1)));
            assert!(fault.message.contains(words), "{}", fault.message);
        }
        let mut late = shares(2);
        late[0].witness.step = Step::new(3);
        assert!(
            check(&late, &plan)
                .unwrap_err()
                .message
                .contains("at step 3")
        );
    }

    #[test]
    fn the_one_whose_weights_differ_is_named() {
        let mut shares = shares(3);
        for (share, weights) in shares.iter_mut().zip([5, 5, 6]) {
            share.witness.weights = Some(weights);
        }
        let fault = check(&shares, &plan()).unwrap_err();
        assert_eq!(fault.rank, Some(Rank::new(2)));
        assert_ne!(checksum(&[1.0, 2.0]), checksum(&[2.0, 1.0]));
    }
}
