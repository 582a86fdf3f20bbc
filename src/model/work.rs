//! The arithmetic that a training step cannot do without, from the layers alone.

use super::layer::{Attention, Conv2d, FeedForward, Layer, Linear, NamedLayer};
use super::network::Network;
use super::shape::Shape;
use crate::config::Optimizer;

/// Bytes of a 32-bit float.
const FLOAT_BYTES: u64 = 4;

/// Floating-point operations of one sample in the matrix products and convolutions of a network; a
/// multiplication and its addition are two. All else (normalisation, non-linearities, softmax,
/// updates) is small beside them, can be done while they read and write, and is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Forward pass.
    pub forward: u64,
    /// Backward pass: the gradients of weights, and of inputs where something before them learns.
    pub backward: u64,
    /// Bytes that their operands and results have, beside weights: each is read or written once by
    /// the product of the forward pass, and once by those of the backward pass.
    pub moved_bytes: u64,
}

impl Work {
    /// Forward and backward pass.
    #[must_use]
    pub fn total(self) -> u64 {
        self.forward.saturating_add(self.backward)
    }

    fn add(&mut self, other: Work) {
        self.forward = self.forward.saturating_add(other.forward);
        self.backward = self.backward.saturating_add(other.backward);
        self.moved_bytes = self.moved_bytes.saturating_add(other.moved_bytes);
    }

    /// A product of weights and `input` numbers that takes so many multiplications; the backward
    /// pass has one such product for the weights, and one for the inputs if their gradient is
    /// `wanted`.
    fn of_product(multiplications: usize, input: usize, output: usize, wanted: bool) -> Self {
        let forward = wide(multiplications).saturating_mul(2);
        let wanted = u64::from(wanted);
        // The input is read in both passes and its gradient written, the output written and its
        // gradient read.
        let numbers = (2 + wanted) * wide(input) + 2 * wide(output);
        Self {
            forward,
            backward: forward.saturating_mul(1 + wanted),
            moved_bytes: numbers.saturating_mul(FLOAT_BYTES),
        }
    }
}

impl Network {
    /// The arithmetic of one sample.
    #[must_use]
    pub fn work(&self) -> Work {
        let mut walk = Walk {
            shape: Shape::of_input(&self.input),
            learns: false,
            work: Work::default(),
        };
        walk.layers(&self.layers);
        walk.work
    }

    /// Bytes that a step over `samples` samples must at least move: operands and results of the
    /// products, the weights once in each pass, the gradient written and read, and the update of
    /// weights and optimiser state. What stays in a cache from one use to the next is counted again.
    #[must_use]
    pub fn least_bytes(&self, optimizer: &Optimizer, samples: u64) -> u64 {
        let memory = self.memory(optimizer, 0, 1);
        let products = self.work().moved_bytes.saturating_mul(samples);
        let passes_and_update = 4 * memory.parameters;
        products
            .saturating_add(passes_and_update)
            .saturating_add(2 * memory.gradients)
            .saturating_add(2 * memory.optimizer)
    }
}

/// A walk through the layers.
struct Walk {
    /// Shape of what the next layer is given.
    shape: Shape,
    /// Whether anything before the next layer has weights, so that its input needs a gradient.
    learns: bool,
    work: Work,
}

impl Walk {
    fn layers(&mut self, layers: &[NamedLayer]) {
        for named in layers {
            self.layer(named);
            self.shape = named.output;
        }
    }

    fn layer(&mut self, named: &NamedLayer) {
        match &named.layer {
            Layer::Linear(linear) => self.linear(linear),
            Layer::Conv2d(conv) => self.conv(conv, named.output),
            Layer::Attention(attention) => self.attention(attention),
            Layer::FeedForward(layer) => self.feed_forward(layer),
            Layer::Block(layers) => self.layers(layers),
            Layer::Residual(residual) => {
                let (shape, learns) = (self.shape, self.learns);
                self.layers(&residual.shortcut);
                let shortcut_learns = self.learns;
                self.shape = shape;
                self.learns = learns;
                self.layers(&residual.branch);
                self.learns |= shortcut_learns;
            }
            Layer::Columns(columns) => self.learns |= !columns.embeddings.is_empty(),
            Layer::Embedding(_)
            | Layer::PositionEmbedding(_)
            | Layer::BatchNorm(_)
            | Layer::LayerNorm(_)
            | Layer::RmsNorm(_) => self.learns = true,
            Layer::Activation(_)
            | Layer::Dropout(_)
            | Layer::MaxPool2d(_)
            | Layer::AvgPool2d(_)
            | Layer::GlobalAvgPool
            | Layer::Flatten => {}
        }
    }

    /// Vectors that a layer on the last dimension is given.
    fn rows(&self) -> usize {
        match self.shape {
            Shape::Sequence { length, .. } => length,
            _ => 1,
        }
    }

    fn linear(&mut self, linear: &Linear) {
        self.product_of(linear);
        self.learns = true;
    }

    fn product_of(&mut self, linear: &Linear) {
        let (rows, input, output) = (self.rows(), linear.input, linear.output);
        self.work.add(Work::of_product(
            rows * input * output,
            rows * input,
            rows * output,
            self.learns,
        ));
    }

