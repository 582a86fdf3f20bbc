//! Building a list of layers one after another, with every shape checked.

use super::ModelError;
use super::layer::{
    BatchNorm, Columns, Conv2d, Dropout, Embedding, Layer, Linear, NamedLayer, Norm, Pool,
    PositionEmbedding, Residual,
};
use super::parameter::{Initial, ParameterId, Registry, Role};
use super::shape::Shape;
use crate::config::Activation;

/// Most numbers of one sample between two layers.
const ELEMENTS_MAX: usize = 1 << 36;

/// A list of layers that is being built.
pub(super) struct Chain<'r> {
    registry: &'r mut Registry,
    prefix: String,
    layers: Vec<NamedLayer>,
    shape: Shape,
}

/// How the weights of a linear layer start.
#[derive(Clone, Copy, Debug)]
pub(super) enum LinearInitial {
    /// Weight and bias uniform within 1/sqrt(input), as PyTorch's `nn.Linear` does.
    Uniform,
    /// Weight normal with this deviation, bias 0, as GPT-2 does.
    Normal(f64),
}

/// Sides and steps of a convolution or pooling.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Side of the square kernel.
    pub(super) kernel: usize,
    /// Step.
    pub(super) stride: usize,
    /// Padding on each side.
    pub(super) padding: usize,
}

