//! Forward and backward over the shards of a global batch, summed in canonical order.

use std::time::Instant;

use burn::tensor::{Int, Tensor};

use super::learner::Learner;
use super::loss::{self, Losses};
use crate::data::{Batch, StepBatch, Target};
use crate::model::Mode;
use crate::ops;
use crate::plan::rng::{Purpose, Stream};
use crate::plan::tree;
use crate::run::{Fault, Phases, Step};

/// Sums over a global batch.
pub(super) struct Totals {
    /// Gradient of the summed loss, `[parameters]`.
    pub(super) gradient: Tensor<1>,
    /// Statistics of normalisation layers, of each shard times its samples, where there are any.
    pub(super) statistics: Option<Tensor<1>>,
    /// Summed loss.
    pub(super) loss: f64,
    /// Samples or tokens that count.
    pub(super) weight: u64,
    /// Samples whose class was predicted; `None` where there are no classes.
    pub(super) hits: Option<u64>,
}

/// What a shard leaves on the device until the step is over.
struct Seen<'a> {
    losses: Tensor<1>,
    predicted: Option<(Tensor<2, Int>, &'a [i32])>,
}

/// Seed of the dropout of one shard of one step.
pub(super) fn dropout_seed(seed: u64, step: Step, shard: usize) -> u64 {
    Stream::new(seed, Purpose::Dropout, step.get(), shard as u64).next_u64()
}

/// Runs all shards, one after another. Values are read from the device when all are under way.
///
/// # Errors
///
/// When nothing in the batch counts, or the device fails.
pub(super) fn accumulate(
    learner: &Learner,
    batch: &StepBatch,
    seed: u64,
    phases: &mut Phases,
) -> Result<Totals, Fault> {
    let step = batch.plan.step;
    let (mut gradients, mut statistics) = (tree::Sum::default(), tree::Sum::default());
    let (mut seen, mut weight) = (Vec::new(), 0);
    // Empty shards come last and are left out: the tree over the others is the same without them.
    for (index, shard) in batch.shards.iter().enumerate() {
        if shard.ids.is_empty() {
            continue;
        }
        let clock = Instant::now();
        let mode = Mode::Train {
            dropout_seed: dropout_seed(seed, step, index),
        };
        let forward =
            learner
                .network
                .forward(&learner.parameters, &learner.buffers, &shard.input, mode);
        let rows = loss::rows(forward.output);
        let losses = learner.objective.losses(&rows, &shard.target)?;
        weight += losses.count;
        seen.push(look(&losses, &rows, shard));
        phases.forward += wait(learner, clock)?;

        let clock = Instant::now();
        let gradient = learner
            .parameters
            .gradient(&learner.network, losses.surrogate(rows).backward());
        phases.backward += wait(learner, clock)?;

        let clock = Instant::now();
        gradients.push(gradient, |a, b| a + b);
        if let Some(of_shard) = forward.statistics {
            let sums = of_shard.mul_scalar(to_f64(shard.ids.len() as u64));
            statistics.push(sums, |a, b| a + b);
        }
        phases.reduce += wait(learner, clock)?;
    }
    let clock = Instant::now();
    let gradient = gradients.finish(|a, b| a + b);
    let statistics = statistics.finish(|a, b| a + b);
    let (Some(gradient), 1..) = (gradient, weight) else {
        return Err(Fault::training("no target of this step's batch counts")
            .at(step.next())
            .on_samples(&batch.plan.samples)
            .advise("check the data with `trainer data inspect`"));
    };
    let (loss, hits) = read(seen)?;
    phases.reduce += wait(learner, clock)?;
    Ok(Totals {
        gradient,
        statistics,
        loss,
        weight,
        hits,
    })
}

fn look<'a>(losses: &Losses, rows: &Tensor<2>, shard: &'a Batch) -> Seen<'a> {
    let predicted = match &shard.target {
        Target::Classes(classes) => Some((rows.clone().inner().argmax(1), classes.as_slice())),
        Target::Values(_) | Target::Tokens(_) => None,
    };
    Seen {
        losses: losses.values.clone(),
        predicted,
    }
}

/// Summed loss and correct predictions. Losses are added in float64, those of a shard in order of
/// its rows, shards as everything else.
fn read(seen: Vec<Seen<'_>>) -> Result<(f64, Option<u64>), Fault> {
    let (mut sum, mut hits) = (tree::Sum::default(), None);
    for Seen { losses, predicted } in seen {
        let losses = ops::download(losses)?;
        sum.push(losses.into_iter().map(f64::from).sum(), |a: f64, b| a + b);
        if let Some((predicted, classes)) = predicted {
            let predicted = predicted
                .try_into_vec_as::<i32>()
                .map_err(|error| Fault::machine(format!("cannot read predictions: {error:?}")))?;
            let correct = predicted.iter().zip(classes).filter(|(p, c)| p == c);
            *hits.get_or_insert(0) += correct.count() as u64;
        }
    }
    Ok((sum.finish(|a, b| a + b).unwrap_or(0.0), hits))
}

/// Seconds since `clock` when the device has done what it was given.
fn wait(learner: &Learner, clock: Instant) -> Result<f64, Fault> {
    learner.wait()?;
    Ok(clock.elapsed().as_secs_f64())
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub(super) fn to_f64(count: u64) -> f64 {
    count as f64
}
