//! Muon (Jordan et al. 2024) for hidden matrices, AdamW for all other parameters.
//!
//! The rate of a matrix [a, b] is the configured one times 0.2 sqrt(max(a, b)) (Liu et al. 2025,
//! "Muon is scalable for LLM training"): its update then is as large as one of AdamW's, so one rate
//! serves both. Convolution kernels count as matrices of [out, the rest].

use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdjustLrFn, Muon as BurnMuon, MuonConfig, MuonState, Optimizer};
use burn::tensor::{Device, Tensor};

use super::adam::Adam;
use super::layout::{Layout, Saved, Slot, named};
use super::single;
use crate::checkpoint::TensorBytes;
use crate::run::Fault;

const KIND: &str = "momentum";
const PATH: &str = "momentum.velocity";

/// Muon with the AdamW that takes the rest.
pub(super) struct Muon {
    rule: BurnMuon,
    /// By slot; `None` for those that AdamW takes, and before the first step.
    states: Vec<Option<MuonState<2>>>,
    rest: Adam,
}

impl Muon {
    pub(super) fn new(
        layout: &Layout,
        momentum: f64,
        iterations: u32,
        adjust: AdjustLrFn,
        rest: Adam,
    ) -> Self {
        let rule = MuonConfig::new()
            .with_momentum(MomentumConfig {
                momentum,
                dampening: 0.0,
                nesterov: true,
            })
            .with_ns_steps(iterations as usize)
            .with_adjust_lr_fn(adjust)
            .build();
        Self {
            rule,
            states: layout.slots.iter().map(|_| None).collect(),
            rest,
        }
    }

    /// The parameters after one step; `[n]`.
    pub(super) fn step(
        &mut self,
        layout: &Layout,
        parameters: &Tensor<1>,
        gradient: &Tensor<1>,
        rate: f64,
    ) -> Tensor<1> {
        let mut rest = self.step_rest(layout, parameters, gradient, rate);
        let mut pieces = Vec::with_capacity(layout.slots.len());
        for (slot, state) in layout.slots.iter().zip(&mut self.states) {
            if slot.hidden_matrix {
                let (matrix, next) = self.rule.step(
                    rate,
                    matrix(parameters, slot),
                    matrix(gradient, slot),
                    state.take(),
                );
                *state = next;
                pieces.push(matrix.reshape([slot.range.len()]));
            } else if let Some(updated) = rest.take() {
                let after = updated.dims()[0] - slot.range.len();
                pieces.push(updated.clone().narrow(0, 0, slot.range.len()));
                rest = (after > 0).then(|| updated.narrow(0, slot.range.len(), after));
            }
        }
        Tensor::cat(pieces, 0)
    }

    /// The updated values of all that are no hidden matrices, one after another.
    fn step_rest(
        &mut self,
        layout: &Layout,
        parameters: &Tensor<1>,
        gradient: &Tensor<1>,
        rate: f64,
    ) -> Option<Tensor<1>> {
        let gather = |from: &Tensor<1>| -> Vec<Tensor<1>> {
            others(layout)
                .map(|slot| {
                    from.clone()
                        .narrow(0, slot.range.start, slot.range.len())
                })
                .collect()
        };
        let pieces = gather(parameters);
        if pieces.is_empty() {
            return None;
        }
        let gradient = Tensor::cat(gather(gradient), 0);
        Some(self.rest.step(Tensor::cat(pieces, 0), gradient, rate))
    }

    pub(super) fn to_bytes(&self, layout: &Layout) -> Result<Vec<TensorBytes>, Fault> {
        let mut tensors = Vec::new();
        for (slot, state) in layout.slots.iter().zip(&self.states) {
            if let Some(values) = state.as_ref().and_then(|s| single::vector(s, PATH)) {
                tensors.extend(named(KIND, &values?, [slot]));
            }
        }
        tensors.extend(self.rest.to_bytes(others(layout))?);
        Ok(tensors)
    }

    pub(super) fn restore(&mut self, layout: &Layout, saved: &mut Saved<'_>, device: &Device) {
        for (slot, state) in layout.slots.iter().zip(&mut self.states) {
            if slot.hidden_matrix {
                let flat = saved.flat(KIND, [slot], device);
                // A missing tensor came back empty; `saved` reports it.
                *state = (flat.dims()[0] == slot.range.len())
                    .then(|| single::state(PATH, flat.reshape(matrix_shape(slot)), device))
                    .flatten();
            }
        }
        if others(layout).next().is_some() {
            self.rest.restore(others(layout), saved, device);
        }
    }
}

fn others(layout: &Layout) -> impl Iterator<Item = &Slot> + Clone {
    layout.slots.iter().filter(|slot| !slot.hidden_matrix)
}

fn matrix_shape(slot: &Slot) -> [usize; 2] {
    let rows = slot.shape.first().copied().unwrap_or(1).max(1);
    [rows, slot.range.len() / rows]
}

fn matrix(flat: &Tensor<1>, slot: &Slot) -> Tensor<2> {
    flat.clone()
        .narrow(0, slot.range.start, slot.range.len())
        .reshape(matrix_shape(slot))
}
