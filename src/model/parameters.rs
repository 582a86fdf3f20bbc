//! Values of parameters and buffers: flat tensors with a name for each part.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use burn::tensor::{Device, Gradients, Tensor};

use super::ModelError;
use super::initial;
use super::network::Network;
use super::parameter::ParameterId;
use crate::checkpoint::{DType, TensorBytes};
use crate::ops;
use crate::run::Fault;

/// Share of new statistics in the running ones, as PyTorch's default.
pub const BATCH_NORM_MOMENTUM: f64 = 0.1;

/// The values of all parameters of a network.
///
/// They are one flat vector; the leaves of automatic differentiation are parts of it, on the CPU
/// without a copy. A step makes a new vector, never changes one.
#[derive(Clone, Debug)]
pub struct Parameters {
    flat: Tensor<1>,
    /// In network order, tracked.
    leaves: Vec<Tensor<1>>,
}

impl Parameters {
    /// Initial values, made on the host: see [`ParameterSpec::initial`](super::ParameterSpec).
    #[must_use]
    pub fn initial(network: &Network, seed: u64, device: &Device) -> Self {
        let mut values = vec![0f32; network.parameter_count()];
        for spec in &network.parameters {
            initial::fill(spec, seed, &mut values[spec.range.clone()]);
        }
        let device = device.clone().without_autodiff();
        Self::from_flat(network, ops::upload(values, &device))
    }

    /// From a flat vector in the network's layout, of length [`Network::parameter_count`].
    #[must_use]
    pub fn from_flat(network: &Network, flat: Tensor<1>) -> Self {
        let flat = flat.without_autodiff();
        let leaf = |range: &Range<usize>| {
            let part = ops::part(&flat, range.clone());
            part.autodiff().require_grad()
        };
        Self {
            leaves: network.parameters.iter().map(|p| leaf(&p.range)).collect(),
            flat,
        }
    }

    /// The flat vector, untracked. Cheap.
    #[must_use]
    pub fn flat(&self) -> Tensor<1> {
        self.flat.clone()
    }

    /// The flat vector, untracked; leaves no parameters behind.
    pub fn take(&mut self) -> Tensor<1> {
        self.leaves.clear();
        let empty = Tensor::empty([0], &self.flat.device());
        std::mem::replace(&mut self.flat, empty)
    }

    /// Where the values are, without automatic differentiation.
    #[must_use]
    pub fn device(&self) -> Device {
        self.flat.device()
    }

    /// The tracked leaf of one parameter, flat.
    pub(super) fn leaf(&self, id: ParameterId) -> Tensor<1> {
        self.leaves[id.0].clone()
    }

    /// The gradient of all parameters as one flat vector in the network's layout; zeros for
    /// parameters that the loss does not depend on.
    #[must_use]
    pub fn gradient(&self, network: &Network, mut gradients: Gradients) -> Tensor<1> {
        let device = self.device();
        let parts = network.flat_order.iter().map(|&index| {
            let length = network.parameters[index].range.len();
            self.leaves[index]
                .grad_remove(&mut gradients)
                .unwrap_or_else(|| Tensor::zeros([length], &device))
        });
        ops::join(parts.collect())
    }

    /// One tensor of bytes per parameter, in network order.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub fn to_bytes(&self, network: &Network) -> Result<Vec<TensorBytes>, Fault> {
        let values = ops::download(self.flat())?;
        Ok(to_bytes(&values, parameter_places(network)))
    }

    /// From named tensors; those of buffers may be among them.
    ///
    /// # Errors
    ///
    /// Lists every parameter that is missing or has another shape or type, and every tensor that
    /// the network does not know.
    pub fn from_bytes(
        network: &Network,
        tensors: &[TensorBytes],
        device: &Device,
    ) -> Result<Self, ModelError> {
        let others = names(&buffer_places(network));
        let values = collect("weights", tensors, parameter_places(network), &others)?;
        let device = device.clone().without_autodiff();
        Ok(Self::from_flat(network, ops::upload(values, &device)))
    }
}

/// Running statistics of batch normalisation: one flat vector, means and variances in the order of
/// [`Network::buffers`]. Empty for networks without them.
#[derive(Clone, Debug)]
pub struct Buffers {
    flat: Option<Tensor<1>>,
}

impl Buffers {
    /// Means 0 and variances 1.
    #[must_use]
    pub fn initial(network: &Network, device: &Device) -> Self {
        let mut values = Vec::with_capacity(network.buffer_count());
        for spec in &network.buffers {
            values.resize(spec.range.end, spec.initial);
        }
        Self::from_values(values, device)
    }

    fn from_values(values: Vec<f32>, device: &Device) -> Self {
        let device = device.clone().without_autodiff();
        Self {
            flat: (!values.is_empty()).then(|| ops::upload(values, &device)),
        }
    }

    /// The flat vector; none when the network has no buffers.
    #[must_use]
    pub fn flat(&self) -> Option<Tensor<1>> {
        self.flat.clone()
    }

