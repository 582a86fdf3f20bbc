//! Running a network on a batch.

use burn::tensor::{Device, Int, Tensor, TensorData, activation};

use super::layer::{
    Attention, BatchNorm, Columns, Conv2d, Dropout, FeedForward, Layer, Linear, NamedLayer, Norm,
    Pool, Residual,
};
use super::network::{Network, OutputKind};
use super::parameter::ParameterId;
use super::parameters::{Buffers, Parameters};
use super::value::{Elementwise, Value};
use crate::config::Activation;
use crate::data::{Input, InputShape};
use crate::ops;

/// Whether a pass trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Tracks gradients, drops values, normalises with the statistics of the batch.
    Train {
        /// All that dropout depends on, with the layer: give each shard of each step its own.
        dropout_seed: u64,
    },
    /// No gradients, no dropout, running statistics.
    Evaluate,
}

/// What a network predicts for `n` samples.
#[derive(Clone, Debug)]
pub enum Output {
    /// One score per class, `[n, classes]`.
    Logits(Tensor<2>),
    /// One number, `[n, 1]`.
    Values(Tensor<2>),
    /// One score per token of the vocabulary at each place, `[n, length, vocabulary]`.
    TokenLogits(Tensor<3>),
}

/// Result of a pass.
#[derive(Debug)]
pub struct Forward {
    /// Predictions; tracked when the pass trains.
    pub output: Output,
    /// Mean and unbiased variance of each batch normalisation, flat in the layout of the buffers,
    /// untracked. None when evaluating, or when there are none.
    pub statistics: Option<Tensor<1>>,
}

impl Network {
    /// Runs the network. `input` must have this network's shape; it must hold at least one sample.
    #[must_use]
    pub fn forward(
        &self,
        parameters: &Parameters,
        buffers: &Buffers,
        input: &Input,
        mode: Mode,
    ) -> Forward {
        let mut pass = Pass::new(parameters, buffers, mode, false);
        let value = self.upload(input, &pass.device);
        let value = pass.run_all(&self.layers, value);
        Forward {
            output: match self.output {
                OutputKind::Logits => Output::Logits(value.features()),
                OutputKind::Values => Output::Values(value.features()),
                OutputKind::TokenLogits => Output::TokenLogits(value.sequence()),
            },
            statistics: pass.finish(),
        }
    }

    /// Name of the first layer whose output holds a NaN or an infinity, `input` if the input does.
    /// Runs the network again with the same arguments, checking after each layer.
    #[must_use]
    pub fn first_non_finite(
        &self,
        parameters: &Parameters,
        buffers: &Buffers,
        input: &Input,
        mode: Mode,
    ) -> Option<String> {
        let mut pass = Pass::new(parameters, buffers, mode, true);
        let value = self.upload(input, &pass.device);
        if !value.is_finite() {
            return Some("input".to_owned());
        }
        pass.run_all(&self.layers, value);
        pass.non_finite
    }

    /// The batch on the device.
    fn upload(&self, input: &Input, device: &Device) -> Value {
        let floats = |values: &Vec<f32>, columns: usize| {
            let rows = values.len() / columns.max(1);
            let data = TensorData::new(values.clone(), [rows, columns]);
            Tensor::<2>::from_data(data, device)
        };
        let ints = |values: &Vec<i32>, columns: usize| {
            let rows = values.len() / columns.max(1);
            let data = TensorData::new(values.clone(), [rows, columns]);
            Tensor::<2, Int>::from_data(data, device)
        };
        match (input, &self.input) {
            (
                Input::Table {
                    numeric,
                    categorical,
                },
                InputShape::Table {
                    numeric: columns,
                    categories,
                },
            ) => Value::Row(
                (*columns > 0).then(|| floats(numeric, *columns)),
                (!categories.is_empty()).then(|| ints(categorical, categories.len())),
            ),
            (
                Input::Images { pixels },
                InputShape::Image {
                    channels,
                    height,
                    width,
                },
            ) => {
                let flat = floats(pixels, channels * height * width);
                let n = flat.dims()[0];
                Value::Map(flat.reshape([n, *channels, *height, *width]))
            }
            (Input::Tokens { ids }, InputShape::Tokens { length, .. }) => {
                Value::Ids(ints(ids, *length))
            }
            // A batch of another kind than the data set the network was expanded for.
            (Input::Table { numeric, .. }, _) => Value::Features(floats(numeric, numeric.len())),
            (Input::Images { pixels }, _) => Value::Features(floats(pixels, pixels.len())),
            (Input::Tokens { ids }, _) => Value::Ids(ints(ids, ids.len())),
        }
    }
}

