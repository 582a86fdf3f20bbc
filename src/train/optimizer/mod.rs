//! How weights follow gradients: one flat vector of parameters, one flat gradient, one rate.
//!
//! SGD, Adam, AdamW and Lion look at one element at a time: [`elementwise`] makes one pass over
//! memory on the CPU ([`host`]) and a chain of tensor operations elsewhere ([`device`]). Muon is
//! burn's. Weight decay concerns only a prefix of the flat vector: matrices, kernels and embeddings,
//! not biases and normalisation weights.
//!
//! burn's own Adam is not used: it takes `1 - beta^t` in float32, which for beta = 0.999 leaves five
//! digits. All rules agree with PyTorch's and with float64 (see the tests).
//!
//! Refuses to: know the schedule, the step, or how many workers there are. Its state is saved by
//! parameter name, so a checkpoint does not depend on the layout of the flat vector.
//!
//! Main type: [`Optimizer`].

mod device;
mod elementwise;
mod host;
mod layout;
mod muon;

#[cfg(test)]
mod tests;

use burn::optim::AdjustLrFn;
use burn::tensor::{Device, Tensor};

pub(crate) use layout::{Layout, Slot};

use crate::checkpoint::TensorBytes;
use crate::config;
use crate::run::Fault;
use elementwise::{Elementwise, Rule};
use layout::Saved;
use muon::Muon;

/// Decay rates of AdamW for the parameters that Muon does not take, as in its authors' recipe.
const MUON_ADAMW_BETAS: [f64; 2] = [0.9, 0.95];
/// Added to the denominator there.
const MUON_ADAMW_EPSILON: f64 = 1e-8;

/// An update rule with its state.
pub(crate) struct Optimizer {
    layout: Layout,
    decay: Decay,
    kind: Kind,
}

enum Kind {
    Elementwise(Elementwise),
    Muon(Muon),
}

/// Weight decay of the prefix.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Decay {
    /// Added to the gradient: `g + d w`.
    Gradient(f64),
    /// Decoupled (Loshchilov and Hutter 2017): `w (1 - rate d)`.
    Weights(f64),
}

/// What one step is about.
#[derive(Clone, Copy, Debug)]
struct Update {
    /// Factor of the gradient.
    scale: f64,
    /// Learning rate.
    rate: f64,
    /// Weight decay.
    decay: Decay,
    /// Length of the prefix that decays.
    decay_count: usize,
}

impl Optimizer {
    /// An optimiser that has not seen a step.
    pub(crate) fn new(config: &config::Optimizer, layout: Layout) -> Self {
        Self::with(config, layout, AdjustLrFn::MatchRmsAdamW)
    }

    /// As [`Optimizer::new`], with a way to scale Muon's rate by the shape of a matrix.
    fn with(config: &config::Optimizer, layout: Layout, adjust: AdjustLrFn) -> Self {
        let (decay, kind) = match *config {
            config::Optimizer::Sgd {
                momentum,
                nesterov,
                weight_decay,
                ..
            } => (
                Decay::Gradient(weight_decay),
                Kind::Elementwise(Elementwise::new(Rule::Sgd { momentum, nesterov })),
            ),
            config::Optimizer::Adam {
                betas,
                epsilon,
                weight_decay,
                ..
            } => (
                Decay::Gradient(weight_decay),
                Kind::Elementwise(Elementwise::new(Rule::Adam { betas, epsilon })),
            ),
            config::Optimizer::Adamw {
                betas,
                epsilon,
                weight_decay,
                ..
            } => (
                Decay::Weights(weight_decay),
                Kind::Elementwise(Elementwise::new(Rule::Adam { betas, epsilon })),
            ),
            config::Optimizer::Lion {
                betas,
                weight_decay,
                ..
            } => (
                Decay::Weights(weight_decay),
                Kind::Elementwise(Elementwise::new(Rule::Lion { betas })),
            ),
            config::Optimizer::Muon {
                momentum,
                iterations,
                weight_decay,
                ..
            } => {
                let rest = Elementwise::new(Rule::Adam {
                    betas: MUON_ADAMW_BETAS,
                    epsilon: MUON_ADAMW_EPSILON,
                });
                let muon = Muon::new(&layout, momentum, iterations, adjust, rest);
                (Decay::Weights(weight_decay), Kind::Muon(muon))
            }
        };
        Self {
            layout,
            decay,
            kind,
        }
    }

    /// The optimiser as [`Optimizer::to_bytes`] left it; no tensors mean that it has not seen a step.
    ///
    /// # Errors
    ///
    /// When the tensors are not exactly those of this rule and layout.
    pub(crate) fn from_bytes(
        config: &config::Optimizer,
        layout: Layout,
        tensors: &[TensorBytes],
        device: &Device,
    ) -> Result<Self, Fault> {
        let mut optimizer = Self::new(config, layout);
        if tensors.is_empty() {
            return Ok(optimizer);
        }
        let mut saved = Saved::new(tensors);
        let layout = &optimizer.layout;
        match &mut optimizer.kind {
            Kind::Elementwise(rule) => rule.restore(&layout.slots, &mut saved, device),
            Kind::Muon(muon) => muon.restore(layout, &mut saved, device),
        }
        saved.finish()?;
        Ok(optimizer)
    }

    /// The parameters `[n]` after one step along `scale` times `gradient` `[n]`.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(crate) fn apply(
        &mut self,
        parameters: Tensor<1>,
        gradient: Tensor<1>,
        scale: f64,
        learning_rate: f64,
    ) -> Result<Tensor<1>, Fault> {
        let update = Update {
            scale,
            rate: learning_rate,
            decay: self.decay,
            decay_count: self.layout.decay_count,
        };
        match &mut self.kind {
            Kind::Elementwise(rule) => rule.step(parameters, gradient, &update),
            Kind::Muon(muon) => muon.step(&self.layout, parameters, gradient, &update),
        }
    }

    /// All state, one tensor per kind and parameter: `moment_1.<parameter>` and so on. Empty before
    /// the first step and for rules without memory.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(crate) fn to_bytes(&self) -> Result<Vec<TensorBytes>, Fault> {
        match &self.kind {
            Kind::Elementwise(rule) => rule.to_bytes(&self.layout.slots),
            Kind::Muon(muon) => muon.to_bytes(&self.layout),
        }
    }
}
