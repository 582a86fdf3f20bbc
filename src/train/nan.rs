//! A loss or gradient that is not finite: in which layer it began, and with which samples.

use burn::tensor::Tensor;

use super::accumulate::{Totals, dropout_seed};
use super::learner::Learner;
use super::loss::{self, Losses};
use super::step::Session;
use crate::data::{AugmentKey, Batch, Dataset, Part, StepBatch};
use crate::model::Mode;
use crate::ops;
use crate::run::{Fault, SampleId, ShardId, Step};

/// Samples whose names a message quotes; all ids are in the fault.
const NAMED_MAX: usize = 3;

/// What is not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Loss,
    Gradient,
}

/// The fault of a step whose summed loss or gradient is not finite, if a shard of this worker shows
/// it. Runs the shards again, one after another, to find the first layer and the fewest samples that
/// do. Nothing was updated yet, so weights and statistics are those of the step.
pub(super) fn diagnose(session: &Session<'_>, batch: &StepBatch) -> Option<Fault> {
    let step = batch.plan.step;
    let search = Search {
        dataset: session.dataset,
        seed: session.config.seed,
        learner: &session.state.learner,
        step,
        epoch: AugmentKey {
            seed: session.config.seed,
            epoch: batch.plan.epoch,
        },
    };
    for (id, shard) in batch.shards() {
        match search.look(shard, search.mode(id)) {
            Ok(None) => {}
            Ok(Some(found)) => return Some(search.report(id, shard, found)),
            Err(fault) => return Some(fault),
        }
    }
    None
}

/// The fault of a step in which every shard is finite alone, but their sum is not.
pub(super) fn overflow(session: &Session<'_>, batch: &StepBatch, totals: &Totals) -> Fault {
    let step = batch.plan.step;
    let layer = last_non_finite(&session.state.learner, &totals.gradient)
        .ok()
        .flatten();
    let fault = Fault::training(format!(
        "the gradient overflows in the sum over the shards of step {}",
        step.next()
    ))
    .at(step.next())
    .on_samples(&batch.plan.samples)
    .advise("lower `optimizer.learning_rate`; the run can go on from its last checkpoint");
    match layer {
        Some(layer) => fault.in_layer(layer),
        None => fault,
    }
}

/// What one shard shows.
struct Found {
    kind: Kind,
    place: Place,
    value: f64,
}

/// Where it begins.
enum Place {
    /// The first layer that gives something that is not finite. Layers behind it may hide it again
    /// (max(x, 0) may give 0 for NaN), so this is looked for whatever `Kind` it is.
    Layer(String),
    /// All layers are finite: the parameter nearest to the output whose gradient is not.
    Parameter(String),
    Unknown,
}

struct Search<'a> {
    dataset: &'a Dataset,
    seed: u64,
    learner: &'a Learner,
    step: Step,
    epoch: AugmentKey,
}

