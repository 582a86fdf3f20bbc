//! `[optimizer]`: how weights follow gradients.

use super::declare::tagged;
use super::form::{Real, flag, pair, real, whole};
use super::section::from_json;

/// Takes learning rates.
fn rate() -> Real {
    real(0.0..=1000.0).above()
}

/// Takes weight decays.
fn decay() -> Real {
    real(0.0..=1000.0)
}

/// Takes rates of moving averages.
fn average() -> Real {
    real(0.0..1.0)
}

tagged! {
    /// The update rule; `kind` chooses. Decay applies to matrices, kernels and embeddings, not to
    /// biases and normalisation weights.
    pub enum Optimizer = "adamw" {
        /// Stochastic gradient descent, with momentum if above 0; decay is added to the gradient.
        Sgd = "sgd" {
            /// Peak learning rate.
            learning_rate: f64 => rate(), default 0.01;
            /// Momentum.
            momentum: f64 => average(), default 0.9;
            /// Whether the momentum is Nesterov's.
            nesterov: bool => flag(), default false;
            /// L2 decay added to the gradient.
            weight_decay: f64 => decay(), default 0.0;
        }
        /// Adam (Kingma and Ba 2014); decay is added to the gradient.
        Adam = "adam" {
            /// Peak learning rate.
            learning_rate: f64 => rate(), default 1e-3;
            /// Decay rates of the first and second moment.
            betas: [f64; 2] => pair(average()), default [0.9, 0.999];
            /// Added to the denominator.
            epsilon: f64 => real(0.0..=1.0).above(), default 1e-8;
            /// L2 decay added to the gradient.
            weight_decay: f64 => decay(), default 0.0;
        }
        /// Adam with decoupled decay (Loshchilov and Hutter 2017).
        Adamw = "adamw" {
            /// Peak learning rate.
            learning_rate: f64 => rate(), default 1e-3;
            /// Decay rates of the first and second moment.
            betas: [f64; 2] => pair(average()), default [0.9, 0.999];
            /// Added to the denominator.
            epsilon: f64 => real(0.0..=1.0).above(), default 1e-8;
            /// Decoupled decay.
            weight_decay: f64 => decay(), default 0.01;
        }
        /// Lion (Chen et al. 2023).
        Lion = "lion" {
            /// Peak learning rate.
            learning_rate: f64 => rate(), default 1e-4;
            /// Interpolation rates of update and momentum.
            betas: [f64; 2] => pair(average()), default [0.9, 0.99];
            /// Decoupled decay.
            weight_decay: f64 => decay(), default 0.0;
        }
        /// Muon (Jordan et al. 2024) for hidden matrices; AdamW with the same rate for all else.
        Muon = "muon" {
            /// Peak learning rate.
            learning_rate: f64 => rate(), default 1e-3;
            /// Momentum.
            momentum: f64 => average(), default 0.95;
            /// Newton-Schulz iterations.
            iterations: u32 => whole(1..=100), default 5;
            /// Decoupled decay.
            weight_decay: f64 => decay(), default 0.0;
        }
    }
}

impl<'de> serde::Deserialize<'de> for Optimizer {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = serde_json::Value::deserialize(deserializer)?;
        from_json(&json).map_err(serde::de::Error::custom)
    }
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
