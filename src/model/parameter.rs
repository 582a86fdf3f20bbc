//! Names, shapes and places of parameters and buffers.

use std::ops::Range;

use super::ModelError;

/// Index of a parameter in network order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterId(pub(super) usize);

/// How a parameter starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initial {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// Uniform in [-bound, bound).
    Uniform {
        /// Half the width.
        bound: f64,
    },
    /// Normal with mean 0.
    Normal {
        /// Standard deviation.
        std: f64,
    },
}

/// One trainable tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// Name, unique in the network, e.g. `layer1.0.conv1.weight`.
    pub name: String,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Its place in the flat vector of all parameters.
    pub range: Range<usize>,
    /// Whether weight decay applies: matrices, kernels and embeddings, not biases and gains.
    pub decay: bool,
    /// Whether it is a weight matrix (or kernel) between hidden layers, which Muon orthogonalises;
    /// neither an embedding nor the first or last layer.
    pub hidden_matrix: bool,
    /// How it starts.
    pub initial: Initial,
}

/// One tensor of running statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferSpec {
    /// Name, e.g. `bn1.running_mean`.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
    /// Its place in the flat vector of all buffers.
    pub range: Range<usize>,
    /// Value it starts with.
    pub initial: f32,
}

/// What a parameter is for; decides decay and whether Muon takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Matrix or kernel between hidden layers.
    Hidden,
    /// Matrix, kernel or embedding that touches the input or the output.
    Edge,
    /// Bias or gain.
    Vector,
}

/// Most trainable numbers of a model. Beyond it a config is a mistake on any machine we know.
pub(super) const PARAMETERS_MAX: usize = 1 << 37;

/// Parameters and buffers of a network that is being built, in network order.
#[derive(Debug, Default)]
pub(super) struct Registry {
    parameters: Vec<ParameterSpec>,
    buffers: Vec<BufferSpec>,
    count: usize,
}

impl Registry {
    /// Takes a new parameter; its place is decided by [`Registry::finish`].
    pub(super) fn parameter(
        &mut self,
        name: String,
        shape: &[usize],
        role: Role,
        initial: Initial,
    ) -> Result<ParameterId, ModelError> {
        let total = shape
            .iter()
            .try_fold(1usize, |product, &n| product.checked_mul(n))
            .and_then(|n| n.checked_add(self.count))
            .filter(|&n| n <= PARAMETERS_MAX)
            .ok_or_else(|| {
                ModelError::model(
                    format!("{name} {shape:?} brings the model over {PARAMETERS_MAX} parameters"),
                    "make the layers smaller",
                )
            })?;
        let size = total - self.count;
        self.count = total;
        self.parameters.push(ParameterSpec {
            name,
            shape: shape.to_vec(),
            range: 0..size,
            decay: role != Role::Vector,
            hidden_matrix: role == Role::Hidden,
            initial,
        });
        Ok(ParameterId(self.parameters.len() - 1))
    }

    /// Takes a new buffer.
    pub(super) fn buffer(&mut self, name: String, size: usize, initial: f32) -> Range<usize> {
        let start = self.buffers.last().map_or(0, |last| last.range.end);
        let range = start..start + size;
        self.buffers.push(BufferSpec {
            name,
            shape: vec![size],
            range: range.clone(),
            initial,
        });
        range
    }

    /// Places the parameters: those with decay first, then the others, each in network order.
    /// Returns them with the length of the part that decays.
    pub(super) fn finish(mut self) -> (Vec<ParameterSpec>, Vec<BufferSpec>, usize) {
        let mut end = 0;
        let mut decayed = 0;
        for decay in [true, false] {
            for spec in self.parameters.iter_mut().filter(|p| p.decay == decay) {
                spec.range = end..end + spec.range.len();
                end = spec.range.end;
            }
            if decay {
                decayed = end;
            }
        }
        (self.parameters, self.buffers, decayed)
    }
}
