//! `[train]`: how long, in which batches, towards which loss.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unit::Length;

/// How long, and in which batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// Length of training: epochs or optimiser steps.
    pub length: Length,
    /// Samples per optimiser step over all workers. The last step of an epoch has what is left.
    pub global_batch: u32,
    /// Fixed units of computation that a global batch is cut into; workers share them out. Also the
    /// number of accumulated passes of a single worker.
    pub shards: u32,
    /// Largest global norm of the gradient; 0 does not clip.
    pub clip_norm: f64,
    /// What is minimised.
    pub loss: Loss,
    /// Share of the target spread evenly over all classes (classification), 0 to below 1.
    pub label_smoothing: f64,
    /// Early stopping; absent means never.
    pub early_stopping: Option<EarlyStopping>,
    /// Batches prepared ahead of the training step; 0 prepares them in the training thread.
    pub prefetch: u32,
}

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Cross-entropy for classes and tokens, mean squared error for numbers.
    Auto,
    /// Softmax cross-entropy.
    CrossEntropy,
    /// Mean squared error.
    Mse,
    /// Mean absolute error.
    Mae,
    /// Huber loss with delta 1.
    Huber,
}

/// Direction of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Smaller is better.
    Min,
    /// Larger is better.
    Max,
}

/// Stop when a metric has not improved for a while (state `early_stopped`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EarlyStopping {
    /// `validation/<name>`, e.g. `validation/loss`.
    pub metric: String,
    /// Whether smaller or larger is better.
    pub goal: Goal,
    /// Evaluations without improvement before the run stops.
    pub patience: u32,
    /// Smallest change that counts as improvement.
    pub min_delta: f64,
}
