//! `[model]`: a family with its sizes, or a free list of layers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to train; `kind` chooses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Model {
    /// Fully connected layers.
    Mlp(Mlp),
    /// Residual convolutional network.
    Resnet(Resnet),
    /// Transformer decoder.
    Gpt(Gpt),
    /// A free list of `[[model.layers]]`.
    Layers(Layers),
}

/// Element-wise non-linearity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// max(x, 0).
    Relu,
    /// x Φ(x), exact (erf).
    Gelu,
    /// x σ(x).
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// 1 / (1 + e^-x).
    Sigmoid,
}

/// `kind = "mlp"`: input, hidden layers, output; categorical columns go through embeddings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mlp {
    /// Width of each hidden layer.
    pub hidden: Vec<u32>,
    /// Non-linearity after each hidden layer.
    pub activation: Activation,
    /// Probability that a hidden unit is dropped while training, 0 to below 1.
    pub dropout: f64,
    /// Normalisation after each hidden linear layer.
    pub norm: Norm,
    /// Width of each categorical column's embedding; 0 chooses min(50, (categories + 1) / 2).
    pub embedding: u32,
}

/// Normalisation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Norm {
    /// None.
    None,
    /// Batch normalisation (statistics per shard).
    Batch,
    /// Layer normalisation.
    Layer,
    /// Root-mean-square normalisation.
    Rms,
}

/// First layers of a residual network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stem {
    /// 3x3 convolution, stride 1 (CIFAR style).
    Cifar,
    /// 7x7 convolution, stride 2, then 3x3 max pooling, stride 2 (ImageNet style).
    Imagenet,
}

/// Residual block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// By depth: basic for CIFAR depths, 18 and 34; bottleneck for 50.
    Auto,
    /// Two 3x3 convolutions.
    Basic,
    /// 1x1, 3x3, 1x1 with four times the width at the end.
    Bottleneck,
}

/// `kind = "resnet"` (He et al. 2015).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resnet {
    /// 6n+2 (8, 14, 20, 32, 44, 56, 110) with stem `cifar`; 18, 34 or 50 with stem `imagenet`.
    pub depth: u32,
    /// Channels of the first stage; 0 chooses 16 (`cifar`) or 64 (`imagenet`).
    pub width: u32,
    /// First layers.
    pub stem: Stem,
    /// Residual block.
    pub block: Block,
    /// Probability that a feature is dropped before the classifier, 0 to below 1.
    pub dropout: f64,
}

/// How a transformer knows positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// A learned vector per position.
    Learned,
    /// Rotary embedding of queries and keys (Su et al. 2021), half-split pairs as in Llama.
    Rotary,
}

/// `kind = "gpt"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gpt {
    /// Transformer blocks.
    pub layers: u32,
    /// Width of the residual stream.
    pub width: u32,
    /// Attention heads; divides `width`.
    pub heads: u32,
    /// Key and value heads (grouped-query attention); divides `heads`.
    pub kv_heads: u32,
    /// Width of the feed-forward layer; 0 chooses 4 x width (`gelu`) or 8/3 x width rounded up to 64
    /// (`swiglu`).
    pub feed_forward: u32,
    /// Feed-forward non-linearity: `gelu` or `swiglu`.
    pub activation: GptActivation,
    /// `layer` or `rms`.
    pub norm: Norm,
    /// Positions.
    pub position: Position,
    /// Base of the rotary angles.
    pub rope_base: f64,
    /// Whether linear layers have a bias.
    pub bias: bool,
    /// Whether the output layer shares the token embedding's weights.
    pub tied: bool,
    /// Probability that an activation is dropped while training, 0 to below 1.
    pub dropout: f64,
}

/// Feed-forward non-linearity of a transformer block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GptActivation {
    /// One linear layer, GELU, one linear layer.
    Gelu,
    /// SiLU-gated linear unit (Shazeer 2020), three linear layers without which Llama is not Llama.
    Swiglu,
}

/// `kind = "layers"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layers {
    /// The layers, first to last. The last one's output is the prediction.
    pub layers: Vec<LayerConfig>,
}

/// One entry of `[[model.layers]]`; `kind` chooses. Input sizes follow from the layer before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LayerConfig {
    /// Fully connected, on the last dimension.
    Linear {
        /// Output features; 0 is allowed on the last layer and takes the number of classes.
        out: u32,
        /// Whether a bias is added.
        bias: bool,
    },
    /// 2-D convolution.
    Conv2d {
        /// Output channels.
        out: u32,
        /// Side of the square kernel.
        kernel: u32,
        /// Step of the kernel.
        stride: u32,
        /// Zero padding on each side.
        padding: u32,
        /// Whether a bias is added.
        bias: bool,
    },
    /// Batch normalisation over channels or features.
    BatchNorm,
    /// Layer normalisation over the last dimension.
    LayerNorm,
    /// Root-mean-square normalisation over the last dimension.
    RmsNorm,
    /// Non-linearity.
    Activation {
        /// Which.
        function: Activation,
    },
    /// Dropout.
    Dropout {
        /// Probability that a value is dropped.
        p: f64,
    },
    /// Max pooling.
    MaxPool2d {
        /// Side of the square window.
        kernel: u32,
        /// Step of the window.
        stride: u32,
        /// Zero padding on each side.
        padding: u32,
    },
    /// Average pooling.
    AvgPool2d {
        /// Side of the square window.
        kernel: u32,
        /// Step of the window.
        stride: u32,
        /// Zero padding on each side.
        padding: u32,
    },
    /// Mean over all positions of each channel.
    GlobalAvgPool,
    /// All dimensions of a sample into one.
    Flatten,
    /// Basic residual block of two 3x3 convolutions.
    ResidualBlock {
        /// Output channels.
        out: u32,
        /// Step of the first convolution.
        stride: u32,
    },
    /// Token embedding.
    Embedding {
        /// Width of each vector.
        width: u32,
    },
    /// Learned position embedding, added.
    PositionEmbedding,
    /// Pre-norm causal transformer block with LayerNorm, GELU and learned biases.
    TransformerBlock {
        /// Attention heads.
        heads: u32,
        /// Width of the feed-forward layer.
        feed_forward: u32,
        /// Dropout probability.
        dropout: f64,
    },
}
