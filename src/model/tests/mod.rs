//! Tests of whole networks.

mod expansion;
mod mistakes;
mod passes;
mod reference;
mod values;

use super::Network;
use crate::config::{
    Activation, Block, Gpt, GptActivation, LayerConfig, Layers, Mlp, Model, Norm, Position, Resnet,
    Stem,
};
use crate::data::{Input, InputShape, TargetShape};
use crate::plan::rng::{Purpose, Stream};

/// `count` classes.
pub(super) fn classes(count: usize) -> TargetShape {
    TargetShape::Classes {
        names: (0..count).map(|class| class.to_string()).collect(),
    }
}

pub(super) fn image(channels: usize, side: usize) -> InputShape {
    InputShape::Image {
        channels,
        height: side,
        width: side,
    }
}

pub(super) fn table() -> InputShape {
    InputShape::Table {
        numeric: 3,
        categories: vec![5, 2],
    }
}

pub(super) fn tokens(length: usize, vocabulary: usize) -> (InputShape, TargetShape) {
    let input = InputShape::Tokens { length, vocabulary };
    (input, TargetShape::NextToken { vocabulary })
}

pub(super) fn mlp(hidden: &[u32], norm: Norm, dropout: f64) -> Model {
    Model::Mlp(Mlp {
        hidden: hidden.to_vec(),
        activation: Activation::Gelu,
        dropout,
        norm,
        embedding: 0,
    })
}

pub(super) fn resnet(depth: u32, stem: Stem, width: u32) -> Model {
    Model::Resnet(Resnet {
        depth,
        width,
        stem,
        block: Block::Auto,
        dropout: 0.0,
    })
}

/// A small GPT; change what a test is about.
pub(super) fn gpt() -> Gpt {
    Gpt {
        layers: 2,
        width: 16,
        heads: 4,
        kv_heads: 4,
        feed_forward: 0,
        activation: GptActivation::Gelu,
        norm: Norm::Layer,
        position: Position::Learned,
        rope_base: 10_000.0,
        bias: true,
        tied: true,
        dropout: 0.0,
    }
}

/// A small Llama.
pub(super) fn llama() -> Gpt {
    Gpt {
        kv_heads: 2,
        activation: GptActivation::Swiglu,
        norm: Norm::Rms,
        position: Position::Rotary,
        bias: false,
        tied: false,
        ..gpt()
    }
}

pub(super) fn list(layers: Vec<LayerConfig>) -> Model {
    Model::Layers(Layers { layers })
}

pub(super) fn expand(model: &Model, input: &InputShape, target: &TargetShape) -> Network {
    Network::expand(model, input, target).unwrap()
}

/// `n` samples of random numbers or ids.
pub(super) fn batch(input: &InputShape, n: usize, seed: u64) -> Input {
    let mut stream = Stream::new(seed, Purpose::Augment, 0, 0);
    let mut floats = |count: usize| -> Vec<f32> {
        let values = (0..count).map(|_| stream.normal_pair()[0]);
        #[expect(clippy::cast_possible_truncation, reason = "test data")]
        values.map(|value| value as f32).collect()
    };
    match input {
        InputShape::Table {
            numeric,
            categories,
        } => Input::Table {
            numeric: floats(n * numeric),
            categorical: (0..n)
                .flat_map(|row| {
                    let column = |(column, &size): (usize, &usize)| {
                        i32::try_from((row + column) % size).unwrap()
                    };
                    categories
                        .iter()
                        .enumerate()
                        .map(column)
                        .collect::<Vec<_>>()
                })
                .collect(),
        },
        InputShape::Image {
            channels,
            height,
            width,
        } => Input::Images {
            pixels: floats(n * channels * height * width),
        },
        InputShape::Tokens { length, vocabulary } => {
            let bound = u64::try_from(*vocabulary).unwrap();
            Input::Tokens {
                ids: (0..n * length)
                    .map(|_| i32::try_from(stream.below(bound)).unwrap())
                    .collect(),
            }
        }
    }
}
