//! How weights follow gradients: one flat vector of parameters, one flat gradient, one rate.
//!
//! SGD, Lion and Muon are burn's, which agree with PyTorch and with float64; Adam and AdamW are ours
//! (see [`adam`]). Weight decay is applied here for all of them, because it concerns only a prefix of
//! the flat vector: matrices, kernels and embeddings, not biases and normalisation weights.
//!
//! Refuses to: know the schedule, the step, or how many workers there are. Its state is saved by
//! parameter name, so a checkpoint does not depend on the layout of the flat vector.
//!
//! Main type: [`Optimizer`].

mod adam;
mod layout;
mod muon;
mod single;

#[cfg(test)]
mod tests;

use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdjustLrFn, Lion, LionConfig, Sgd, SgdConfig};
use burn::tensor::{Device, Tensor};

pub(crate) use layout::{Layout, Slot};

use crate::checkpoint::TensorBytes;
use crate::config;
use crate::run::Fault;
use adam::Adam;
use layout::Saved;
use muon::Muon;
use single::Single;

/// Decay rates of AdamW for the parameters that Muon does not take, as in its authors' recipe.
const MUON_ADAMW_BETAS: [f64; 2] = [0.9, 0.95];
/// Added to the denominator there.
const MUON_ADAMW_EPSILON: f64 = 1e-8;

/// An update rule with its state.
pub(crate) struct Optimizer {
    layout: Layout,
    decay: Decay,
    rule: Rule,
}

enum Rule {
    Sgd(Single<Sgd>),
    Adam(Adam),
    Lion(Single<Lion>),
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

impl Optimizer {
    /// An optimiser that has not seen a step.
    pub(crate) fn new(config: &config::Optimizer, layout: Layout) -> Self {
        let (decay, rule) = rule(config, &layout, AdjustLrFn::MatchRmsAdamW);
        Self { layout, decay, rule }
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
        match &mut optimizer.rule {
            Rule::Sgd(sgd) => sgd.restore(layout, &mut saved, device),
            Rule::Adam(adam) => adam.restore(&layout.slots, &mut saved, device),
            Rule::Lion(lion) => lion.restore(layout, &mut saved, device),
            Rule::Muon(muon) => muon.restore(layout, &mut saved, device),
        }
        saved.finish()?;
        Ok(optimizer)
    }

    /// The parameters after one step, `[n]` as all of the arguments.
    pub(crate) fn apply(
        &mut self,
        parameters: Tensor<1>,
        gradient: Tensor<1>,
        learning_rate: f64,
    ) -> Tensor<1> {
        let (parameters, gradient) = self.decay.apply(
            parameters,
            gradient,
            self.layout.decay_count,
            learning_rate,
        );
        match &mut self.rule {
            Rule::Sgd(sgd) => sgd.step(parameters, gradient, learning_rate),
            Rule::Adam(adam) => adam.step(parameters, gradient, learning_rate),
            Rule::Lion(lion) => lion.step(parameters, gradient, learning_rate),
            Rule::Muon(muon) => muon.step(&self.layout, &parameters, &gradient, learning_rate),
        }
    }

    /// All state, one tensor per kind and parameter: `moment_1.<parameter>` and so on. Empty before
    /// the first step and for rules without memory.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(crate) fn to_bytes(&self) -> Result<Vec<TensorBytes>, Fault> {
        match &self.rule {
            Rule::Sgd(sgd) => sgd.to_bytes(&self.layout),
            Rule::Adam(adam) => adam.to_bytes(&self.layout.slots),
            Rule::Lion(lion) => lion.to_bytes(&self.layout),
            Rule::Muon(muon) => muon.to_bytes(&self.layout),
        }
    }
}

fn rule(config: &config::Optimizer, layout: &Layout, adjust: AdjustLrFn) -> (Decay, Rule) {
    match *config {
        config::Optimizer::Sgd {
            momentum,
            nesterov,
            weight_decay,
            ..
        } => {
            let momentum = (momentum > 0.0).then_some(MomentumConfig {
                momentum,
                dampening: 0.0,
                nesterov,
            });
            let sgd = SgdConfig::new().with_momentum(momentum).build();
            let sgd = Single::new(sgd, "momentum", "momentum.velocity");
            (Decay::Gradient(weight_decay), Rule::Sgd(sgd))
        }
        config::Optimizer::Adam {
            betas,
            epsilon,
            weight_decay,
            ..
        } => {
            let adam = Rule::Adam(Adam::new(betas, epsilon));
            (Decay::Gradient(weight_decay), adam)
        }
        config::Optimizer::Adamw {
            betas,
            epsilon,
            weight_decay,
            ..
        } => {
            let adam = Rule::Adam(Adam::new(betas, epsilon));
            (Decay::Weights(weight_decay), adam)
        }
        config::Optimizer::Lion {
            betas: [beta_1, beta_2],
            weight_decay,
            ..
        } => {
            let lion = LionConfig::new()
                .with_beta_1(narrow(beta_1))
                .with_beta_2(narrow(beta_2))
                .build();
            let lion = Rule::Lion(Single::new(lion, "momentum", "momentum"));
            (Decay::Weights(weight_decay), lion)
        }
        config::Optimizer::Muon {
            momentum,
            iterations,
            weight_decay,
            ..
        } => {
            let rest = Adam::new(MUON_ADAMW_BETAS, MUON_ADAMW_EPSILON);
            let muon = Muon::new(layout, momentum, iterations, adjust, rest);
            (Decay::Weights(weight_decay), Rule::Muon(muon))
        }
    }
}

impl Decay {
    fn apply(
        self,
        parameters: Tensor<1>,
        gradient: Tensor<1>,
        count: usize,
        rate: f64,
    ) -> (Tensor<1>, Tensor<1>) {
        match self {
            Decay::Gradient(decay) | Decay::Weights(decay) if decay == 0.0 || count == 0 => {
                (parameters, gradient)
            }
            Decay::Gradient(decay) => {
                let added = parameters.clone().narrow(0, 0, count).mul_scalar(decay);
                let gradient = with_prefix(gradient, count, |prefix| prefix + added);
                (parameters, gradient)
            }
            Decay::Weights(decay) => {
                let factor = 1.0 - rate * decay;
                let parameters = with_prefix(parameters, count, |prefix| prefix.mul_scalar(factor));
                (parameters, gradient)
            }
        }
    }
}

/// `vector` with its first `count` values changed.
fn with_prefix(
    vector: Tensor<1>,
    count: usize,
    change: impl FnOnce(Tensor<1>) -> Tensor<1>,
) -> Tensor<1> {
    let rest = vector.dims()[0] - count;
    if rest == 0 {
        return change(vector);
    }
    let tail = vector.clone().narrow(0, count, rest);
    Tensor::cat(vec![change(vector.narrow(0, 0, count)), tail], 0)
}

#[expect(clippy::cast_possible_truncation, reason = "burn takes these in f32")]
fn narrow(value: f64) -> f32 {
    value as f32
}
