//! `[model]`: a family with its sizes, or a free list of layers.

use super::declare::{names, record, tagged, tagged_records};
use super::form::{Real, flag, list, names, names_except, real, whole};
use super::section::section;

/// Widest layer, in features or channels.
const WIDTH_MAX: u32 = 1_048_576;

/// Most layers or blocks.
const LAYERS_MAX: usize = 1000;

/// Longest side of a kernel or window, its stride and padding.
const KERNEL_MAX: u32 = 1024;

/// Takes probabilities of dropping a value.
fn probability() -> Real {
    real(0.0..1.0)
}

tagged_records! {
    /// What to train; `kind` chooses.
    pub enum Model {
        /// Fully connected layers.
        Mlp(Mlp) = "mlp",
        /// Residual convolutional network.
        Resnet(Resnet) = "resnet",
        /// Transformer decoder.
        Gpt(Gpt) = "gpt",
        /// A free list of `[[model.layers]]`.
        Layers(Layers) = "layers",
    }
}

names! {
    /// Element-wise non-linearity.
    pub enum Activation {
        /// max(x, 0).
        Relu = "relu",
        /// x Φ(x), exact (erf).
        Gelu = "gelu",
        /// x σ(x).
        Silu = "silu",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// 1 / (1 + e^-x).
        Sigmoid = "sigmoid",
    }
}

names! {
    /// Normalisation layer.
    pub enum Norm {
        /// None.
        None = "none",
        /// Batch normalisation (statistics per shard).
        Batch = "batch",
        /// Layer normalisation.
        Layer = "layer",
        /// Root-mean-square normalisation.
        Rms = "rms",
    }
}

record! {
    /// `kind = "mlp"`: input, hidden layers, output; categorical columns go through embeddings.
    pub struct Mlp {
        /// Width of each hidden layer.
        hidden: Vec<u32> => list(whole(1..=WIDTH_MAX), 0..=LAYERS_MAX);
        /// Non-linearity after each hidden layer.
        activation: Activation => names(), default Activation::Relu;
        /// Probability that a hidden unit is dropped while training.
        dropout: f64 => probability(), default 0.0;
        /// Normalisation after each hidden linear layer.
        norm: Norm => names(), default Norm::None;
        /// Width of each categorical column's embedding; 0 chooses min(50, (categories + 1) / 2).
        embedding: u32 => whole(0..=WIDTH_MAX), default 0;
    }
}

names! {
    /// First layers of a residual network.
    pub enum Stem {
        /// 3x3 convolution, stride 1 (as for CIFAR).
        Cifar = "cifar",
        /// 7x7 convolution, stride 2, then 3x3 max pooling, stride 2 (as for `ImageNet`).
        Imagenet = "imagenet",
    }
}

names! {
    /// Residual block.
    pub enum Block {
        /// By depth: basic for CIFAR depths, 18 and 34; bottleneck for 50.
        Auto = "auto",
        /// Two 3x3 convolutions.
        Basic = "basic",
        /// 1x1, 3x3, 1x1 with four times the width at the end.
        Bottleneck = "bottleneck",
    }
}

record! {
    /// `kind = "resnet"` (He et al. 2015).
    pub struct Resnet {
        /// 6n+2 (8, 14, 20, 32, 44, 56, 110), or 9n+2 with bottleneck blocks, with stem `cifar`;
        /// 18, 34 or 50 with stem `imagenet`.
        depth: u32 => whole(8..=6002);
        /// Channels of the first stage; 0 chooses 16 (`cifar`) or 64 (`imagenet`).
        width: u32 => whole(0..=WIDTH_MAX), default 0;
        /// First layers.
        stem: Stem => names(), default Stem::Cifar;
        /// Residual block.
        block: Block => names(), default Block::Auto;
        /// Probability that a feature is dropped before the classifier.
        dropout: f64 => probability(), default 0.0;
    }
}

names! {
    /// How a transformer knows positions.
    pub enum Position {
        /// A learned vector per position.
        Learned = "learned",
        /// Rotary embedding of queries and keys (Su et al. 2021), half-split pairs as in Llama.
        Rotary = "rotary",
    }
}

names! {
    /// Feed-forward non-linearity of a transformer block.
    pub enum GptActivation {
        /// One linear layer, GELU, one linear layer.
        Gelu = "gelu",
        /// SiLU-gated linear unit (Shazeer 2020): three linear layers, as in Llama.
        Swiglu = "swiglu",
    }
}

