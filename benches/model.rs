//! Forward and backward passes of whole models on the CPU, on all cores: `cargo bench --bench model`.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

use divan::Bencher;
use trainer::config::{
    Activation, Backend, Block, Gpt, GptActivation, Mlp, Model, Norm, Position, Resnet, Stem,
};
use trainer::data::{Input, InputShape, TargetShape};
use trainer::model::{Buffers, Mode, Network, Output, Parameters};
use trainer::ops::device;

fn main() {
    divan::main();
}

fn classes(count: usize) -> TargetShape {
    TargetShape::Classes {
        names: (0..count).map(|class| class.to_string()).collect(),
    }
}

/// Measures passes over `n` samples of ones.
fn passes(bencher: Bencher<'_, '_>, model: &Model, input: &InputShape, n: usize) {
    let (target, batch) = match input {
        InputShape::Table {
            numeric,
            categories,
        } => {
            let batch = Input::Table {
                numeric: vec![1.0; n * numeric],
                categorical: vec![1; n * categories.len()],
            };
            (classes(2), batch)
        }
        InputShape::Image {
            channels,
            height,
            width,
        } => {
            // Not all the same: batch normalisation divides by the deviation.
            let count = u32::try_from(n * channels * height * width).unwrap();
            let pixels =
                (0..count).map(|i| f32::from(u8::try_from(i * 7919 % 251).unwrap()) / 99.0);
            let pixels = pixels.collect();
            (classes(10), Input::Images { pixels })
        }
        InputShape::Tokens { length, vocabulary } => {
            let ids = vec![1; n * length];
            let vocabulary = *vocabulary;
            (TargetShape::NextToken { vocabulary }, Input::Tokens { ids })
        }
    };
    let device = device::open(Backend::Flex, 0, 0).unwrap();
    let network = Network::expand(model, input, &target).unwrap();
    let parameters = Parameters::initial(&network, 1, &device);
    let buffers = Buffers::initial(&network, &device);
    let mode = Mode::Train { dropout_seed: 1 };
    bencher.bench_local(|| {
        let loss = match network.forward(&parameters, &buffers, &batch, mode).output {
            Output::Logits(x) | Output::Values(x) => x.square().sum(),
            Output::TokenLogits(x) => x.square().sum(),
        };
        parameters.gradient(&network, loss.backward())
    });
}

/// 128 pictures of 1 x 28 x 28 (depths 8 and 14) or 3 x 32 x 32 (depth 20).
#[divan::bench(args = [8, 14, 20], sample_count = 10)]
fn resnet(bencher: Bencher<'_, '_>, depth: u32) {
    let model = Model::Resnet(Resnet {
        depth,
        width: 16,
        stem: Stem::Cifar,
        block: Block::Auto,
        dropout: 0.0,
    });
    let (channels, side) = if depth == 20 { (3, 32) } else { (1, 28) };
    let input = InputShape::Image {
        channels,
        height: side,
        width: side,
    };
    passes(bencher, &model, &input, 128);
}

/// 16 sequences of 128 tokens through 4 blocks of width 256.
#[divan::bench(sample_count = 10)]
fn gpt(bencher: Bencher<'_, '_>) {
    let model = Model::Gpt(Gpt {
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
    });
    let input = InputShape::Tokens {
        length: 128,
        vocabulary: 1024,
    };
    passes(bencher, &model, &input, 16);
}

/// 512 rows of the shape of the census table.
#[divan::bench(sample_count = 10)]
fn mlp(bencher: Bencher<'_, '_>) {
    let model = Model::Mlp(Mlp {
        hidden: vec![256, 256],
        activation: Activation::Relu,
        dropout: 0.1,
        norm: Norm::None,
        embedding: 0,
    });
    let input = InputShape::Table {
        numeric: 5,
        categories: vec![9, 17, 8, 16, 7, 6, 3, 43],
    };
    passes(bencher, &model, &input, 512);
}
