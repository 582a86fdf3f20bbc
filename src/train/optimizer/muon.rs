//! Muon (Jordan et al. 2024) for hidden matrices, AdamW for all other parameters.
//!
//! The rate of a matrix [a, b] is the configured one times 0.2 sqrt(max(a, b)) (Liu et al. 2025,
//! "Muon is scalable for LLM training"): its update then is as large as one of AdamW's, so one rate
//! serves both. Convolution kernels count as matrices of [out, the rest].

use std::slice::from_ref;

use burn::optim::momentum::MomentumConfig;
use burn::optim::{
    AdjustLrFn, Muon as BurnMuon, MuonConfig, MuonState, Optimizer, RecordState, StateSink,
    StateSource,
};
use burn::tensor::{Device, Tensor};

use super::elementwise::Elementwise;
use super::layout::{Layout, Saved, Slot, named};
use super::{Decay, Update, device};
use crate::checkpoint::TensorBytes;
use crate::ops;
use crate::run::Fault;

/// What the momentum is called in a checkpoint.
const KIND: &str = "momentum";
/// Where burn keeps it in its state.
const PATH: &str = "momentum.velocity";

/// Muon with the AdamW that takes the rest.
pub(super) struct Muon {
    rule: BurnMuon,
    /// By slot; `None` for those that AdamW takes, and before the first step.
    states: Vec<Option<MuonState<2>>>,
    /// The slots that AdamW takes.
    others: Vec<Slot>,
    rest: Elementwise,
}

impl Muon {
    pub(super) fn new(
        layout: &Layout,
        momentum: f64,
        iterations: u32,
        adjust: AdjustLrFn,
        rest: Elementwise,
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
            others: others(layout).cloned().collect(),
            rest,
        }
    }

    /// The parameters after one step.
    pub(super) fn step(
        &mut self,
        layout: &Layout,
        parameters: Tensor<1>,
        gradient: Tensor<1>,
        update: &Update,
    ) -> Result<Tensor<1>, Fault> {
        let gradient = gradient.mul_scalar(update.scale);
        let (parameters, gradient) = device::decayed(update, parameters, gradient);
        let mut rest = self.step_rest(&parameters, &gradient, update)?;
        let mut pieces = Vec::with_capacity(layout.slots.len());
        for (slot, state) in layout.slots.iter().zip(&mut self.states) {
            if slot.hidden_matrix {
                let (matrix, next) = self.rule.step(
                    update.rate,
                    matrix(&parameters, slot),
                    matrix(&gradient, slot),
                    state.take(),
                );
                *state = next;
                pieces.push(matrix.reshape([slot.range.len()]));
            } else if let Some(updated) = rest.take() {
                let length = slot.range.len();
                let after = updated.dims()[0] - length;
                pieces.push(updated.clone().narrow(0, 0, length));
                rest = (after > 0).then(|| updated.narrow(0, length, after));
            }
        }
        Ok(ops::join(pieces))
    }

    /// The updated values of all that are no hidden matrices, one after another. They have decayed
    /// already.
    fn step_rest(
        &mut self,
        parameters: &Tensor<1>,
        gradient: &Tensor<1>,
        update: &Update,
    ) -> Result<Option<Tensor<1>>, Fault> {
        let gather = |from: &Tensor<1>| -> Vec<Tensor<1>> {
            self.others
                .iter()
                .map(|slot| ops::part(from, slot.range.clone()))
                .collect()
        };
        let pieces = gather(parameters);
        if pieces.is_empty() {
            return Ok(None);
        }
        let update = Update {
            scale: 1.0,
            rate: update.rate,
            decay: Decay::Weights(0.0),
            decay_count: 0,
        };
        let gradient = ops::join(gather(gradient));
        let updated = self.rest.step(ops::join(pieces), gradient, &update)?;
        Ok(Some(updated))
    }

    /// All state.
    pub(super) fn to_bytes(&self, layout: &Layout) -> Result<Vec<TensorBytes>, Fault> {
        let mut tensors = Vec::new();
        for (slot, state) in layout.slots.iter().zip(&self.states) {
            if let Some(state) = state {
                tensors.extend(named(KIND, &momentum(state)?, from_ref(slot)));
            }
        }
        tensors.extend(self.rest.to_bytes(&self.others)?);
        Ok(tensors)
    }

    /// Takes the state from what [`Muon::to_bytes`] gave.
    pub(super) fn restore(&mut self, layout: &Layout, saved: &mut Saved<'_>, device: &Device) {
        for (slot, state) in layout.slots.iter().zip(&mut self.states) {
            if slot.hidden_matrix {
                let flat = saved.flat(KIND, from_ref(slot), device);
                // A missing tensor came back empty; `saved` reports it.
                if flat.dims()[0] == slot.range.len() {
                    *state = state_of(flat.reshape(matrix_shape(slot)), device);
                }
            }
        }
        if !self.others.is_empty() {
            self.rest.restore(&self.others, saved, device);
        }
    }
}

/// The momentum in a state of burn's, whose field is private.
fn momentum(state: &MuonState<2>) -> Result<Vec<f32>, Fault> {
    let mut sink = StateSink::default();
    state.state_flatten("", &mut sink);
    sink.tensors
        .into_iter()
        .find(|(name, _)| name == PATH)
        .and_then(|(_, data)| data.try_into_vec::<f32>().ok())
        .ok_or_else(|| Fault::internal("burn's Muon keeps its momentum in another place"))
}

/// A state of burn's around a momentum.
fn state_of(momentum: Tensor<2>, device: &Device) -> Option<MuonState<2>> {
    let mut source = StateSource::default();
    source.insert_tensor(PATH.to_string(), momentum.into_data());
    MuonState::state_unflatten("", &mut source, device)
}

fn others(layout: &Layout) -> impl Iterator<Item = &Slot> {
    layout.slots.iter().filter(|slot| !slot.hidden_matrix)
}

fn matrix_shape(slot: &Slot) -> [usize; 2] {
    let rows = slot.shape.first().copied().unwrap_or(1).max(1);
    [rows, slot.range.len() / rows]
}

fn matrix(flat: &Tensor<1>, slot: &Slot) -> Tensor<2> {
    ops::part(flat, slot.range.clone()).reshape(matrix_shape(slot))
}
