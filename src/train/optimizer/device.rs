//! Element-wise rules as chains of tensor operations: for devices that fuse them, and what the pass
//! over host memory is tested against.

use burn::tensor::Tensor;

use super::elementwise::{Rule, correction};
use super::{Decay, Update};

/// The parameters `[n]` after step number `time`, counted from 1; changes the state `vectors`.
pub(super) fn step(
    rule: Rule,
    time: u64,
    update: &Update,
    parameters: Tensor<1>,
    gradient: Tensor<1>,
    vectors: &mut [Tensor<1>],
) -> Tensor<1> {
    let rate = update.rate;
    let (parameters, gradient) = decayed(update, parameters, gradient.mul_scalar(update.scale));
    match (rule, vectors) {
        (Rule::Sgd { momentum, nesterov }, [velocity]) => {
            velocity.inplace(|velocity| velocity.mul_scalar(momentum) + gradient.clone());
            let direction = if nesterov {
                velocity.clone().mul_scalar(momentum) + gradient
            } else {
                velocity.clone()
            };
            parameters - direction.mul_scalar(rate)
        }
        (Rule::Sgd { .. }, _) => parameters - gradient.mul_scalar(rate),
        (Rule::Adam { betas, epsilon }, [first, second]) => {
            let [beta_1, beta_2] = betas;
            first.inplace(|m| m.mul_scalar(beta_1) + gradient.clone().mul_scalar(1.0 - beta_1));
            second.inplace(|v| v.mul_scalar(beta_2) + gradient.square().mul_scalar(1.0 - beta_2));
            let root = second.clone().sqrt();
            let denominator = root
                .mul_scalar(1.0 / correction(beta_2, time).sqrt())
                .add_scalar(epsilon);
            let numerator = first.clone().mul_scalar(rate / correction(beta_1, time));
            parameters - numerator / denominator
        }
        (Rule::Lion { betas }, [momentum]) => {
            let [beta_1, beta_2] = betas;
            let direction =
                momentum.clone().mul_scalar(beta_1) + gradient.clone().mul_scalar(1.0 - beta_1);
            momentum.inplace(|m| m.mul_scalar(beta_2) + gradient.mul_scalar(1.0 - beta_2));
            parameters - direction.sign().mul_scalar(rate)
        }
        // The state always has the vectors of its rule.
        (Rule::Adam { .. } | Rule::Lion { .. }, _) => parameters,
    }
}

/// Parameters and gradient with weight decay on the prefix.
pub(super) fn decayed(
    update: &Update,
    parameters: Tensor<1>,
    gradient: Tensor<1>,
) -> (Tensor<1>, Tensor<1>) {
    let count = update.decay_count;
    match update.decay {
        Decay::Gradient(decay) | Decay::Weights(decay) if decay == 0.0 || count == 0 => {
            (parameters, gradient)
        }
        Decay::Gradient(decay) => {
            let added = parameters.clone().narrow(0, 0, count).mul_scalar(decay);
            let gradient = with_prefix(gradient, count, |prefix| prefix + added);
            (parameters, gradient)
        }
        Decay::Weights(decay) => {
            let factor = 1.0 - update.rate * decay;
            let parameters = with_prefix(parameters, count, |prefix| prefix.mul_scalar(factor));
            (parameters, gradient)
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
