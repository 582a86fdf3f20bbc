//! The `resnet` family: He et al., "Deep residual learning for image recognition" (2015).
//!
//! Names of parameters are those of torchvision. Shortcuts that change shape are 1x1 convolutions
//! (option B of the paper); the stride of a bottleneck is in its 3x3 convolution. The gain of the
//! last normalisation of each block starts at 0, so that a block starts as its shortcut (Goyal et
//! al., "Accurate, large minibatch SGD", 2017, section 5.1).

use super::ModelError;
use super::chain::{Chain, Window, size};
use super::layer::Residual;
use super::parameter::{Initial, Role};
use super::weights::LinearInitial;
use crate::config::{Activation, Block, Resnet, Stem};

/// Blocks of each stage and whether they are bottlenecks.
fn stages(config: &Resnet) -> Result<(Vec<usize>, bool), ModelError> {
    let depth = size(config.depth);
    match config.stem {
        Stem::Cifar => {
            let bottleneck = config.block == Block::Bottleneck;
            let per_stage = if bottleneck { 9 } else { 6 };
            if depth < per_stage + 2 || !(depth - 2).is_multiple_of(per_stage) {
                return Err(ModelError::model(
                    format!("a resnet with this stem has a depth of {per_stage}n + 2, not {depth}"),
                    "set `model.depth` to 8, 14, 20, 32, 44, 56 or 110 (11, 20, 29, … for bottlenecks)",
                ));
            }
            Ok((vec![(depth - 2) / per_stage; 3], bottleneck))
        }
        Stem::Imagenet => match (depth, config.block) {
            (18, Block::Auto | Block::Basic) => Ok((vec![2, 2, 2, 2], false)),
            (34, Block::Auto | Block::Basic) => Ok((vec![3, 4, 6, 3], false)),
            (50, Block::Auto | Block::Bottleneck) => Ok((vec![3, 4, 6, 3], true)),
            _ => Err(ModelError::model(
                format!("there is no resnet with depth {depth}, this stem and this block"),
                "use depth 18 or 34 with basic blocks, or 50 with bottlenecks",
            )),
        },
    }
}

/// Appends the whole network.
pub(super) fn resnet(
    chain: &mut Chain<'_>,
    config: &Resnet,
    outputs: usize,
) -> Result<(), ModelError> {
    let (stages, bottleneck) = stages(config)?;
    let first = match (size(config.width), config.stem) {
        (0, Stem::Cifar) => 16,
        (0, Stem::Imagenet) => 64,
        (given, _) => given,
    };
    match config.stem {
        Stem::Cifar => {
            chain.conv2d("conv1", first, window(3, 1), false, Role::Edge)?;
            chain.batch_norm("bn1", Initial::Ones)?;
            chain.activation("relu", Activation::Relu)?;
        }
        Stem::Imagenet => {
            chain.conv2d("conv1", first, window(7, 2), false, Role::Edge)?;
            chain.batch_norm("bn1", Initial::Ones)?;
            chain.activation("relu", Activation::Relu)?;
            chain.pool("maxpool", false, window(3, 2))?;
        }
    }
    let mut width = first;
    for (stage, &blocks) in stages.iter().enumerate() {
        for index in 0..blocks {
            let stride = if stage > 0 && index == 0 { 2 } else { 1 };
            let name = format!("layer{}.{index}", stage + 1);
            block(chain, &name, width, stride, bottleneck)?;
        }
        width = width.saturating_mul(2);
    }
    chain.global_avg_pool("avgpool")?;
    chain.dropout("dropout", config.dropout)?;
    chain.linear("fc", outputs, true, LinearInitial::Uniform, Role::Edge)?;
    Ok(())
}

/// A square window with the padding that keeps the size at stride 1.
fn window(kernel: usize, stride: usize) -> Window {
    Window {
        kernel,
        stride,
        padding: kernel / 2,
    }
}

/// Appends one residual block; a bottleneck gives four times `width` channels.
pub(super) fn block(
    chain: &mut Chain<'_>,
    name: &str,
    width: usize,
    stride: usize,
    bottleneck: bool,
) -> Result<(), ModelError> {
    let input = chain.shape;
    let mut branch = chain.inner(name, input);
    let output = if bottleneck {
        let output = width.saturating_mul(4);
        branch
            .conv2d("conv1", width, window(1, 1), false, Role::Hidden)?
            .batch_norm("bn1", Initial::Ones)?
            .activation("relu1", Activation::Relu)?
            .conv2d("conv2", width, window(3, stride), false, Role::Hidden)?
            .batch_norm("bn2", Initial::Ones)?
            .activation("relu2", Activation::Relu)?
            .conv2d("conv3", output, window(1, 1), false, Role::Hidden)?
            .batch_norm("bn3", Initial::Zeros)?;
        output
    } else {
        branch
            .conv2d("conv1", width, window(3, stride), false, Role::Hidden)?
            .batch_norm("bn1", Initial::Ones)?
            .activation("relu", Activation::Relu)?
            .conv2d("conv2", width, window(3, 1), false, Role::Hidden)?
            .batch_norm("bn2", Initial::Zeros)?;
        width
    };
    let changed = branch.shape != input;
    let branch = branch.finish();
    let mut shortcut = chain.inner(name, input);
    if changed {
        shortcut
            .conv2d(
                "downsample.0",
                output,
                window(1, stride),
                false,
                Role::Hidden,
            )?
            .batch_norm("downsample.1", Initial::Ones)?;
    }
    let residual = Residual {
        branch,
        shortcut: shortcut.finish(),
        activation: Some(Activation::Relu),
    };
    chain.residual(name, residual)?;
    Ok(())
}
