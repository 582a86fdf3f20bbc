//! Building a list of layers one after another, with every shape checked.

use super::ModelError;
use super::layer::{Dropout, Layer, NamedLayer, Pool, Residual};
use super::parameter::Registry;
use super::shape::Shape;
use crate::config::Activation;

/// Most numbers of one sample between two layers.
const ELEMENTS_MAX: usize = 1 << 36;

/// A list of layers that is being built.
pub(super) struct Chain<'r> {
    pub(super) registry: &'r mut Registry,
    prefix: String,
    layers: Vec<NamedLayer>,
    pub(super) shape: Shape,
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

    /// An error that says what the layer `name` needs instead of its input.
    pub(super) fn fail<T>(
        &self,
        name: &str,
        kind: &'static str,
        needs: &str,
    ) -> Result<T, ModelError> {
        let problem = format!("needs {needs}, but its input is {}", self.shape);
        Err(ModelError::layer(&self.name(name), kind, problem))
    }

    /// Side after a window has run over `before` positions.
    pub(super) fn slide(
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
}
