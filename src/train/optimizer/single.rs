//! A rule of burn's that keeps one vector beside the parameters.

use burn::optim::{Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

use super::layout::{Layout, Saved, named};
use crate::checkpoint::TensorBytes;
use crate::run::Fault;

/// A rule of burn's with its state over the whole flat vector.
pub(super) struct Single<O: Optimizer> {
    rule: O,
    /// What the vector is called in a checkpoint.
    kind: &'static str,
    /// Where burn keeps it in its state.
    path: &'static str,
    state: Option<O::State<1>>,
}

impl<O: Optimizer> Single<O> {
    pub(super) fn new(rule: O, kind: &'static str, path: &'static str) -> Self {
        Self {
            rule,
            kind,
            path,
            state: None,
        }
    }

    /// The parameters after one step; `[n]`.
    pub(super) fn step(
        &mut self,
        parameters: Tensor<1>,
        gradient: Tensor<1>,
        rate: f64,
    ) -> Tensor<1> {
        let (parameters, state) = self
            .rule
            .step(rate, parameters, gradient, self.state.take());
        self.state = state;
        parameters
    }

    pub(super) fn to_bytes(&self, layout: &Layout) -> Result<Vec<TensorBytes>, Fault> {
        let Some(state) = &self.state else {
            return Ok(Vec::new());
        };
        match vector(state, self.path) {
            Some(data) => Ok(named(self.kind, &data?, &layout.slots)),
            None => Ok(Vec::new()),
        }
    }

    pub(super) fn restore(&mut self, layout: &Layout, saved: &mut Saved<'_>, device: &Device) {
        let flat = saved.flat(self.kind, &layout.slots, device);
        self.state = state(self.path, flat, device);
    }
}

/// The one vector in a state of burn's; `None` where there is none.
pub(super) fn vector<S: RecordState>(state: &S, path: &str) -> Option<Result<Vec<f32>, Fault>> {
    let mut sink = StateSink::default();
    state.state_flatten("", &mut sink);
    let (_, data) = sink.tensors.into_iter().find(|(name, _)| name == path)?;
    Some(data.into_vec::<f32>().map_err(|error| {
        Fault::internal(format!("optimizer state is not in f32: {error:?}"))
    }))
}

/// A state of burn's around one tensor.
pub(super) fn state<S: RecordState, const D: usize>(
    path: &str,
    tensor: Tensor<D>,
    device: &Device,
) -> Option<S> {
    let mut source = StateSource::default();
    source.insert_tensor(path.to_string(), tensor.into_data());
    S::state_unflatten("", &mut source, device)
}