    /// Moves the running statistics towards those of a batch, [`Forward::statistics`] averaged over
    /// its shards, by [`BATCH_NORM_MOMENTUM`].
    ///
    /// [`Forward::statistics`]: super::Forward
    pub fn update(&mut self, statistics: Tensor<1>) {
        if let Some(old) = self.flat.take() {
            let new = statistics.without_autodiff();
            let moved = old * (1.0 - BATCH_NORM_MOMENTUM) + new * BATCH_NORM_MOMENTUM;
            self.flat = Some(moved);
        }
    }

    /// One part, e.g. the running mean of a layer.
    pub(super) fn part(&self, range: &Range<usize>) -> Option<Tensor<1>> {
        let flat = self.flat.as_ref()?;
        Some(ops::part(flat, range.clone()))
    }

    /// One tensor of bytes per buffer.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub fn to_bytes(&self, network: &Network) -> Result<Vec<TensorBytes>, Fault> {
        let Some(flat) = self.flat() else {
            return Ok(Vec::new());
        };
        Ok(to_bytes(&ops::download(flat)?, buffer_places(network)))
    }

    /// From named tensors; those of parameters may be among them.
    ///
    /// # Errors
    ///
    /// As [`Parameters::from_bytes`].
    pub fn from_bytes(
        network: &Network,
        tensors: &[TensorBytes],
        device: &Device,
    ) -> Result<Self, ModelError> {
        let others = names(&parameter_places(network));
        let values = collect("buffers", tensors, buffer_places(network), &others)?;
        Ok(Self::from_values(values, device))
    }
}

/// Name, shape and place in the flat vector.
type Place<'a> = (&'a str, &'a [usize], Range<usize>);

fn parameter_places(network: &Network) -> Vec<Place<'_>> {
    let specs = network.parameters.iter();
    specs
        .map(|spec| (spec.name.as_str(), &*spec.shape, spec.range.clone()))
        .collect()
}

fn buffer_places(network: &Network) -> Vec<Place<'_>> {
    let specs = network.buffers.iter();
    specs
        .map(|spec| (spec.name.as_str(), &*spec.shape, spec.range.clone()))
        .collect()
}

fn names<'a>(places: &[Place<'a>]) -> BTreeSet<&'a str> {
    places.iter().map(|(name, ..)| *name).collect()
}

fn to_bytes(values: &[f32], places: Vec<Place<'_>>) -> Vec<TensorBytes> {
    places
        .into_iter()
        .map(|(name, shape, range)| tensor_bytes(name, shape, &values[range]))
        .collect()
}

fn tensor_bytes(name: &str, shape: &[usize], values: &[f32]) -> TensorBytes {
    let mut bytes = Vec::with_capacity(values.len() * DType::F32.bytes());
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    TensorBytes {
        name: name.to_owned(),
        dtype: DType::F32,
        shape: shape.to_vec(),
        bytes,
    }
}

/// Fills a flat vector from named tensors. `wanted` are names, shapes and places; names in `others`
/// belong to someone else.
fn collect(
    what: &'static str,
    tensors: &[TensorBytes],
    wanted: Vec<Place<'_>>,
    others: &BTreeSet<&str>,
) -> Result<Vec<f32>, ModelError> {
    let mut problems = Vec::new();
    let mut found = BTreeMap::new();
    for tensor in tensors {
        if found.insert(tensor.name.as_str(), tensor).is_some() {
            problems.push(format!("{} is there twice", tensor.name));
        }
    }
    let end = wanted.iter().map(|(_, _, range)| range.end).max();
    let mut values = vec![0f32; end.unwrap_or(0)];
    for (name, shape, range) in wanted {
        let Some(tensor) = found.remove(name) else {
            problems.push(format!("{name} {shape:?} is missing"));
            continue;
        };
        if tensor.shape != shape {
            let has = &tensor.shape;
            problems.push(format!(
                "{name} has shape {has:?}, the model needs {shape:?}"
            ));
        } else if tensor.dtype != DType::F32 {
            let has = tensor.dtype;
            problems.push(format!("{name} has type {has:?}, the model needs F32"));
        } else if tensor.bytes.len() != range.len() * DType::F32.bytes() {
            let has = tensor.bytes.len();
            problems.push(format!("{name} has {has} bytes, which is not its shape"));
        } else {
            let words = tensor.bytes.chunks_exact(DType::F32.bytes());
            for (value, word) in values[range].iter_mut().zip(words) {
                if let Ok(word) = word.try_into() {
                    *value = f32::from_le_bytes(word);
                }
            }
        }
    }
    let unknown = found.keys().filter(|name| !others.contains(*name));
    problems.extend(unknown.map(|name| format!("{name} is not part of the model")));
    if problems.is_empty() {
        Ok(values)
    } else {
        Err(ModelError::Tensors { what, problems })
    }
}
