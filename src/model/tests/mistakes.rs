//! Configs that make no model: each is an error that says where and what.

use proptest::prelude::*;

use super::*;
use crate::model::ModelError;
use crate::run::{Fault, FaultClass};

fn conv(out: u32, kernel: u32, stride: u32, padding: u32) -> LayerConfig {
    LayerConfig::Conv2d {
        out,
        kernel,
        stride,
        padding,
        bias: true,
    }
}

fn linear(out: u32) -> LayerConfig {
    LayerConfig::Linear { out, bias: true }
}

fn block(heads: u32) -> LayerConfig {
    LayerConfig::TransformerBlock {
        heads,
        feed_forward: 8,
        dropout: 0.0,
    }
}

const EMBEDDING: LayerConfig = LayerConfig::Embedding { width: 6 };

/// What a list of layers is refused for.
fn refused(layers: Vec<LayerConfig>, input: &InputShape, target: &TargetShape, expected: &str) {
    let error = Network::expand(&list(layers), input, target).unwrap_err();
    assert_eq!(error.to_string(), expected);
    let fault = Fault::from(error);
    assert_eq!(fault.class, FaultClass::Usage);
    assert!(fault.layer.is_some() && !fault.advice.is_empty());
}

#[test]
fn windows_that_do_not_fit() {
    let refused = |layers, side, expected| refused(layers, &image(1, side), &classes(2), expected);
    refused(
        vec![
            conv(4, 3, 2, 0),
            conv(4, 2, 2, 0),
            LayerConfig::BatchNorm,
            conv(8, 5, 1, 0),
        ],
        17,
        "layers.3 (Conv2d): kernel 5 is larger than its 4x4 input",
    );
    refused(
        vec![conv(4, 9, 1, 1)],
        4,
        "layers.0 (Conv2d): kernel 9 is larger than its 4x4 input with 1 of padding on each side",
    );
    refused(
        vec![conv(4, 3, 0, 0)],
        4,
        "layers.0 (Conv2d): kernel and stride must be at least 1",
    );
    refused(
        vec![LayerConfig::ResidualBlock { out: 4, stride: 0 }],
        4,
        "layers.0.conv1 (Conv2d): kernel and stride must be at least 1",
    );
    refused(
        vec![conv(4, 3, 1, 3)],
        4,
        "layers.0 (Conv2d): padding 3 is not smaller than kernel 3",
    );
    refused(
        vec![LayerConfig::MaxPool2d {
            kernel: 2,
            stride: 2,
            padding: 2,
        }],
        4,
        "layers.0 (MaxPool2d): padding 2 is more than half of kernel 2",
    );
}

#[test]
fn layers_that_do_not_take_what_they_get() {
    let (ids, next) = tokens(8, 11);
    refused(
        vec![linear(0)],
        &image(1, 4),
        &classes(2),
        "layers.0 (Linear): needs features or a sequence (add `flatten` before it), but its input \
         is a 1x4x4 image",
    );
    refused(
        vec![conv(4, 3, 1, 0)],
        &table(),
        &classes(2),
        "layers.0 (Conv2d): needs an image, but its input is 7 features",
    );
    refused(
        vec![EMBEDDING, block(4), linear(0)],
        &ids,
        &next,
        "layers.1 (TransformerBlock): width 6 is not a multiple of 4 heads",
    );
    refused(
        vec![block(1)],
        &image(1, 4),
        &classes(2),
        "layers.0 (TransformerBlock): needs a sequence, but its input is a 1x4x4 image",
    );
    refused(
        vec![LayerConfig::Dropout { p: 1.0 }],
        &table(),
        &classes(2),
        "layers.0 (Dropout): p = 1 is not in 0 to below 1",
    );
}

#[test]
fn ends_that_do_not_fit_the_target() {
    let (ids, next) = tokens(8, 11);
    refused(
        vec![linear(0), linear(0)],
        &table(),
        &classes(2),
        "layers.0 (Linear): out = 0 is allowed on the last layer only",
    );
    refused(
        vec![linear(5)],
        &table(),
        &classes(3),
        "layers.0 (Linear): the last layer gives 5 features, but the target needs 3 features (one \
         score for each of 3 classes)",
    );
    refused(
        vec![LayerConfig::Flatten],
        &image(2, 3),
        &classes(3),
        "layers.0 (Flatten): the last layer gives 18 features, but the target needs 3 features \
         (one score for each of 3 classes); end with a linear layer with `out = 0`",
    );
    refused(
        vec![EMBEDDING, LayerConfig::GlobalAvgPool, linear(0)],
        &ids,
        &next,
        "layers.2 (Linear): the last layer gives 11 features, but the target needs a 8x11 sequence \
         (one score for each of 11 tokens)",
    );
}

