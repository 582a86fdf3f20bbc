//! Layers with weights: their shapes, names and initial values.

use super::ModelError;
use super::chain::{Chain, Window};
use super::layer::{BatchNorm, Columns, Conv2d, Embedding, Layer, Linear, Norm, PositionEmbedding};
use super::parameter::{Initial, ParameterId, Registry, Role};
use super::shape::Shape;

/// How the weights of a linear layer start.
#[derive(Clone, Copy, Debug)]
pub(super) enum LinearInitial {
    /// Weight and bias uniform within 1/sqrt(input), as PyTorch's `nn.Linear` does.
    Uniform,
    /// Weight normal with this deviation, bias 0, as GPT-2 does.
    Normal(f64),
}

impl Chain<'_> {
    /// Embeds categorical columns and appends them to the numeric ones. `categories` holds the
    /// vocabulary of each column; `width` is that of the vectors, 0 chooses
    /// min(50, (categories + 1) / 2).
    pub(super) fn columns(
        &mut self,
        name: &str,
        categories: &[usize],
        width: usize,
    ) -> Result<&mut Self, ModelError> {
        let Shape::Row { numeric, .. } = self.shape else {
            return self.fail(name, "Columns", "a row of a table");
        };
        let mut embeddings = Vec::with_capacity(categories.len());
        let mut features = numeric;
        for (column, &vocabulary) in categories.iter().enumerate() {
            let width = match width {
                0 => vocabulary.div_ceil(2).clamp(1, 50),
                given => given,
            };
            features = features.saturating_add(width);
            let weight = self.registry.parameter(
                format!("{}.{column}.weight", self.name(name)),
                &[vocabulary, width],
                Role::Edge,
                // On the scale of standardised numeric columns, as PyTorch's `nn.Embedding`.
                Initial::Normal { std: 1.0 },
            )?;
            embeddings.push(Embedding {
                vocabulary,
                width,
                weight,
            });
        }
        let layer = Layer::Columns(Columns {
            numeric,
            embeddings,
        });
        self.push(name, layer, Shape::Features(features))
    }

    /// The parts of a linear layer called `name`, without appending it.
    pub(super) fn linear_parts(
        &mut self,
        name: &str,
        input: usize,
        output: usize,
        bias: bool,
        initial: LinearInitial,
        role: Role,
    ) -> Result<Linear, ModelError> {
        let full = self.name(name);
        let (weight, start) = match initial {
            LinearInitial::Uniform => {
                let bound = 1.0 / float(input).sqrt();
                (Initial::Uniform { bound }, Initial::Uniform { bound })
            }
            LinearInitial::Normal(std) => (Initial::Normal { std }, Initial::Zeros),
        };
        Ok(Linear {
            input,
            output,
            weight: self.registry.parameter(
                format!("{full}.weight"),
                &[output, input],
                role,
                weight,
            )?,
            bias: if bias {
                let name = format!("{full}.bias");
                Some(
                    self.registry
                        .parameter(name, &[output], Role::Vector, start)?,
                )
            } else {
                None
            },
            tied: false,
        })
    }

    /// Shape after a linear layer with `output` features, and its input features.
    fn linear_shape(&self, name: &str, output: usize) -> Result<(usize, Shape), ModelError> {
        match self.shape {
            Shape::Features(input) => Ok((input, Shape::Features(output))),
            Shape::Sequence { length, width } => Ok((
                width,
                Shape::Sequence {
                    length,
                    width: output,
                },
            )),
            _ => self.fail(
                name,
                "Linear",
                "features or a sequence (add `flatten` before it)",
            ),
        }
    }

    /// Fully connected layer.
    pub(super) fn linear(
        &mut self,
        name: &str,
        output: usize,
        bias: bool,
        initial: LinearInitial,
        role: Role,
    ) -> Result<&mut Self, ModelError> {
        let (input, shape) = self.linear_shape(name, output)?;
        let linear = self.linear_parts(name, input, output, bias, initial, role)?;
        self.push(name, Layer::Linear(linear), shape)
    }

    /// Fully connected layer without bias whose weight is that of an embedding of `output` ids.
    pub(super) fn tied_linear(
        &mut self,
        name: &str,
        output: usize,
        weight: ParameterId,
    ) -> Result<&mut Self, ModelError> {
        let (input, shape) = self.linear_shape(name, output)?;
        let linear = Linear {
            input,
            output,
            weight,
            bias: None,
            tied: true,
        };
        self.push(name, Layer::Linear(linear), shape)
    }

    /// 2-D convolution. Weights start normal with variance 2 / (kernel^2 x output): He et al.,
    /// "Delving deep into rectifiers" (2015), in the fan-out form of their residual networks.
    pub(super) fn conv2d(
        &mut self,
        name: &str,
        output: usize,
        window: Window,
        bias: bool,
        role: Role,
    ) -> Result<&mut Self, ModelError> {
        let Shape::Map {
            channels: input,
            height,
            width,
        } = self.shape
        else {
            return self.fail(name, "Conv2d", "an image");
        };
        let [height, width] = self.slide(name, "Conv2d", window, [height, width])?;
        let full = self.name(name);
        let kernel = window.kernel;
        let std = (2.0 / (float(kernel) * float(kernel) * float(output))).sqrt();
        let weight = self.registry.parameter(
            format!("{full}.weight"),
            &[output, input, kernel, kernel],
            role,
            Initial::Normal { std },
        )?;
        let bias = if bias {
            let name = format!("{full}.bias");
            Some(
                self.registry
                    .parameter(name, &[output], Role::Vector, Initial::Zeros)?,
            )
        } else {
            None
        };
        let layer = Layer::Conv2d(Conv2d {
            input,
            output,
            kernel,
            stride: window.stride,
            padding: window.padding,
            weight,
            bias,
        });
        let shape = Shape::Map {
            channels: output,
            height,
            width,
        };
        self.push(name, layer, shape)
    }

    /// Batch normalisation. `gain` is what its gain starts with.
    pub(super) fn batch_norm(
        &mut self,
        name: &str,
        gain: Initial,
    ) -> Result<&mut Self, ModelError> {
        let channels = match self.shape {
            Shape::Features(n) => n,
            Shape::Map { channels, .. } => channels,
            _ => return self.fail(name, "BatchNorm", "an image or features"),
        };
        let full = self.name(name);
        let registry = &mut *self.registry;
        let vector = |registry: &mut Registry, part: &str, initial| {
            registry.parameter(format!("{full}.{part}"), &[channels], Role::Vector, initial)
        };
        let layer = Layer::BatchNorm(BatchNorm {
            channels,
            gain: vector(registry, "weight", gain)?,
            bias: vector(registry, "bias", Initial::Zeros)?,
            mean: registry.buffer(format!("{full}.running_mean"), channels, 0.0),
            variance: registry.buffer(format!("{full}.running_var"), channels, 1.0),
        });
        self.push(name, layer, self.shape)
    }

    /// Layer normalisation, or root-mean-square normalisation with `rms`, which has no bias.
    pub(super) fn norm(
        &mut self,
        name: &str,
        rms: bool,
        bias: bool,
    ) -> Result<&mut Self, ModelError> {
        let width = match self.shape {
            Shape::Features(n) => n,
            Shape::Sequence { width, .. } => width,
            _ => {
                let kind = if rms { "RmsNorm" } else { "LayerNorm" };
                return self.fail(name, kind, "features or a sequence");
            }
        };
        let full = self.name(name);
        let registry = &mut *self.registry;
        let gain = format!("{full}.weight");
        let norm = Norm {
            width,
            gain: registry.parameter(gain, &[width], Role::Vector, Initial::Ones)?,
            bias: if bias && !rms {
                let name = format!("{full}.bias");
                Some(registry.parameter(name, &[width], Role::Vector, Initial::Zeros)?)
            } else {
                None
            },
        };
        let layer = if rms {
            Layer::RmsNorm(norm)
        } else {
            Layer::LayerNorm(norm)
        };
        self.push(name, layer, self.shape)
    }

    /// Token embedding.
    pub(super) fn embedding(
        &mut self,
        name: &str,
        width: usize,
        initial: Initial,
    ) -> Result<(&mut Self, ParameterId), ModelError> {
        let Shape::Ids { length, vocabulary } = self.shape else {
            return self.fail(name, "Embedding", "token ids");
        };
        let full = format!("{}.weight", self.name(name));
        let weight = self
            .registry
            .parameter(full, &[vocabulary, width], Role::Edge, initial)?;
        let layer = Layer::Embedding(Embedding {
            vocabulary,
            width,
            weight,
        });
        let chain = self.push(name, layer, Shape::Sequence { length, width })?;
        Ok((chain, weight))
    }

    /// Learned positions, added.
    pub(super) fn position_embedding(
        &mut self,
        name: &str,
        initial: Initial,
    ) -> Result<&mut Self, ModelError> {
        let Shape::Sequence { length, width } = self.shape else {
            return self.fail(name, "PositionEmbedding", "a sequence");
        };
        let full = format!("{}.weight", self.name(name));
        let weight = self
            .registry
            .parameter(full, &[length, width], Role::Edge, initial)?;
        let layer = Layer::PositionEmbedding(PositionEmbedding {
            length,
            width,
            weight,
        });
        self.push(name, layer, self.shape)
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
fn float(size: usize) -> f64 {
    size as f64
}
