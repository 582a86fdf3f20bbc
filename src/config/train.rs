//! `[train]`: how long, in which batches, towards which loss.

use super::declare::{names, record};
use super::form::{METRIC_PREFIX, metric, names, optional, real, whole};
use super::section::section;
use super::unit::{EpochsOrSteps, Length};

record! {
    /// How long, and in which batches.
    pub struct Train {
        /// Length of training.
        length: Length => EpochsOrSteps;
        /// Samples per optimiser step over all workers. The last step of an epoch has what is left.
        global_batch: u32 => whole(1..=16_777_216), default 32;
        /// Fixed units of computation that a global batch is cut into; workers share them out. Also
        /// the number of accumulated passes of a single worker.
        shards: u32 => whole(1..=65_536), default 1;
        /// Order in which the gradients of the shards are added: `"canonical"`, where the result does not depend on the
        /// number of workers, or `"fast"`, where it does in the last bits and is the same again only for the same number.
        reduction: SumOrder => names(), default SumOrder::Canonical;
        /// Largest global norm of the gradient; 0 does not clip.
        clip_norm: f64 => real(0.0..), default 0.0;
        /// What is minimised.
        loss: Loss => names(), default Loss::Auto;
        /// Share of the target spread evenly over all classes (classification).
        label_smoothing: f64 => real(0.0..1.0), default 0.0;
        /// Stop early when a metric has not improved for a while; `false` never does.
        early_stopping: Option<EarlyStopping> => optional(section()), default None;
        /// Batches prepared ahead of the training step; 0 prepares them in the training thread. The
        /// result does not depend on it.
        prefetch: u32 => whole(0..=1024), default 2;
    }
}

names! {
    /// Order of the additions that make one gradient of those of all shards.
    pub enum SumOrder {
        /// One binary tree over the shards, whatever the number of workers.
        Canonical = "canonical",
        /// Each worker adds up its shards, then their sums are added. Bits depend on the number of workers,
        /// and with transport `nccl` on the order that the library chooses.
        Fast = "fast",
    }
}

names! {
    /// What is minimised.
    pub enum Loss {
        /// Cross-entropy for classes and tokens, mean squared error for numbers.
        Auto = "auto",
        /// Softmax cross-entropy.
        CrossEntropy = "cross_entropy",
        /// Mean squared error.
        Mse = "mse",
        /// Mean absolute error.
        Mae = "mae",
        /// Huber loss with delta 1.
        Huber = "huber",
    }
}

names! {
    /// Direction of a metric.
    pub enum Goal {
        /// Smaller is better.
        Min = "min",
        /// Larger is better.
        Max = "max",
    }
}

record! {
    /// Stop when a metric has not improved for a while (state `early_stopped`).
    pub struct EarlyStopping {
        /// The metric, e.g. `validation/loss`.
        metric: String => metric();
        /// Whether smaller or larger is better. The default follows from the metric: `min` for
        /// loss, mse, mae and perplexity, else `max`.
        goal: Goal => names(), derived goal_of(metric.as_deref());
        /// Evaluations without improvement before the run stops.
        patience: u32 => whole(1..=1_000_000);
        /// Smallest change that counts as improvement.
        min_delta: f64 => real(0.0..), default 0.0;
    }
}

/// The usual direction of a metric.
pub(super) fn goal_of(metric: Option<&str>) -> Goal {
    match metric.and_then(|metric| metric.strip_prefix(METRIC_PREFIX)) {
        Some("loss" | "mse" | "mae" | "perplexity") | None => Goal::Min,
        Some(_) => Goal::Max,
    }
}
