//! Forward and backward over the shards of a global batch, summed in canonical order.

use std::time::Instant;

use burn::tensor::{Int, Tensor};

use super::learner::Learner;
use super::loss::{self, Losses};
use super::node::{Node, ShardSums};
use crate::data::{Batch, StepBatch, Target};
use crate::model::Mode;
use crate::ops;
use crate::plan::rng::{Purpose, Stream};
use crate::plan::{Reduction, tree};
use crate::run::{Fault, Phases, Rank, ShardId, Step};

/// What a worker's own shards add to a global batch.
pub(super) struct Local {
    /// Sums of the worker's nodes of the reduction tree, in order.
    pub(super) nodes: Vec<Node>,
    /// Numbers of its shards, in order.
    pub(super) shards: Vec<ShardSums>,
}

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

impl Totals {
    /// From the sum of all nodes and the numbers of all shards, in order. `None` when no target
    /// counts.
    pub(super) fn of(sum: Option<Node>, shards: &[ShardSums]) -> Option<Self> {
        let mut loss = tree::Sum::default();
        for shard in shards {
            loss.push(shard.loss, |a: f64, b| a + b);
        }
        let weight = shards.iter().map(|shard| shard.weight).sum();
        let Node {
            gradient,
            statistics,
        } = sum.filter(|_| weight > 0)?;
        Some(Self {
            gradient,
            statistics,
            loss: loss.finish(|a, b| a + b).unwrap_or(0.0),
            weight,
            hits: shards
                .iter()
                .filter_map(|shard| shard.hits)
                .reduce(|a, b| a + b),
        })
    }
}

/// What a shard leaves on the device until the step is over.
struct Seen<'a> {
    losses: Tensor<1>,
    weight: u64,
    predicted: Option<(Tensor<2, Int>, &'a [i32])>,
}

/// Seed of the dropout of one shard of one step.
pub(super) fn dropout_seed(seed: u64, step: Step, shard: ShardId) -> u64 {
    Stream::new(seed, Purpose::Dropout, step.get(), shard.get().into()).next_u64()
}

/// Runs this worker's shards, one after another. Values are read from the device when all are under
/// way. Empty shards come last and are left out: the tree over the others is the same without them.
///
/// # Errors
///
/// When the device fails.
pub(super) fn accumulate(
    learner: &Learner,
    batch: &StepBatch,
    reduction: &Reduction,
    rank: Rank,
    seed: u64,
    phases: &mut Phases,
) -> Result<Local, Fault> {
    let step = batch.plan.step;
    let mut nodes = reduction.node_sum(rank);
    let mut seen = Vec::with_capacity(batch.shards.len());
    for (id, shard) in batch.shards() {
        let clock = Instant::now();
        let mode = Mode::Train {
            dropout_seed: dropout_seed(seed, step, id),
        };
        let forward =
            learner
                .network
                .forward(&learner.parameters, &learner.buffers, &shard.input, mode);
        let rows = loss::rows(forward.output);
        let losses = learner.objective.losses(&rows, &shard.target)?;
        seen.push(look(&losses, &rows, shard));
        phases.forward += wait(learner, clock)?;

        let clock = Instant::now();
        let gradient = learner
            .parameters
            .gradient(&learner.network, losses.surrogate(rows).backward());
        phases.backward += wait(learner, clock)?;

        let clock = Instant::now();
        let samples = to_f64(shard.ids.len() as u64);
        let node = Node {
            gradient,
            statistics: forward
                .statistics
                .map(|of_shard| of_shard.mul_scalar(samples)),
        };
        nodes.push(node, Node::add);
        phases.reduce += wait(learner, clock)?;
    }
    let clock = Instant::now();
    let nodes = nodes.finish();
    let shards = seen.into_iter().map(read).collect::<Result<_, _>>()?;
    phases.reduce += wait(learner, clock)?;
    Ok(Local { nodes, shards })
}

fn look<'a>(losses: &Losses, rows: &Tensor<2>, shard: &'a Batch) -> Seen<'a> {
    let predicted = match &shard.target {
        Target::Classes(classes) => Some((rows.clone().inner().argmax(1), classes.as_slice())),
        Target::Values(_) | Target::Tokens(_) => None,
    };
    Seen {
        losses: losses.values.clone(),
        weight: losses.count,
        predicted,
    }
}

/// Summed loss and correct predictions of a shard. Losses are added in float64, in order of the rows.
fn read(seen: Seen<'_>) -> Result<ShardSums, Fault> {
    let losses = ops::download(seen.losses)?;
    let hits = match seen.predicted {
        None => None,
        Some((predicted, classes)) => {
            let predicted = predicted
                .try_into_vec_as::<i32>()
                .map_err(|error| Fault::machine(format!("cannot read predictions: {error:?}")))?;
            let correct = predicted.iter().zip(classes).filter(|(p, c)| p == c);
            Some(correct.count() as u64)
        }
    };
    Ok(ShardSums {
        loss: losses.into_iter().map(f64::from).sum(),
        weight: seen.weight,
        hits,
    })
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