    fn conv(&mut self, conv: &Conv2d, output: Shape) {
        let (input, output) = (self.shape.elements(), output.elements());
        let multiplications = output * conv.input * conv.kernel * conv.kernel;
        self.work.add(Work::of_product(
            multiplications,
            input,
            output,
            self.learns,
        ));
        self.learns = true;
    }

    /// The projections, and the scores and sums of each position with itself and those before it:
    /// what lies behind the causal mask need not be computed.
    fn attention(&mut self, attention: &Attention) {
        let length = self.rows();
        for linear in [&attention.query, &attention.key, &attention.value] {
            self.product_of(linear);
        }
        self.learns = true;
        let pairs = length * (length + 1) / 2;
        let width = attention.heads * attention.head_width;
        let key_values = 2 * attention.kv_heads * attention.head_width;
        let (input, output) = (length * (width + key_values), length * width);
        self.work
            .add(Work::of_product(2 * pairs * width, input, output, true));
        self.linear(&attention.output);
    }

    fn feed_forward(&mut self, layer: &FeedForward) {
        for linear in layer.gate.iter().chain([&layer.up]) {
            self.product_of(linear);
        }
        self.learns = true;
        self.linear(&layer.down);
    }
}

fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        Activation, Block, Gpt, GptActivation, Mlp, Model, Norm, Position, Resnet, Stem,
    };
    use crate::data::{InputShape, TargetShape};
    use crate::model::tests::{classes, image};

    fn work(model: &Model, input: &InputShape, target: &TargetShape) -> Work {
        Network::expand(model, input, target).unwrap().work()
    }

    #[test]
    fn fully_connected_layers_by_hand() {
        let model = Model::Mlp(Mlp {
            hidden: vec![256, 256],
            activation: Activation::Relu,
            dropout: 0.0,
            norm: Norm::None,
            embedding: 0,
        });
        let input = InputShape::Table {
            numeric: 105,
            categories: Vec::new(),
        };
        let (first, rest) = (105 * 256, 256 * 256 + 256 * 2);
        let wanted = Work {
            forward: 2 * (first + rest),
            // Nothing needs the gradient of the table's columns.
            backward: 2 * (first + 2 * rest),
            moved_bytes: 4 * (2 * 105 + 2 * 256 + 5 * 256 + 3 * 256 + 2 * 2),
        };
        assert_eq!(work(&model, &input, &classes(2)), wanted);
        let network = Network::expand(&model, &input, &classes(2)).unwrap();
        let parameters = first + 256 + rest + 256 + 2;
        let momentum = Optimizer::Sgd {
            learning_rate: 0.1,
            momentum: 0.9,
            nesterov: false,
            weight_decay: 0.0,
        };
        // Two passes, the gradient written and read, weights and momentum read and written.
        let of_weights = 4 * parameters * (2 + 2 + 2 + 2);
        let bytes = network.least_bytes(&momentum, 512);
        assert_eq!(bytes, 512 * wanted.moved_bytes + of_weights);
    }

    #[test]
    fn a_transformer_by_hand() {
        let gpt = Gpt {
            layers: 4,
            width: 256,
            heads: 4,
            kv_heads: 4,
            feed_forward: 1024,
            activation: GptActivation::Gelu,
            norm: Norm::Layer,
            position: Position::Learned,
            rope_base: 10_000.0,
            bias: true,
            tied: true,
            dropout: 0.0,
        };
        let input = InputShape::Tokens {
            length: 128,
            vocabulary: 1024,
        };
        let target = TargetShape::NextToken { vocabulary: 1024 };
        let weights = 4 * (4 * 256 * 256 + 2 * 256 * 1024) + 256 * 1024;
        let attention = 4 * 2 * (128 * 129 / 2) * 256;
        let forward = 2 * (128 * weights + attention);
        let found = work(&Model::Gpt(gpt), &input, &target);
        assert_eq!((found.forward, found.backward), (forward, 2 * forward));
        // "About 45 GFLOP" for 16 sequences.
        assert!((43_000_000_000..45_500_000_000).contains(&(16 * found.total())));
    }

    #[test]
    fn a_residual_network_by_hand() {
        let model = Model::Resnet(Resnet {
            depth: 20,
            width: 16,
            stem: Stem::Cifar,
            block: Block::Auto,
            dropout: 0.0,
        });
        let found = work(&model, &image(3, 32), &classes(10));
        let stem = 32 * 32 * 9 * 3 * 16;
        let plain = |side: u64, width: u64| side * side * 9 * width * width;
        // Three blocks of two convolutions a stage; the first of a later stage is half as wide on
        // one side, and a 1x1 convolution leads around it.
        let later = |side: u64, width: u64| {
            5 * plain(side, width) + plain(side, width) / 2 + side * side * width * width / 2
        };
        let convolutions = 6 * plain(32, 16) + later(16, 32) + later(8, 64);
        let forward = 2 * (stem + convolutions + 64 * 10);
        assert_eq!(found.forward, forward);
        assert_eq!(found.backward, 2 * forward - 2 * stem);
    }
}
