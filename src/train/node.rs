//! Sums over a part of a global batch.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// Sums over the shards below one node of the reduction tree.
pub(super) struct Node {
    /// Gradient of the summed loss, `[parameters]`.
    pub(super) gradient: Tensor<1>,
    /// Statistics of normalisation layers, of each shard times its samples, where there are any.
    pub(super) statistics: Option<Tensor<1>>,
}

impl Node {
    /// The sum of two.
    pub(super) fn add(self, other: Self) -> Self {
        Self {
            gradient: self.gradient + other.gradient,
            statistics: match (self.statistics, other.statistics) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            },
        }
    }
}

/// What one shard adds to the numbers of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ShardSums {
    /// Summed loss.
    pub(super) loss: f64,
    /// Samples or tokens that count.
    pub(super) weight: u64,
    /// Samples whose class was predicted; `None` where there are no classes.
    pub(super) hits: Option<u64>,
}
