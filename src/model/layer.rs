//! Layers as plain data: sizes and the parameters they use, no tensors.

use std::ops::Range;

use super::parameter::ParameterId;
use super::shape::Shape;
use crate::config::Activation;

/// A layer with its name and the shape it gives.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedLayer {
    /// Name; parameters of the layer begin with it.
    pub name: String,
    /// What it does.
    pub layer: Layer,
    /// Shape of one sample of its output.
    pub output: Shape,
}

/// One step of a network. Composite layers hold layers.
#[derive(Clone, Debug, PartialEq)]
pub enum Layer {
    /// Row of a table to features: numeric columns, then the embedding of each categorical one.
    Columns(Columns),
    /// Fully connected, on the last dimension.
    Linear(Linear),
    /// 2-D convolution.
    Conv2d(Conv2d),
    /// Batch normalisation.
    BatchNorm(BatchNorm),
    /// Layer normalisation over the last dimension.
    LayerNorm(Norm),
    /// Root-mean-square normalisation over the last dimension.
    RmsNorm(Norm),
    /// Non-linearity.
    Activation(Activation),
    /// Dropout.
    Dropout(Dropout),
    /// Max pooling.
    MaxPool2d(Pool),
    /// Average pooling; padding is not counted.
    AvgPool2d(Pool),
    /// Mean over all positions of each channel.
    GlobalAvgPool,
    /// All dimensions of a sample into one.
    Flatten,
    /// x + branch(x), or shortcut(x) + branch(x), then a non-linearity.
    Residual(Residual),
    /// Token ids to vectors.
    Embedding(Embedding),
    /// A learned vector per position, added.
    PositionEmbedding(PositionEmbedding),
    /// Causal multi-head self-attention.
    Attention(Attention),
    /// Two linear layers with a non-linearity between, or a gated pair.
    FeedForward(FeedForward),
    /// Layers one after another, shown and placed as one.
    Block(Vec<NamedLayer>),
}

/// See [`Layer::Columns`].
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// Numeric columns.
    pub numeric: usize,
    /// One per categorical column.
    pub embeddings: Vec<Embedding>,
}

/// See [`Layer::Linear`]. The weight is `[output, input]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// Input features.
    pub input: usize,
    /// Output features.
    pub output: usize,
    /// `[output, input]`.
    pub weight: ParameterId,
    /// `[output]`.
    pub bias: Option<ParameterId>,
    /// Whether the weight belongs to another layer (a tied output layer).
    pub tied: bool,
}

/// See [`Layer::Conv2d`]. The weight is `[output, input, kernel, kernel]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv2d {
    /// Input channels.
    pub input: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the square kernel.
    pub kernel: usize,
    /// Step of the kernel.
    pub stride: usize,
    /// Zero padding on each side.
    pub padding: usize,
    /// `[output, input, kernel, kernel]`.
    pub weight: ParameterId,
    /// `[output]`.
    pub bias: Option<ParameterId>,
}

/// See [`Layer::BatchNorm`].
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNorm {
    /// Channels or features.
    pub channels: usize,
    /// `[channels]`.
    pub gain: ParameterId,
    /// `[channels]`.
    pub bias: ParameterId,
    /// Place of the running mean among the buffers.
    pub mean: Range<usize>,
    /// Place of the running variance among the buffers; follows the mean.
    pub variance: Range<usize>,
}

/// See [`Layer::LayerNorm`] and [`Layer::RmsNorm`].
#[derive(Clone, Debug, PartialEq)]
pub struct Norm {
    /// Size of the last dimension.
    pub width: usize,
    /// `[width]`.
    pub gain: ParameterId,
    /// `[width]`; none for RMS normalisation and models without biases.
    pub bias: Option<ParameterId>,
}

/// See [`Layer::Dropout`].
#[derive(Clone, Debug, PartialEq)]
pub struct Dropout {
    /// Probability that a value is dropped, 0 to below 1.
    pub p: f64,
    /// Tells the masks of different layers apart: a hash of the layer's name.
    pub place: u64,
}

/// See [`Layer::MaxPool2d`] and [`Layer::AvgPool2d`].
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Side of the square window.
    pub kernel: usize,
    /// Step of the window.
    pub stride: usize,
    /// Padding on each side.
    pub padding: usize,
}

/// See [`Layer::Residual`].
#[derive(Clone, Debug, PartialEq)]
pub struct Residual {
    /// The residual function.
    pub branch: Vec<NamedLayer>,
    /// Projection of the input; empty is the identity.
    pub shortcut: Vec<NamedLayer>,
    /// Non-linearity after the addition.
    pub activation: Option<Activation>,
}

/// See [`Layer::Embedding`]. The weight is `[vocabulary, width]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// Different ids.
    pub vocabulary: usize,
    /// Width of each vector.
    pub width: usize,
    /// `[vocabulary, width]`.
    pub weight: ParameterId,
}

/// See [`Layer::PositionEmbedding`]. The weight is `[length, width]`.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionEmbedding {
    /// Positions.
    pub length: usize,
    /// Width of each vector.
    pub width: usize,
    /// `[length, width]`.
    pub weight: ParameterId,
}

/// See [`Layer::Attention`].
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_width: usize,
    /// Base of the rotary angles; none means positions come from elsewhere.
    pub rope_base: Option<f64>,
    /// Queries.
    pub query: Linear,
    /// Keys.
    pub key: Linear,
    /// Values.
    pub value: Linear,
    /// Output projection.
    pub output: Linear,
    /// Dropout of the attention weights.
    pub dropout: Dropout,
}

/// See [`Layer::FeedForward`].
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForward {
    /// Gate; with it the layer is down(silu(gate(x)) * up(x)), without down(gelu(up(x))).
    pub gate: Option<Linear>,
    /// Widens.
    pub up: Linear,
    /// Narrows.
    pub down: Linear,
}

impl Layer {
    /// Kind as errors and tables name it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Layer::Columns(_) => "Columns",
            Layer::Linear(_) => "Linear",
            Layer::Conv2d(_) => "Conv2d",
            Layer::BatchNorm(_) => "BatchNorm",
            Layer::LayerNorm(_) => "LayerNorm",
            Layer::RmsNorm(_) => "RmsNorm",
            Layer::Activation(Activation::Relu) => "Relu",
            Layer::Activation(Activation::Gelu) => "Gelu",
            Layer::Activation(Activation::Silu) => "Silu",
            Layer::Activation(Activation::Tanh) => "Tanh",
            Layer::Activation(Activation::Sigmoid) => "Sigmoid",
            Layer::Dropout(_) => "Dropout",
            Layer::MaxPool2d(_) => "MaxPool2d",
            Layer::AvgPool2d(_) => "AvgPool2d",
            Layer::GlobalAvgPool => "GlobalAvgPool",
            Layer::Flatten => "Flatten",
            Layer::Residual(_) => "Residual",
            Layer::Embedding(_) => "Embedding",
            Layer::PositionEmbedding(_) => "PositionEmbedding",
            Layer::Attention(_) => "Attention",
            Layer::FeedForward(_) => "FeedForward",
            Layer::Block(_) => "TransformerBlock",
        }
    }
}