/// One run through the layers.
pub(super) struct Pass<'a> {
    parameters: &'a Parameters,
    buffers: &'a Buffers,
    mode: Mode,
    device: Device,
    /// Place among the buffers, mean and variance.
    statistics: Vec<(usize, Tensor<1>)>,
    check: bool,
    non_finite: Option<String>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        parameters: &'a Parameters,
        buffers: &'a Buffers,
        mode: Mode,
        check: bool,
    ) -> Self {
        let device = parameters.device();
        Self {
            parameters,
            buffers,
            mode,
            device: match mode {
                Mode::Train { .. } => device.autodiff(),
                Mode::Evaluate => device,
            },
            statistics: Vec::new(),
            check,
            non_finite: None,
        }
    }

    pub(super) fn finish(mut self) -> Option<Tensor<1>> {
        if self.statistics.is_empty() {
            return None;
        }
        self.statistics.sort_by_key(|(place, _)| *place);
        let parts = self.statistics.into_iter().map(|(_, part)| part);
        Some(ops::join(parts.collect()))
    }

    fn vector(&self, id: ParameterId) -> Tensor<1> {
        let leaf = self.parameters.leaf(id);
        match self.mode {
            Mode::Train { .. } => leaf,
            Mode::Evaluate => leaf.without_autodiff(),
        }
    }

    fn weight<const D: usize>(&self, id: ParameterId, shape: [usize; D]) -> Tensor<D> {
        self.vector(id).reshape(shape)
    }

    pub(super) fn run_all(&mut self, layers: &[NamedLayer], value: Value) -> Value {
        let mut value = value;
        let mut rest = layers;
        while let [layer, after @ ..] = rest {
            // Normalisation and ReLU in one pass over memory, unless each is to be looked at.
            if let (Layer::BatchNorm(norm), [next, after @ ..]) = (&layer.layer, after)
                && next.layer == Layer::Activation(Activation::Relu)
                && !self.check
            {
                value = self.batch_norm(norm, value, true);
                rest = after;
            } else {
                value = self.run(layer, value);
                rest = after;
            }
        }
        value
    }

    fn run(&mut self, named: &NamedLayer, x: Value) -> Value {
        let y = match &named.layer {
            Layer::Columns(columns) => self.columns(columns, x),
            Layer::Linear(linear) => x.rows(|x| self.linear(linear, x)),
            Layer::Conv2d(conv) => Value::Map(self.conv2d(conv, x.map())),
            Layer::BatchNorm(norm) => self.batch_norm(norm, x, false),
            Layer::LayerNorm(norm) => x.rows(|x| self.layer_norm(norm, x)),
            Layer::RmsNorm(norm) => x.rows(|x| ops::rms_norm(x, self.vector(norm.gain))),
            Layer::Activation(function) => x.each(*function),
            Layer::Dropout(dropout) => self.dropout(dropout, x),
            Layer::MaxPool2d(pool) => Value::Map(ops::max_pool2d(x.map(), window(pool))),
            Layer::AvgPool2d(pool) => Value::Map(ops::avg_pool2d(x.map(), window(pool))),
            Layer::GlobalAvgPool => Value::Features(global_avg_pool(x)),
            Layer::Flatten => Value::Features(x.features()),
            Layer::Residual(residual) => self.residual(residual, x),
            Layer::Embedding(embedding) => {
                let weight = self.weight(embedding.weight, [embedding.vocabulary, embedding.width]);
                Value::Sequence(ops::embedding(weight, x.ids()))
            }
            Layer::PositionEmbedding(positions) => {
                let shape = [1, positions.length, positions.width];
                Value::Sequence(x.sequence() + self.weight(positions.weight, shape))
            }
            Layer::Attention(layer) => Value::Sequence(self.attention(layer, x.sequence())),
            Layer::FeedForward(layer) => x.rows(|x| self.feed_forward(layer, x)),
            Layer::Block(layers) => self.run_all(layers, x),
        };
        if self.check && self.non_finite.is_none() && !y.is_finite() {
            self.non_finite = Some(named.name.clone());
        }
        y
    }

    fn columns(&self, columns: &Columns, x: Value) -> Value {
        let Value::Row(numeric, categorical) = x else {
            return x;
        };
        let mut parts: Vec<Tensor<2>> = numeric.into_iter().collect();
        if let Some(categorical) = categorical {
            for (column, embedding) in columns.embeddings.iter().enumerate() {
                let weight = self.weight(embedding.weight, [embedding.vocabulary, embedding.width]);
                let ids = categorical.clone().narrow(1, column, 1);
                let vectors = ops::embedding(weight, ids);
                parts.push(vectors.squeeze_dim(1));
            }
        }
        Value::Features(Tensor::cat(parts, 1))
    }

    /// x · weightᵀ + bias on the rows of `x`, `[rows, input]`.
    fn linear(&self, linear: &Linear, x: Tensor<2>) -> Tensor<2> {
        let bias = linear.bias.map(|bias| self.vector(bias));
        ops::linear(x, self.matrix(linear), bias)
    }

    fn matrix(&self, linear: &Linear) -> Tensor<2> {
        self.weight(linear.weight, [linear.output, linear.input])
    }

    fn feed_forward(&self, layer: &FeedForward, x: Tensor<2>) -> Tensor<2> {
        let hidden = match (&layer.gate, layer.up.bias) {
            (Some(gate), _) => {
                let up = self.linear(&layer.up, x.clone());
                ops::swiglu(self.linear(gate, x), up)
            }
            (None, Some(bias)) => {
                let up = ops::linear(x, self.matrix(&layer.up), None);
                ops::bias_gelu(up, self.vector(bias))
            }
            (None, None) => ops::gelu(self.linear(&layer.up, x)),
        };
        self.linear(&layer.down, hidden)
    }

    fn conv2d(&self, conv: &Conv2d, x: Tensor<4>) -> Tensor<4> {
        let shape = [conv.output, conv.input, conv.kernel, conv.kernel];
        let weight = self.weight(conv.weight, shape);
        let bias = conv.bias.map(|bias| self.vector(bias));
        ops::conv2d(x, weight, bias, conv.stride, conv.padding)
    }

    fn attention(&self, layer: &Attention, x: Tensor<3>) -> Tensor<3> {
        let [n, length, width] = x.dims();
        let rows = x.reshape([n * length, width]);
        let mut query = self.linear(&layer.query, rows.clone());
        let mut key = self.linear(&layer.key, rows.clone());
        let value = self.linear(&layer.value, rows);
        if let Some(base) = layer.rope_base {
            let rotation = ops::Rotation::new(length, layer.head_width, base);
            query = rotation.rotate(query);
            key = rotation.rotate(key);
        }
        let heads = ops::Heads {
            length,
            heads: layer.heads,
            kv_heads: layer.kv_heads,
            width: layer.head_width,
        };
        let dropout = self
            .dropout_seed(&layer.dropout)
            .map(|seed| ops::WeightDropout {
                seed,
                place: layer.dropout.place,
                p: layer.dropout.p,
            });
        let context = ops::causal_attention(query, key, value, heads, dropout);
        self.linear(&layer.output, context)
            .reshape([n, length, width])
    }

    fn layer_norm(&self, norm: &Norm, x: Tensor<2>) -> Tensor<2> {
        let bias = norm.bias.map(|bias| self.vector(bias));
        ops::layer_norm(x, self.vector(norm.gain), bias)
    }

    fn batch_norm(&mut self, norm: &BatchNorm, x: Value, relu: bool) -> Value {
        let (gain, bias) = (self.vector(norm.gain), self.vector(norm.bias));
        let running = (
            self.buffers.part(&norm.mean),
            self.buffers.part(&norm.variance),
        );
        match (self.mode, running) {
            (Mode::Evaluate, (Some(mean), Some(variance))) => {
                x.channels(|x| ops::batch_norm_evaluate(x, gain, bias, mean, variance, relu))
            }
            _ => x.channels(|x| {
                let [n, _, positions] = x.dims();
                let result = ops::batch_norm_train(x, gain, bias, relu);
                let variance = result.variance * unbiased(n * positions);
                let statistics = ops::join(vec![result.mean, variance]);
                self.statistics.push((norm.mean.start, statistics));
                result.output
            }),
        }
    }

    fn residual(&mut self, residual: &Residual, x: Value) -> Value {
        let branch = self.run_all(&residual.branch, x.clone());
        let shortcut = self.run_all(&residual.shortcut, x);
        match residual.activation {
            // The branch's last result is nobody else's: the sum can take its memory.
            Some(Activation::Relu) => branch.add_relu(shortcut),
            Some(function) => branch.add(shortcut).each(function),
            None => branch.add(shortcut),
        }
    }

    fn dropout(&self, dropout: &Dropout, x: Value) -> Value {
        x.each(Drop {
            pass: self,
            dropout,
        })
    }

    /// Seed of this pass's dropout, if this layer drops anything.
    fn dropout_seed(&self, dropout: &Dropout) -> Option<u64> {
        match self.mode {
            Mode::Train { dropout_seed } if dropout.p > 0.0 => Some(dropout_seed),
            _ => None,
        }
    }

    /// Drops values when training.
    fn drop<const D: usize>(&self, dropout: &Dropout, x: Tensor<D>) -> Tensor<D> {
        let Some(seed) = self.dropout_seed(dropout) else {
            return x;
        };
        let device = self.device.clone().without_autodiff();
        let mask = ops::dropout_mask(seed, dropout.place, dropout.p, x.dims(), &device);
        x * mask
    }
}

fn window(pool: &Pool) -> ops::Window {
    ops::Window {
        kernel: pool.kernel,
        stride: pool.stride,
        padding: pool.padding,
    }
}

/// n / (n - 1), 1 for a single value.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn unbiased(n: usize) -> f64 {
    n as f64 / (n.max(2) - 1) as f64
}

fn global_avg_pool(x: Value) -> Tensor<2> {
    match x {
        Value::Map(x) => {
            let [n, channels, height, width] = x.dims();
            ops::mean_of_positions(x.reshape([n, channels, height * width]))
        }
        other => other.sequence().mean_dim(1).squeeze_dim(1),
    }
}

struct Drop<'p, 'a> {
    pass: &'p Pass<'a>,
    dropout: &'p Dropout,
}

impl Elementwise for Drop<'_, '_> {
    fn apply<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        self.pass.drop(self.dropout, x)
    }
}

impl Elementwise for Activation {
    fn apply<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Activation::Relu => ops::relu(x),
            Activation::Gelu => ops::gelu(x),
            Activation::Silu => activation::silu(x),
            Activation::Tanh => activation::tanh(x),
            Activation::Sigmoid => activation::sigmoid(x),
        }
    }
}
