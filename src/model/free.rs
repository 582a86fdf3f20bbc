//! Free layer lists: `[[model.layers]]`.

use super::ModelError;
use super::chain::{Chain, Window, size};
use super::parameter::{Initial, Role};
use super::resnet;
use super::shape::Shape;
use super::transformer::{self, BlockSizes};
use super::weights::LinearInitial;
use crate::config::{LayerConfig, Layers};

/// Appends all layers. `outputs` is what a last linear layer with `out = 0` gives; `categories` are
/// the vocabularies of categorical columns, which are embedded before the first layer.
pub(super) fn free(
    chain: &mut Chain<'_>,
    config: &Layers,
    categories: &[usize],
    outputs: usize,
) -> Result<(), ModelError> {
    if config.layers.is_empty() {
        return Err(ModelError::model(
            "it has no layers",
            "add at least one `[[model.layers]]`",
        ));
    }
    if matches!(chain.shape, Shape::Row { .. }) {
        chain.columns("embeddings", categories, 0)?;
    }
    let blocks = config
        .layers
        .iter()
        .filter(|layer| matches!(layer, LayerConfig::TransformerBlock { .. }))
        .count();
    let last = config.layers.len() - 1;
    for (index, layer) in config.layers.iter().enumerate() {
        let place = Place {
            name: format!("layers.{index}"),
            first: index == 0,
            last: index == last,
            outputs,
            blocks,
        };
        append(chain, layer, &place)?;
    }
    Ok(())
}

/// Where in the list a layer stands.
struct Place {
    name: String,
    first: bool,
    last: bool,
    outputs: usize,
    blocks: usize,
}

fn append(chain: &mut Chain<'_>, layer: &LayerConfig, place: &Place) -> Result<(), ModelError> {
    let name = &place.name;
    let role = if place.first || place.last {
        Role::Edge
    } else {
        Role::Hidden
    };
    let window = |kernel: &u32, stride: &u32, padding: &u32| Window {
        kernel: size(*kernel),
        stride: size(*stride),
        padding: size(*padding),
    };
    match layer {
        LayerConfig::Linear { out, bias } => {
            let out = match size(*out) {
                0 if place.last => place.outputs,
                0 => {
                    let problem = "out = 0 is allowed on the last layer only";
                    return Err(ModelError::layer(name, "Linear", problem));
                }
                given => given,
            };
            chain.linear(name, out, *bias, LinearInitial::Uniform, role)?;
        }
        LayerConfig::Conv2d {
            out,
            kernel,
            stride,
            padding,
            bias,
        } => {
            let window = window(kernel, stride, padding);
            chain.conv2d(name, size(*out), window, *bias, role)?;
        }
        LayerConfig::BatchNorm => drop(chain.batch_norm(name, Initial::Ones)?),
        LayerConfig::LayerNorm => drop(chain.norm(name, false, true)?),
        LayerConfig::RmsNorm => drop(chain.norm(name, true, false)?),
        LayerConfig::Activation { function } => drop(chain.activation(name, *function)?),
        LayerConfig::Dropout { p } => drop(chain.dropout(name, *p)?),
        LayerConfig::MaxPool2d {
            kernel,
            stride,
            padding,
        } => drop(chain.pool(name, false, window(kernel, stride, padding))?),
        LayerConfig::AvgPool2d {
            kernel,
            stride,
            padding,
        } => drop(chain.pool(name, true, window(kernel, stride, padding))?),
        LayerConfig::GlobalAvgPool => drop(chain.global_avg_pool(name)?),
        LayerConfig::Flatten => drop(chain.flatten(name)?),
        LayerConfig::ResidualBlock { out, stride } => {
            resnet::block(chain, name, size(*out), size(*stride), false)?;
        }
        LayerConfig::Embedding { width } => {
            chain.embedding(name, size(*width), transformer::normal())?;
        }
        LayerConfig::PositionEmbedding => {
            chain.position_embedding(name, transformer::normal())?;
        }
        LayerConfig::TransformerBlock {
            heads,
            feed_forward,
            dropout,
        } => {
            let sizes = BlockSizes {
                heads: size(*heads),
                kv_heads: size(*heads),
                feed_forward: size(*feed_forward),
                gated: false,
                rms: false,
                bias: true,
                rope_base: None,
                dropout: *dropout,
                blocks: place.blocks,
            };
            transformer::block(chain, name, &sizes)?;
        }
    }
    Ok(())
}
