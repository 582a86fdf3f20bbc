//! `[optimizer]`: how weights follow gradients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The update rule; `kind` chooses. Decay applies to matrices, kernels and embeddings, not to
/// biases and normalisation weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Optimizer {
    /// Stochastic gradient descent, with momentum if above 0; decay is added to the gradient.
    Sgd {
        /// Peak learning rate.
        learning_rate: f64,
        /// Momentum, 0 to below 1.
        momentum: f64,
        /// Whether the momentum is Nesterov's.
        nesterov: bool,
        /// L2 decay added to the gradient.
        weight_decay: f64,
    },
    /// Adam (Kingma and Ba 2014); decay is added to the gradient.
    Adam {
        /// Peak learning rate.
        learning_rate: f64,
        /// Decay rates of the first and second moment.
        betas: [f64; 2],
        /// Added to the denominator.
        epsilon: f64,
        /// L2 decay added to the gradient.
        weight_decay: f64,
    },
    /// Adam with decoupled decay (Loshchilov and Hutter 2017).
    Adamw {
        /// Peak learning rate.
        learning_rate: f64,
        /// Decay rates of the first and second moment.
        betas: [f64; 2],
        /// Added to the denominator.
        epsilon: f64,
        /// Decoupled decay.
        weight_decay: f64,
    },
    /// Lion (Chen et al. 2023).
    Lion {
        /// Peak learning rate.
        learning_rate: f64,
        /// Interpolation rates of update and momentum.
        betas: [f64; 2],
        /// Decoupled decay.
        weight_decay: f64,
    },
    /// Muon (Jordan et al. 2024) for hidden matrices; AdamW with the same rate for all else.
    Muon {
        /// Peak learning rate.
        learning_rate: f64,
        /// Momentum, 0 to below 1.
        momentum: f64,
        /// Newton-Schulz iterations.
        iterations: u32,
        /// Decoupled decay.
        weight_decay: f64,
    },
}

impl Optimizer {
    /// Peak learning rate, before the schedule.
    #[must_use]
    pub fn learning_rate(&self) -> f64 {
        match self {
            Optimizer::Sgd { learning_rate, .. }
            | Optimizer::Adam { learning_rate, .. }
            | Optimizer::Adamw { learning_rate, .. }
            | Optimizer::Lion { learning_rate, .. }
            | Optimizer::Muon { learning_rate, .. } => *learning_rate,
        }
    }
}
