//! A network: its layers, parameters and buffers, as plain data.

use super::ModelError;
use super::chain::{Chain, size};
use super::layer::{Layer, NamedLayer};
use super::parameter::{BufferSpec, ParameterSpec, Registry};
use super::shape::Shape;
use super::{free, mlp, resnet, transformer};
use crate::config;
use crate::data::{InputShape, TargetShape};

/// Most layers of a model.
const LAYERS_MAX: usize = 10_000;

/// What a network gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputKind {
    /// `[n, classes]`.
    Logits,
    /// `[n, 1]`.
    Values,
    /// `[n, length, vocabulary]`.
    TokenLogits,
}

/// A model that fits its data: layers in order, with the parameters and buffers they use.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    pub(super) input: InputShape,
    pub(super) layers: Vec<NamedLayer>,
    pub(super) parameters: Vec<ParameterSpec>,
    pub(super) buffers: Vec<BufferSpec>,
    pub(super) decay_count: usize,
    /// Indices of the parameters in the order of their places.
    pub(super) flat_order: Vec<usize>,
    pub(super) output: OutputKind,
}

impl Network {
    /// Expands a config into layers for samples of this shape.
    ///
    /// # Errors
    ///
    /// When a layer does not fit what comes before it (the error names the layer), when the model
    /// does not fit the data, or when it is absurdly large.
    pub fn expand(
        model: &config::Model,
        input: &InputShape,
        target: &TargetShape,
    ) -> Result<Self, ModelError> {
        check_data(input, target)?;
        let (output, outputs) = match target {
            TargetShape::Classes { names } => (OutputKind::Logits, names.len()),
            TargetShape::Value { .. } => (OutputKind::Values, 1),
            TargetShape::NextToken { vocabulary } => (OutputKind::TokenLogits, *vocabulary),
        };
        check_family(model, input)?;
        let categories: &[usize] = match input {
            InputShape::Table { categories, .. } => categories,
            _ => &[],
        };
        let mut registry = Registry::default();
        let mut chain = Chain::new(&mut registry, "", Shape::of_input(input));
        match model {
            config::Model::Mlp(config) => mlp::mlp(&mut chain, config, categories, outputs)?,
            config::Model::Resnet(config) => resnet::resnet(&mut chain, config, outputs)?,
            config::Model::Gpt(config) => transformer::gpt(&mut chain, config, outputs)?,
            config::Model::Layers(config) => free::free(&mut chain, config, categories, outputs)?,
        }
        let layers = chain.finish();
        check_end(&layers, output, outputs, input)?;
        let (parameters, buffers, decay_count) = registry.finish();
        if parameters.is_empty() {
            return Err(ModelError::model(
                "none of its layers has anything to train",
                "add a layer with weights, e.g. `linear`",
            ));
        }
        let mut flat_order: Vec<usize> = (0..parameters.len()).collect();
        flat_order.sort_by_key(|&index| parameters[index].range.start);
        Ok(Self {
            input: input.clone(),
            layers,
            parameters,
            buffers,
            decay_count,
            flat_order,
            output,
        })
    }

    /// The layers, first to last.
    #[must_use]
    pub fn layers(&self) -> &[NamedLayer] {
        &self.layers
    }