/// What a model is refused for, in part.
fn unfit(model: &Model, input: &InputShape, target: &TargetShape, expected: &str) {
    let error = Network::expand(model, input, target).unwrap_err();
    assert!(
        error.to_string().contains(expected),
        "{error} has no {expected:?}"
    );
    assert_eq!(Fault::from(error).class, FaultClass::Usage);
}

#[test]
fn families_that_do_not_fit_their_data() {
    let (ids, next) = tokens(8, 11);
    let plain = mlp(&[4], Norm::None, 0.0);
    unfit(&plain, &ids, &next, "an mlp takes rows");
    unfit(&plain, &table(), &classes(0), "no columns");
    let cifar = |depth| resnet(depth, Stem::Cifar, 0);
    unfit(&cifar(20), &table(), &classes(2), "a resnet takes images");
    unfit(&cifar(21), &image(3, 8), &classes(2), "of 6n + 2, not 21");
    unfit(&cifar(2), &image(3, 8), &classes(2), "of 6n + 2, not 2");
    let model = resnet(20, Stem::Imagenet, 0);
    unfit(
        &model,
        &image(3, 64),
        &classes(2),
        "no resnet with depth 20",
    );
    let empty = mlp(&[0], Norm::None, 0.0);
    unfit(
        &empty,
        &table(),
        &classes(2),
        "its output would be 0 features",
    );
    unfit(&list(Vec::new()), &table(), &classes(2), "no layers");
    let idle = list(vec![LayerConfig::Flatten]);
    unfit(&idle, &image(1, 2), &classes(4), "anything to train");
}

#[test]
fn transformers_whose_sizes_do_not_agree() {
    let (ids, next) = tokens(8, 11);
    let model = |change: &dyn Fn(&mut Gpt)| {
        let mut config = gpt();
        change(&mut config);
        Model::Gpt(config)
    };
    let refused = |change: &dyn Fn(&mut Gpt), expected| {
        unfit(&model(change), &ids, &next, expected);
    };
    unfit(
        &model(&|_| ()),
        &image(3, 8),
        &classes(2),
        "a gpt takes tokens",
    );
    refused(&|c| c.heads = 5, "not a multiple of 5 heads");
    refused(&|c| c.kv_heads = 3, "not a multiple of 3 kv_heads");
    refused(&|c| c.norm = Norm::Batch, "`layer` or `rms`");
    refused(&|c| c.layers = 20_000, "more than 10000 layers");
    refused(&|c| c.width = u32::MAX - 3, "parameters");
    let odd = |c: &mut Gpt| {
        c.width = 12;
        c.position = Position::Rotary;
    };
    refused(&odd, "even head width, not 3");
}

proptest! {
    /// Any free list of convolutions and pools either expands, with sizes that follow the
    /// arithmetic of windows, or fails naming one of its layers. Never a panic.
    #[test]
    fn odd_sizes_expand_or_name_a_layer(
        side in 1usize..20,
        windows in prop::collection::vec((0u32..6, 0u32..4, 0u32..4, any::<bool>()), 1..5),
    ) {
        let mut layers: Vec<LayerConfig> = windows.iter().map(|&(kernel, stride, padding, pool)| {
            if pool {
                LayerConfig::AvgPool2d { kernel, stride, padding }
            } else {
                conv(3, kernel, stride, padding)
            }
        }).collect();
        layers.push(LayerConfig::GlobalAvgPool);
        layers.push(linear(0));
        match Network::expand(&list(layers), &image(2, side), &classes(4)) {
            Ok(network) => {
                let mut expected = side;
                for (layer, &(kernel, stride, padding, _)) in network.layers().iter().zip(&windows) {
                    let [kernel, stride, padding] =
                        [kernel, stride, padding].map(|n| usize::try_from(n).unwrap());
                    expected = (expected + 2 * padding - kernel) / stride + 1;
                    prop_assert_eq!(&layer.output.dims()[1..], &[expected, expected]);
                }
            }
            Err(ModelError::Layer { layer, .. }) => prop_assert!(layer.starts_with("layers.")),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