/// A `u32` of the config as a size.
pub(super) fn size(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// A stable 64-bit hash of a name (FNV-1a), by which initial values and dropout masks are keyed.
pub(super) fn name_hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl<'r> Chain<'r> {
    /// A chain that starts at `shape`; names of its layers begin with `prefix`.
    pub(super) fn new(registry: &'r mut Registry, prefix: impl Into<String>, shape: Shape) -> Self {
        Self {
            registry,
            prefix: prefix.into(),
            layers: Vec::new(),
            shape,
        }
    }

    /// Shape of one sample after the layers so far.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// The layers.
    pub(super) fn finish(self) -> Vec<NamedLayer> {
        self.layers
    }

    /// A chain for the inside of the layer `name`, starting at `shape`.
    pub(super) fn inner(&mut self, name: &str, shape: Shape) -> Chain<'_> {
        let prefix = format!("{}.", self.name(name));
        Chain::new(self.registry, prefix, shape)
    }

    /// A chain with the same names and input, for a branch that is added to it.
    pub(super) fn inner_branch(&mut self) -> Chain<'_> {
        Chain::new(self.registry, self.prefix.clone(), self.shape)
    }

    /// Full name of a layer.
    pub(super) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Appends a layer whose output has `output` as shape.
    pub(super) fn push(
        &mut self,
        name: &str,
        layer: Layer,
        output: Shape,
    ) -> Result<&mut Self, ModelError> {
        let elements = output
            .dims()
            .iter()
            .try_fold(1usize, |product, &n| product.checked_mul(n))
            .unwrap_or(usize::MAX);
        if elements == 0 || elements > ELEMENTS_MAX {
            let problem = format!("its output would be {output}");
            return Err(ModelError::layer(&self.name(name), layer.kind(), problem));
        }
        self.layers.push(NamedLayer {
            name: self.name(name),
            layer,
            output,
        });
        self.shape = output;
        Ok(self)
    }

    fn fail<T>(&self, name: &str, kind: &'static str, needs: &str) -> Result<T, ModelError> {
        let problem = format!("needs {needs}, but its input is {}", self.shape);
        Err(ModelError::layer(&self.name(name), kind, problem))
    }

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

    /// Side after a window has run over `before` positions.
    fn slide(
        &self,
        name: &str,
        kind: &'static str,
        window: Window,
        [height, width]: [usize; 2],
    ) -> Result<[usize; 2], ModelError> {
        let Window {
            kernel,
            stride,
            padding,
        } = window;
        let problem = if kernel == 0 || stride == 0 {
            "kernel and stride must be at least 1".to_owned()
        } else if padding >= kernel {
            format!("padding {padding} is not smaller than kernel {kernel}")
        } else if kernel > height + 2 * padding || kernel > width + 2 * padding {
            let padded = match padding {
                0 => String::new(),
                n => format!(" with {n} of padding on each side"),
            };
            format!("kernel {kernel} is larger than its {height}x{width} input{padded}")
        } else {
            let slide = |side: usize| (side + 2 * padding - kernel) / stride + 1;
            return Ok([slide(height), slide(width)]);
        };
        Err(ModelError::layer(&self.name(name), kind, problem))
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

    /// Non-linearity.
    pub(super) fn activation(
        &mut self,
        name: &str,
        function: Activation,
    ) -> Result<&mut Self, ModelError> {
        let layer = Layer::Activation(function);
        if matches!(self.shape, Shape::Row { .. } | Shape::Ids { .. }) {
            return self.fail(name, layer.kind(), "numbers");
        }
        self.push(name, layer, self.shape)
    }

    /// Dropout; nothing when `p` is 0.
    pub(super) fn dropout(&mut self, name: &str, p: f64) -> Result<&mut Self, ModelError> {
        if p == 0.0 {
            return Ok(self);
        }
        if matches!(self.shape, Shape::Row { .. } | Shape::Ids { .. }) {
            return self.fail(name, "Dropout", "numbers");
        }
        let dropout = self.dropout_parts(name, p)?;
        self.push(name, Layer::Dropout(dropout), self.shape)
    }

    /// The parts of a dropout called `name`, without appending it.
    pub(super) fn dropout_parts(&self, name: &str, p: f64) -> Result<Dropout, ModelError> {
        let full = self.name(name);
        if !(0.0..1.0).contains(&p) {
            let problem = format!("p = {p} is not in 0 to below 1");
            return Err(ModelError::layer(&full, "Dropout", problem));
        }
        Ok(Dropout {
            p,
            place: name_hash(&full),
        })
    }

    /// Max pooling, or average pooling with `average`.
    pub(super) fn pool(
        &mut self,
        name: &str,
        average: bool,
        window: Window,
    ) -> Result<&mut Self, ModelError> {
        let pool = Pool {
            kernel: window.kernel,
            stride: window.stride,
            padding: window.padding,
        };
        let layer = if average {
            Layer::AvgPool2d(pool)
        } else {
            Layer::MaxPool2d(pool)
        };
        let Shape::Map {
            channels,
            height,
            width,
        } = self.shape
        else {
            return self.fail(name, layer.kind(), "an image");
        };
        // A window more than half in the padding could see no pixel at all.
        if 2 * window.padding > window.kernel {
            let problem = format!(
                "padding {} is more than half of kernel {}",
                window.padding, window.kernel
            );
            return Err(ModelError::layer(&self.name(name), layer.kind(), problem));
        }
        let [height, width] = self.slide(name, layer.kind(), window, [height, width])?;
        let shape = Shape::Map {
            channels,
            height,
            width,
        };
        self.push(name, layer, shape)
    }

    /// Mean over positions.
    pub(super) fn global_avg_pool(&mut self, name: &str) -> Result<&mut Self, ModelError> {
        let features = match self.shape {
            Shape::Map { channels, .. } => channels,
            Shape::Sequence { width, .. } => width,
            _ => return self.fail(name, "GlobalAvgPool", "an image or a sequence"),
        };
        self.push(name, Layer::GlobalAvgPool, Shape::Features(features))
    }

    /// All dimensions into one.
    pub(super) fn flatten(&mut self, name: &str) -> Result<&mut Self, ModelError> {
        if matches!(self.shape, Shape::Row { .. } | Shape::Ids { .. }) {
            return self.fail(name, "Flatten", "an image, features or a sequence");
        }
        self.push(name, Layer::Flatten, Shape::Features(self.shape.elements()))
    }

    /// x + branch(x). The branch must give the shape of its input, or that of the shortcut.
    pub(super) fn residual(
        &mut self,
        name: &str,
        residual: Residual,
    ) -> Result<&mut Self, ModelError> {
        let end = |layers: &[NamedLayer]| layers.last().map_or(self.shape, |last| last.output);
        let (branch, shortcut) = (end(&residual.branch), end(&residual.shortcut));
        if branch != shortcut {
            let problem = format!("adds {branch} to {shortcut}");
            return Err(ModelError::layer(&self.name(name), "Residual", problem));
        }
        self.push(name, Layer::Residual(residual), branch)
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
