//! Element-wise rules in one pass over host memory.
//!
//! A chain of tensor operations reads and writes every vector a dozen times; these rules are bound
//! by memory, so one pass is several times faster. No element depends on another: the number of
//! threads changes nothing.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::elementwise::{Rule, correction};
use super::{Decay, Update};
use crate::ops;
use crate::ops::vector::vectorized;
use crate::run::Fault;

/// Elements that one task of the thread pool takes.
const CHUNK: usize = 1 << 14;

/// As [`super::device::step`].
pub(super) fn step(
    rule: Rule,
    time: u64,
    update: &Update,
    parameters: Tensor<1>,
    gradient: Tensor<1>,
    vectors: &mut [Tensor<1>],
) -> Result<Tensor<1>, Fault> {
    let device = parameters.device();
    let mut weights = ops::download(parameters)?;
    let gradient = ops::download(gradient)?;
    let mut state = Vec::with_capacity(vectors.len());
    for vector in vectors.iter_mut() {
        // Leaves an empty tensor behind, so that the values move instead of being copied.
        let empty = Tensor::empty([0], &device);
        state.push(ops::download(std::mem::replace(vector, empty))?);
    }
    let pass = Pass {
        update,
        weights: &mut weights,
        gradient: &gradient,
    };
    pass.apply(rule, time, &mut state);
    for (vector, values) in vectors.iter_mut().zip(state) {
        *vector = ops::upload(values, &device);
    }
    Ok(ops::upload(weights, &device))
}

/// Weights that follow a gradient.
struct Pass<'a> {
    update: &'a Update,
    weights: &'a mut [f32],
    gradient: &'a [f32],
}

impl Pass<'_> {
    /// Takes step number `time` of a rule with its state.
    fn apply(self, rule: Rule, time: u64, state: &mut [Vec<f32>]) {
        let rate = narrow(self.update.rate);
        match (rule, state) {
            (Rule::Sgd { momentum, nesterov }, [velocity]) => {
                let momentum = narrow(momentum);
                self.over([velocity], |g, [v]| {
                    *v = momentum * *v + g;
                    rate * if nesterov { momentum * *v + g } else { *v }
                });
            }
            (Rule::Sgd { .. }, _) => self.over([], |g, []| rate * g),
            (Rule::Adam { betas, epsilon }, [first, second]) => {
                let [beta_1, beta_2] = betas.map(narrow);
                let [rest_1, rest_2] = betas.map(|beta| narrow(1.0 - beta));
                let rate = narrow(self.update.rate / correction(betas[0], time));
                let inverse = narrow(1.0 / correction(betas[1], time).sqrt());
                let epsilon = narrow(epsilon);
                self.over([first, second], |g, [m, v]| {
                    *m = beta_1 * *m + rest_1 * g;
                    *v = beta_2 * *v + rest_2 * (g * g);
                    rate * *m / (v.sqrt() * inverse + epsilon)
                });
            }
            (Rule::Lion { betas }, [momentum]) => {
                let [beta_1, beta_2] = betas.map(narrow);
                let [rest_1, rest_2] = betas.map(|beta| narrow(1.0 - beta));
                self.over([momentum], |g, [m]| {
                    let direction = beta_1 * *m + rest_1 * g;
                    *m = beta_2 * *m + rest_2 * g;
                    rate * sign(direction)
                });
            }
            // The state always has the vectors of its rule.
            (Rule::Adam { .. } | Rule::Lion { .. }, _) => {}
        }
    }

    /// Goes once over all elements. `rule` takes the gradient of an element and its state, changes
    /// the state and gives what is subtracted from the weight.
    fn over<const N: usize>(
        self,
        state: [&mut Vec<f32>; N],
        rule: impl Fn(f32, [&mut f32; N]) -> f32 + Sync,
    ) {
        let chunks = self.weights.len().div_ceil(CHUNK);
        let mut states: Vec<Vec<&mut [f32]>> = (0..chunks).map(|_| Vec::with_capacity(N)).collect();
        for vector in state {
            for (states, part) in states.iter_mut().zip(vector.chunks_mut(CHUNK)) {
                states.push(part);
            }
        }
        let update = self.update;
        let scale = narrow(update.scale);
        let (l2, keep) = match update.decay {
            Decay::Gradient(decay) => (narrow(decay), 1.0),
            Decay::Weights(decay) => (0.0, narrow(1.0 - update.rate * decay)),
        };
        let weights = self.weights.par_chunks_mut(CHUNK);
        let work = weights.zip(self.gradient.par_chunks(CHUNK)).zip(states);
        work.enumerate()
            .for_each(|(index, ((weights, gradient), states))| {
                let Ok(states) = <[&mut [f32]; N]>::try_from(states) else {
                    return;
                };
                let before = update.decay_count.saturating_sub(index * CHUNK);
                let decaying = before.min(weights.len());
                let (w, weights) = weights.split_at_mut(decaying);
                let (g, gradient) = gradient.split_at(decaying);
                let [s, states] = halves(states, decaying);
                vectorized(
                    #[inline(always)]
                    || {
                        run(w, g, s, &rule, (scale, l2, keep));
                        run(weights, gradient, states, &rule, (scale, 0.0, 1.0));
                    },
                );
            });
    }
}

/// The first `count` elements of each vector, and the others.
fn halves<const N: usize>(states: [&mut [f32]; N], count: usize) -> [[&mut [f32]; N]; 2] {
    let mut second: [&mut [f32]; N] = std::array::from_fn(|_| Default::default());
    let mut slots = second.iter_mut();
    let first = states.map(|state| {
        let (first, rest) = state.split_at_mut(count.min(state.len()));
        if let Some(slot) = slots.next() {
            *slot = rest;
        }
        first
    });
    [first, second]
}

/// The innermost loop. All slices are cut to one length first, so that no access needs a check.
#[allow(clippy::inline_always, reason = "see `ops::vector`")]
#[inline(always)]
fn run<const N: usize>(
    weights: &mut [f32],
    gradient: &[f32],
    states: [&mut [f32]; N],
    rule: &impl Fn(f32, [&mut f32; N]) -> f32,
    (scale, l2, keep): (f32, f32, f32),
) {
    let shortest = states.iter().map(|state| state.len()).min();
    let length = weights.len().min(gradient.len());
    let length = shortest.map_or(length, |shortest| shortest.min(length));
    let weights = &mut weights[..length];
    let gradient = &gradient[..length];
    let mut states = states.map(|state| &mut state[..length]);
    for index in 0..length {
        let w = weights[index];
        let g = gradient[index] * scale + l2 * w;
        let state = states.each_mut().map(|state| &mut state[index]);
        weights[index] = w * keep - rule(g, state);
    }
}

/// -1, 0 or 1; NaN stays.
fn sign(value: f32) -> f32 {
    if value == 0.0 { 0.0 } else { value.signum() }
}

#[expect(clippy::cast_possible_truncation, reason = "weights are in f32")]
fn narrow(value: f64) -> f32 {
    value as f32
}