    /// All parameters in network order; their `range` says where they are in the flat vector.
    #[must_use]
    pub fn parameters(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    /// All buffers, in the order of the flat vector of buffers.
    #[must_use]
    pub fn buffers(&self) -> &[BufferSpec] {
        &self.buffers
    }

    /// Trainable numbers.
    #[must_use]
    pub fn parameter_count(&self) -> usize {
        self.parameters.iter().map(|spec| spec.range.len()).sum()
    }

    /// Numbers in all buffers.
    #[must_use]
    pub fn buffer_count(&self) -> usize {
        self.buffers.last().map_or(0, |last| last.range.end)
    }

    /// Length of the first part of the flat vector, to which weight decay applies.
    #[must_use]
    pub fn decay_count(&self) -> usize {
        self.decay_count
    }

    /// The parameter that holds a place of the flat vector.
    #[must_use]
    pub fn parameter_at(&self, index: usize) -> Option<&ParameterSpec> {
        let after = self
            .flat_order
            .partition_point(|&p| self.parameters[p].range.end <= index);
        let spec = &self.parameters[*self.flat_order.get(after)?];
        spec.range.contains(&index).then_some(spec)
    }

    /// Shape of one sample that the network takes.
    #[must_use]
    pub fn input(&self) -> &InputShape {
        &self.input
    }
}

fn check_data(input: &InputShape, target: &TargetShape) -> Result<(), ModelError> {
    let empty = match input {
        InputShape::Table {
            numeric,
            categories,
        } => numeric + categories.len() == 0 || categories.contains(&0),
        InputShape::Image {
            channels,
            height,
            width,
        } => channels * height * width == 0,
        InputShape::Tokens { length, vocabulary } => length * vocabulary == 0,
    } || match target {
        TargetShape::Classes { names } => names.is_empty(),
        TargetShape::Value { .. } => false,
        TargetShape::NextToken { vocabulary } => *vocabulary == 0,
    };
    if empty {
        return Err(ModelError::model(
            "the data have no columns, pixels, tokens or classes to work on",
            "check `[data]` with `trainer data inspect`",
        ));
    }
    Ok(())
}

fn check_family(model: &config::Model, input: &InputShape) -> Result<(), ModelError> {
    let (problem, advice) = match (model, input) {
        (config::Model::Mlp(_), InputShape::Tokens { .. }) => (
            "an mlp takes rows of a table or images, and the data are tokens",
            "set `model.kind = \"gpt\"`",
        ),
        (config::Model::Resnet(_), InputShape::Table { .. } | InputShape::Tokens { .. }) => (
            "a resnet takes images, and the data are not",
            "set `model.kind = \"mlp\"` for tables or \"gpt\" for text",
        ),
        (config::Model::Gpt(_), InputShape::Table { .. } | InputShape::Image { .. }) => (
            "a gpt takes tokens, and the data are not",
            "set `model.kind = \"mlp\"` for tables or \"resnet\" for images",
        ),
        (config::Model::Gpt(gpt), _) if size(gpt.layers) > LAYERS_MAX => (
            "it has more than 10000 layers",
            "make `model.layers` smaller",
        ),
        (config::Model::Resnet(resnet), _) if size(resnet.depth) > LAYERS_MAX => (
            "it has more than 10000 layers",
            "make `model.depth` smaller",
        ),
        (config::Model::Mlp(mlp), _) if mlp.hidden.len() > LAYERS_MAX => {
            ("it has more than 10000 layers", "remove hidden layers")
        }
        (config::Model::Layers(list), _) if list.layers.len() > LAYERS_MAX => {
            ("it has more than 10000 layers", "remove layers")
        }
        _ => return Ok(()),
    };
    Err(ModelError::model(problem, advice))
}

/// The last layer must give what the target needs.
fn check_end(
    layers: &[NamedLayer],
    output: OutputKind,
    outputs: usize,
    input: &InputShape,
) -> Result<(), ModelError> {
    let wanted = match (output, input) {
        (OutputKind::TokenLogits, InputShape::Tokens { length, .. }) => Shape::Sequence {
            length: *length,
            width: outputs,
        },
        (OutputKind::TokenLogits, _) => {
            return Err(ModelError::model(
                "the targets are tokens, and the inputs are not",
                "check `[data]`",
            ));
        }
        (OutputKind::Logits | OutputKind::Values, _) => Shape::Features(outputs),
    };
    let Some(last) = layers.last() else {
        return Err(ModelError::model("it has no layers", "add one"));
    };
    if last.output == wanted {
        return Ok(());
    }
    let what = match output {
        OutputKind::Logits => format!("one score for each of {outputs} classes"),
        OutputKind::Values => "one number".to_owned(),
        OutputKind::TokenLogits => format!("one score for each of {outputs} tokens"),
    };
    let hint = match last.layer {
        Layer::Linear(_) => "",
        _ => "; end with a linear layer with `out = 0`",
    };
    Err(ModelError::layer(
        &last.name,
        last.layer.kind(),
        format!(
            "the last layer gives {}, but the target needs {wanted} ({what}){hint}",
            last.output
        ),
    ))
}