impl Search<'_> {
    fn mode(&self, shard: ShardId) -> Mode {
        Mode::Train {
            dropout_seed: dropout_seed(self.seed, self.step, shard),
        }
    }

    /// Whether some samples give a loss or gradient that is not finite.
    fn look(&self, batch: &Batch, mode: Mode) -> Result<Option<Found>, Fault> {
        let learner = self.learner;
        let forward =
            learner
                .network
                .forward(&learner.parameters, &learner.buffers, &batch.input, mode);
        let rows = loss::rows(forward.output);
        let losses = learner.objective.losses(&rows, &batch.target)?;
        let value = first_non_finite(&losses)?;
        let gradient = learner
            .parameters
            .gradient(&learner.network, losses.surrogate(rows).backward());
        let parameter = last_non_finite(learner, &gradient)?;
        if value.is_none() && parameter.is_none() {
            return Ok(None);
        }
        let layer = learner.network.first_non_finite(
            &learner.parameters,
            &learner.buffers,
            &batch.input,
            mode,
        );
        Ok(Some(Found {
            kind: value.map_or(Kind::Gradient, |_| Kind::Loss),
            place: match (layer, parameter) {
                (Some(layer), _) => Place::Layer(layer),
                (None, Some(parameter)) => Place::Parameter(parameter),
                (None, None) => Place::Unknown,
            },
            value: value.unwrap_or(f64::NAN),
        }))
    }

    /// Halves the samples of a shard as long as exactly one half shows the fault by itself.
    fn narrow(&self, shard: ShardId, ids: &[SampleId]) -> Vec<SampleId> {
        let mut ids = ids.to_vec();
        while ids.len() > 1 {
            let (first, second) = ids.split_at(ids.len() / 2);
            ids = match (self.shows(shard, first), self.shows(shard, second)) {
                (true, false) => first.to_vec(),
                (false, true) => second.to_vec(),
                _ => break,
            };
        }
        ids
    }

    fn shows(&self, shard: ShardId, ids: &[SampleId]) -> bool {
        let batch = self.dataset.batch(Part::Train, ids, Some(self.epoch));
        batch.is_ok_and(|batch| !matches!(self.look(&batch, self.mode(shard)), Ok(None)))
    }

    fn report(&self, shard: ShardId, batch: &Batch, found: Found) -> Fault {
        let ids = self.narrow(shard, &batch.ids);
        let what = match (found.kind, found.value.is_nan()) {
            (Kind::Loss, true) => "the loss is not a number (NaN)",
            (Kind::Loss, false) => "the loss is infinite",
            (Kind::Gradient, _) => "the gradient is not finite",
        };
        let place = match &found.place {
            Place::Layer(layer) => format!(", first after layer {layer}"),
            Place::Parameter(name) => format!(", all layers are finite, first at parameter {name}"),
            Place::Unknown => ", all layers are finite".to_string(),
        };
        let whole = ids.len() == batch.ids.len() && ids.len() > 1;
        let who = if whole {
            format!("all {} samples of shard {shard}", ids.len())
        } else {
            self.names(&ids)
        };
        let step = self.step.next();
        let fault = Fault::training(format!("{what} at step {step}{place}, with {who}"))
            .at(step)
            .on_samples(&ids)
            .advise(advice(whole));
        match found.place {
            Place::Layer(name) | Place::Parameter(name) => fault.in_layer(name),
            Place::Unknown => fault,
        }
    }

    fn names(&self, ids: &[SampleId]) -> String {
        let mut names: Vec<String> = ids
            .iter()
            .take(NAMED_MAX)
            .map(|&id| self.dataset.sample_name(Part::Train, id))
            .collect();
        if ids.len() > NAMED_MAX {
            names.push(format!("{} more", ids.len() - NAMED_MAX));
        }
        names.join(", ")
    }
}

fn advice(whole: bool) -> &'static str {
    if whole {
        "it is not a single sample: the weights have diverged; lower `optimizer.learning_rate`, \
         lengthen `schedule.warmup` or set `train.clip_norm`, then resume from the last checkpoint \
         with --allow-config-change"
    } else {
        "look at these samples for extreme values and wrong targets, then resume from the last \
         checkpoint"
    }
}

/// The first loss that is not finite.
fn first_non_finite(losses: &Losses) -> Result<Option<f64>, Fault> {
    let values = ops::download(losses.values.clone())?;
    Ok(values
        .into_iter()
        .find(|value| !value.is_finite())
        .map(f64::from))
}

/// Name of the parameter nearest to the output whose gradient is not finite: gradients flow from
/// there, so it is the first.
fn last_non_finite(learner: &Learner, gradient: &Tensor<1>) -> Result<Option<String>, Fault> {
    let values = ops::download(gradient.clone())?;
    let mut specs = learner.network.parameters().iter().rev();
    let found = specs.find(|spec| {
        let values = values.get(spec.range.clone()).unwrap_or_default();
        values.iter().any(|value| !value.is_finite())
    });
    Ok(found.map(|spec| spec.name.clone()))
}