record! {
    /// `kind = "gpt"`.
    pub struct Gpt {
        /// Transformer blocks.
        layers: u32 => whole(1..=1000);
        /// Width of the residual stream.
        width: u32 => whole(1..=WIDTH_MAX);
        /// Attention heads; divides `width`.
        heads: u32 => whole(1..=65_536);
        /// Key and value heads (grouped-query attention); divides `heads`, which is the default.
        kv_heads: u32 => whole(1..=65_536), derived heads.unwrap_or(1);
        /// Width of the feed-forward layer; 0 chooses 4 x width (`gelu`) or 8/3 x width rounded up
        /// to 64 (`swiglu`).
        feed_forward: u32 => whole(0..=WIDTH_MAX), default 0;
        /// Feed-forward non-linearity.
        activation: GptActivation => names(), default GptActivation::Gelu;
        /// Normalisation before attention and feed-forward layer.
        norm: Norm => names_except(&[Norm::None, Norm::Batch]), default Norm::Layer;
        /// How the model knows positions.
        position: Position => names(), default Position::Learned;
        /// Base of the rotary angles.
        rope_base: f64 => real(1.0..=1e12).above(), default 10_000.0;
        /// Whether linear layers have a bias.
        bias: bool => flag(), default true;
        /// Whether the output layer shares the token embedding's weights.
        tied: bool => flag(), default true;
        /// Probability that an activation is dropped while training.
        dropout: f64 => probability(), default 0.0;
    }
}

record! {
    /// `kind = "layers"`.
    pub struct Layers {
        /// The layers, first to last. The last one's output is the prediction.
        layers: Vec<LayerConfig> => list(section(), 1..=LAYERS_MAX);
    }
}

tagged! {
    /// One entry of `[[model.layers]]`; `kind` chooses. Input sizes follow from the layer before.
    pub enum LayerConfig {
        /// Fully connected, on the last dimension.
        Linear = "linear" {
            /// Output features; 0 is allowed on the last layer and takes the number of classes.
            out: u32 => whole(0..=WIDTH_MAX);
            /// Whether a bias is added.
            bias: bool => flag(), default true;
        }
        /// 2-D convolution.
        Conv2d = "conv2d" {
            /// Output channels.
            out: u32 => whole(1..=WIDTH_MAX);
            /// Side of the square kernel.
            kernel: u32 => whole(1..=KERNEL_MAX);
            /// Step of the kernel.
            stride: u32 => whole(1..=KERNEL_MAX), default 1;
            /// Zero padding on each side.
            padding: u32 => whole(0..=KERNEL_MAX), default 0;
            /// Whether a bias is added.
            bias: bool => flag(), default true;
        }
        /// Batch normalisation over channels or features.
        BatchNorm = "batch_norm"
        /// Layer normalisation over the last dimension.
        LayerNorm = "layer_norm"
        /// Root-mean-square normalisation over the last dimension.
        RmsNorm = "rms_norm"
        /// Non-linearity.
        Activation = "activation" {
            /// Which.
            function: Activation => names();
        }
        /// Dropout.
        Dropout = "dropout" {
            /// Probability that a value is dropped.
            p: f64 => probability();
        }
        /// Max pooling.
        MaxPool2d = "max_pool2d" {
            /// Side of the square window.
            kernel: u32 => whole(1..=KERNEL_MAX);
            /// Step of the window; `kernel` by default.
            stride: u32 => whole(1..=KERNEL_MAX), derived kernel.unwrap_or(1);
            /// Zero padding on each side.
            padding: u32 => whole(0..=KERNEL_MAX), default 0;
        }
        /// Average pooling.
        AvgPool2d = "avg_pool2d" {
            /// Side of the square window.
            kernel: u32 => whole(1..=KERNEL_MAX);
            /// Step of the window; `kernel` by default.
            stride: u32 => whole(1..=KERNEL_MAX), derived kernel.unwrap_or(1);
            /// Zero padding on each side.
            padding: u32 => whole(0..=KERNEL_MAX), default 0;
        }
        /// Mean over all positions of each channel.
        GlobalAvgPool = "global_avg_pool"
        /// All dimensions of a sample into one.
        Flatten = "flatten"
        /// Basic residual block of two 3x3 convolutions.
        ResidualBlock = "residual_block" {
            /// Output channels.
            out: u32 => whole(1..=WIDTH_MAX);
            /// Step of the first convolution.
            stride: u32 => whole(1..=KERNEL_MAX), default 1;
        }
        /// Token embedding.
        Embedding = "embedding" {
            /// Width of each vector.
            width: u32 => whole(1..=WIDTH_MAX);
        }
        /// Learned position embedding, added.
        PositionEmbedding = "position_embedding"
        /// Pre-norm causal transformer block with LayerNorm, GELU and learned biases.
        TransformerBlock = "transformer_block" {
            /// Attention heads.
            heads: u32 => whole(1..=65_536);
            /// Width of the feed-forward layer.
            feed_forward: u32 => whole(1..=WIDTH_MAX);
            /// Dropout probability.
            dropout: f64 => probability(), default 0.0;
        }
    }
}
