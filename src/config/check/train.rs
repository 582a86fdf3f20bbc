//! Contradictions between training, task, metrics and resources.

use super::{Check, Parts, Target};
use crate::config::form::METRIC_PREFIX;
use crate::config::resources::{Backend, Slots, Transport};
use crate::config::train::Loss;
use crate::config::unit::Every;

pub(super) fn check(parts: &Parts, check: &mut Check<'_>) {
    shards(parts, check);
    loss(parts, check);
    early_stopping(parts, check);
    best(parts, check);
    if let Some(eval) = &parts.eval
        && eval.top_k > 0
        && parts.target() == Target::Number
    {
        check.refuse(
            "top-k accuracy is for classes, and the task is regression",
            &["eval.top_k", "data.task"],
            "remove `eval.top_k`",
        );
    }
    if let Some(resources) = &parts.resources
        && let Slots::Count(slots) = resources.slots
        && !resources.devices.is_empty()
        && resources.devices.len() != slots as usize
    {
        check.refuse(
            format!(
                "{slots} workers need a device each, and {} are named",
                resources.devices.len()
            ),
            &["resources.devices", "resources.slots"],
            "name as many devices as there are workers",
        );
    }
    if let Some(resources) = &parts.resources
        && resources.transport == Transport::Nccl
        && matches!(resources.backend, Backend::Flex | Backend::Tch)
    {
        check.refuse(
            format!(
                "NCCL connects CUDA devices, and backend \"{}\" has none",
                resources.backend.as_str()
            ),
            &["resources.transport", "resources.backend"],
            "remove `transport`, or set `backend` to \"cuda\"",
        );
    }
    if let (Some(train), Some(resources)) = (&parts.train, &parts.resources)
        && let Slots::Count(slots) = resources.slots
        && slots > train.shards
    {
        check.refuse(
            format!(
                "{slots} workers are more than the shards of a step ({}): a worker computes whole shards",
                train.shards
            ),
            &["resources.slots", "train.shards"],
            "a worker has at least one shard: use more shards or fewer workers",
        );
    }
}

fn shards(parts: &Parts, check: &mut Check<'_>) {
    let Some(train) = &parts.train else {
        return;
    };
    if train.shards > train.global_batch {
        check.refuse(
            format!(
                "a global batch of {} samples cannot be cut into {} shards",
                train.global_batch, train.shards
            ),
            &["train.shards", "train.global_batch"],
            "a shard has at least one sample: use fewer shards or a larger batch",
        );
    }
}

/// The loss must fit what is predicted.
fn loss(parts: &Parts, check: &mut Check<'_>) {
    let Some(train) = &parts.train else {
        return;
    };
    let (target, place) = match parts.target() {
        Target::Classes if parts.data.as_ref().is_some_and(is_table) => {
            ("classes are", "data.task")
        }
        Target::Classes => ("classes are", "data.kind"),
        Target::Tokens => ("tokens are", "data.kind"),
        Target::Number => ("a number is", "data.task"),
        Target::Unknown => ("", "data.task"),
    };
    let of_numbers = matches!(train.loss, Loss::Mse | Loss::Mae | Loss::Huber);
    let mismatch = match parts.target() {
        Target::Classes | Target::Tokens => of_numbers,
        Target::Number => train.loss == Loss::CrossEntropy,
        Target::Unknown => false,
    };
    if mismatch {
        check.refuse(
            format!(
                "loss \"{}\" does not fit: {target} predicted",
                train.loss.as_str()
            ),
            &["train.loss", place],
            "remove `train.loss`: the default fits",
        );
    }
    if train.label_smoothing > 0.0 && (of_numbers || parts.target() == Target::Number) {
        let other = if of_numbers {
            "train.loss"
        } else {
            "data.task"
        };
        check.refuse(
            "labels are smoothed over classes, and a number is predicted",
            &["train.label_smoothing", other],
            "remove `train.label_smoothing`",
        );
    }
}

fn is_table(data: &crate::config::Data) -> bool {
    matches!(data, crate::config::Data::Table(_))
}

fn early_stopping(parts: &Parts, check: &mut Check<'_>) {
    let Some(early_stopping) = parts
        .train
        .as_ref()
        .and_then(|train| train.early_stopping.as_ref())
    else {
        return;
    };
    if parts.unvalidated() {
        check.refuse(
            "early stopping looks at the validation part, and there is none",
            &["train.early_stopping", "data.validation"],
            "set `data.validation`, e.g. to 0.1",
        );
    }
    if parts
        .eval
        .as_ref()
        .is_some_and(|eval| eval.every == Every::Never)
    {
        check.refuse(
            "early stopping looks at evaluations, and there are none before the end",
            &["train.early_stopping", "eval.every"],
            "set `eval.every`, e.g. to \"1 epoch\"",
        );
    }
    metric(
        &early_stopping.metric,
        "train.early_stopping.metric",
        parts,
        check,
    );
}

/// What `best` checkpoints go by.
fn best(parts: &Parts, check: &mut Check<'_>) {
    let Some(checkpoint) = &parts.checkpoint else {
        return;
    };
    // Where nothing is said, the default becomes 0.
    if check.given("checkpoint.keep.best") && checkpoint.keep.best > 0 && parts.unvalidated() {
        check.refuse(
            "the best checkpoints are chosen on the validation part, and there is none",
            &["checkpoint.keep.best", "data.validation"],
            "set `data.validation`, e.g. to 0.1, or `best = 0`",
        );
    }
    metric(&checkpoint.metric, "checkpoint.metric", parts, check);
}

/// A metric must be one that the task has.
fn metric(metric: &str, path: &str, parts: &Parts, check: &mut Check<'_>) {
    let name = metric.strip_prefix(METRIC_PREFIX).unwrap_or(metric);
    let classes: &[&str] = &["loss", "accuracy", "f1", "auroc"];
    let number: &[&str] = &["loss", "mse", "mae", "r2"];
    let tokens: &[&str] = &["loss", "perplexity", "accuracy"];
    let (known, ranked, place) = match parts.target() {
        Target::Classes => (classes.to_vec(), true, "data.kind"),
        Target::Number => (number.to_vec(), false, "data.task"),
        Target::Tokens => (tokens.to_vec(), true, "data.kind"),
        Target::Unknown => (super::METRICS.to_vec(), true, "data.kind"),
    };
    if known.contains(&name) {
        return;
    }
    let top_k = name
        .strip_prefix("top")
        .and_then(|name| name.strip_suffix("_accuracy"))
        .and_then(|k| k.parse::<u32>().ok());
    match (top_k, &parts.eval) {
        (Some(k), Some(eval)) if ranked && eval.top_k == k => {}
        (Some(_), None) if ranked => {}
        (Some(k), Some(_)) if ranked => check.refuse(
            format!("\"{metric}\" is not measured: `eval.top_k` is not {k}"),
            &[path, "eval.top_k"],
            &format!("set `eval.top_k = {k}`"),
        ),
        _ => {
            let near = crate::config::suggest::nearest(name, known.iter().copied());
            let help = near.map_or_else(
                || {
                    let all: Vec<String> = known
                        .iter()
                        .map(|name| format!("\"{METRIC_PREFIX}{name}\""))
                        .collect();
                    format!("there are {}", all.join(", "))
                },
                |near| format!("did you mean \"{METRIC_PREFIX}{near}\"?"),
            );
            let message = format!("this task has no metric \"{metric}\"");
            check.refuse(message, &[path, place], &help);
        }
    }
}
