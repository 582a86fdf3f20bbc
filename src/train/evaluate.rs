//! A part of the data, measured exactly: every sample once, in order of the ids, no padding.
//!
//! The workers of a group take turns with the batches. What each batch gave is merged in the order of
//! the batches, so the result does not depend on how many workers there are.

use std::collections::BTreeMap;
use std::ops::Range;

use burn::tensor::Tensor;

use super::group::Group;
use super::halt::Halt;
use super::learner::Learner;
use super::loss;
use super::metric::Meter;
use crate::config::Config;
use crate::data::{Dataset, Part, Target};
use crate::model::Mode;
use crate::ops;
use crate::run::{Fault, SampleId};

/// Most predicted numbers that are copied to the host at once, 64 MiB of them: logits over a large
/// vocabulary must not be held twice.
const COPIED_MAX: usize = 1 << 24;

/// Metrics of a part by name, with the weights as they are and without dropout.
///
/// # Errors
///
/// When data cannot be read, the device fails or the group is no longer whole.
pub(super) fn evaluate(
    learner: &Learner,
    config: &Config,
    dataset: &Dataset,
    part: Part,
    group: &mut Group,
) -> Result<BTreeMap<String, f64>, Halt> {
    let fresh = Meter::new(dataset.target(), config.eval.top_k);
    let samples = dataset.samples(part);
    let (size, seat) = (batch_size(config), group.seat());
    let count = samples.div_ceil(size);
    let mut mine = Vec::new();
    for batch in (seat.rank.get().into()..count).step_by(seat.world.get() as usize) {
        let start = batch * size;
        let ids = (start..start.saturating_add(size).min(samples)).map(SampleId::new);
        let batch = dataset.batch(part, &ids.collect::<Vec<_>>(), None)?;
        let forward = learner.network.forward(
            &learner.parameters,
            &learner.buffers,
            &batch.input,
            Mode::Evaluate,
        );
        let mut meter = fresh.clone();
        let rows = loss::rows(forward.output);
        measure(learner, &mut meter, rows, &batch.target)?;
        mine.push(meter);
    }
    let mut all: Vec<_> = if group.is_alone() {
        vec![mine.into_iter()]
    } else {
        let all = group.exchange(&mine)?.into_iter();
        all.map(Vec::into_iter).collect()
    };
    let mut whole = fresh;
    for turn in 0..usize::try_from(count).unwrap_or(usize::MAX) {
        let worker = turn % all.len();
        if let Some(meter) = all[worker].next() {
            whole.merge(&meter)?;
        }
    }
    Ok(whole.values())
}

/// Samples per forward pass: `eval.batch`, or a training shard.
fn batch_size(config: &Config) -> u64 {
    let shard = config
        .train
        .global_batch
        .div_ceil(config.train.shards.max(1));
    let chosen = match config.eval.batch {
        0 => shard,
        batch => batch,
    };
    u64::from(chosen.max(1))
}

fn measure(
    learner: &Learner,
    meter: &mut Meter,
    rows: Tensor<2>,
    target: &Target,
) -> Result<(), Fault> {
    let rows = rows.inner();
    let losses = learner.objective.measured().losses(&rows, target)?.values;
    let losses = ops::download(losses)?;
    let [count, width] = rows.dims();
    let step = (COPIED_MAX / width.max(1)).max(1);
    for start in (0..count).step_by(step) {
        let part = start..(start + step).min(count);
        let predictions = rows.clone().narrow(0, part.start, part.len());
        let predictions = ops::download(predictions)?;
        let losses = losses.get(part.clone()).unwrap_or_default();
        meter.add(&predictions, &cut(target, part), losses)?;
    }
    Ok(())
}

/// The targets of some rows.
fn cut(target: &Target, rows: Range<usize>) -> Target {
    fn of<T: Clone>(values: &[T], rows: Range<usize>) -> Vec<T> {
        values.get(rows).map(<[T]>::to_vec).unwrap_or_default()
    }
    match target {
        Target::Classes(classes) => Target::Classes(of(classes, rows)),
        Target::Values(values) => Target::Values(of(values, rows)),
        Target::Tokens(tokens) => Target::Tokens(of(tokens, rows)),
    }
}
