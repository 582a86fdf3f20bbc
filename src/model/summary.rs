//! What `trainer model` shows: layers, shapes, parameters, memory.

use std::fmt::Write as _;

use super::layer::{Attention, FeedForward, Layer, Linear, NamedLayer};
use super::network::Network;
use super::parameter::ParameterId;
use super::shape::Shape;
use crate::config::Optimizer;
use crate::run::LayerSummary;

/// Bytes of a 32-bit float.
const FLOAT_BYTES: u64 = 4;

/// Estimated memory of a worker that trains, in bytes. Batches and the program itself come on top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Parameters and buffers.
    pub parameters: u64,
    /// Gradient of the shard at hand and the partial sums of shards before it.
    pub gradients: u64,
    /// State of the optimiser.
    pub optimizer: u64,
    /// What the forward pass of one shard keeps for its backward pass.
    pub activations: u64,
}

impl MemoryEstimate {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        [self.gradients, self.optimizer, self.activations]
            .iter()
            .fold(self.parameters, |sum, &part| sum.saturating_add(part))
    }
}

impl Network {
    /// One row per layer, composite ones by their parts, first to last.
    #[must_use]
    pub fn summary(&self) -> Vec<LayerSummary> {
        let mut rows = Vec::new();
        for layer in &self.layers {
            self.rows(layer, &mut rows);
        }
        rows
    }

    fn rows(&self, named: &NamedLayer, rows: &mut Vec<LayerSummary>) {
        match &named.layer {
            Layer::Block(layers) => layers.iter().for_each(|layer| self.rows(layer, rows)),
            Layer::Residual(residual) => {
                for layer in residual.branch.iter().chain(&residual.shortcut) {
                    self.rows(layer, rows);
                }
                let kind = match residual.activation {
                    Some(function) => format!("Add, {}", Layer::Activation(function).kind()),
                    None => "Add".to_owned(),
                };
                rows.push(row(&named.name, kind, named.output, 0));
            }
            Layer::Attention(attention) => self.attention_rows(named, attention, rows),
            Layer::FeedForward(layer) => self.feed_forward_rows(named, layer, rows),
            layer => {
                let parameters = self.size(&used(layer));
                rows.push(row(&named.name, describe(layer), named.output, parameters));
            }
        }
    }

    fn attention_rows(
        &self,
        named: &NamedLayer,
        attention: &Attention,
        rows: &mut Vec<LayerSummary>,
    ) {
        let Attention {
            heads, kv_heads, ..
        } = attention;
        let mut part = |name: &str, linear: &Linear| {
            rows.push(self.linear_row(&format!("{}.{name}", named.name), linear, named.output));
        };
        part("q_proj", &attention.query);
        part("k_proj", &attention.key);
        part("v_proj", &attention.value);
        let rotary = match attention.rope_base {
            Some(_) => ", rotary",
            None => "",
        };
        let shared = if heads == kv_heads {
            String::new()
        } else {
            format!(", {kv_heads} kv heads")
        };
        let kind = format!("CausalAttention({heads} heads{shared}{rotary})");
        rows.push(row(&named.name, kind, named.output, 0));
        let name = format!("{}.o_proj", named.name);
        rows.push(self.linear_row(&name, &attention.output, named.output));
    }

    fn feed_forward_rows(
        &self,
        named: &NamedLayer,
        layer: &FeedForward,
        rows: &mut Vec<LayerSummary>,
    ) {
        let mut part = |name: &str, linear: &Linear| {
            rows.push(self.linear_row(&format!("{}.{name}", named.name), linear, named.output));
        };
        if let Some(gate) = &layer.gate {
            part("gate_proj", gate);
        }
        part("up_proj", &layer.up);
        part("down_proj", &layer.down);
    }

    /// Row of a linear layer inside a composite one whose output is `around`.
    fn linear_row(&self, name: &str, linear: &Linear, around: Shape) -> LayerSummary {
        let layer = Layer::Linear(linear.clone());
        let output = match around {
            Shape::Sequence { length, .. } => Shape::Sequence {
                length,
                width: linear.output,
            },
            _ => Shape::Features(linear.output),
        };
        row(name, describe(&layer), output, self.size(&used(&layer)))
    }

    fn size(&self, ids: &[ParameterId]) -> u64 {
        let sum: usize = ids.iter().map(|id| self.parameters[id.0].range.len()).sum();
        wide(sum)
    }

    /// Memory for training with shards of at most `shard_samples` samples, `shards` to a step.
    #[must_use]
    pub fn memory(&self, optimizer: &Optimizer, shard_samples: u64, shards: u32) -> MemoryEstimate {
        let parameters = wide(self.parameter_count());
        let hidden: usize = self
            .parameters
            .iter()
            .filter(|spec| spec.hidden_matrix)
            .map(|spec| spec.range.len())
            .sum();
        let state = match optimizer {
            Optimizer::Sgd { momentum: 0.0, .. } => 0,
            Optimizer::Sgd { .. } | Optimizer::Lion { .. } => parameters,
            Optimizer::Adam { .. } | Optimizer::Adamw { .. } => 2 * parameters,
            Optimizer::Muon { .. } => 2 * parameters - wide(hidden),
        };
        // The tree sum holds a partial sum per level beside the shard's own gradient.
        let levels = u64::from(shards.max(1).ilog2());
        let floats = |n: u64| n.saturating_mul(FLOAT_BYTES);
        MemoryEstimate {
            parameters: floats(parameters + wide(self.buffer_count())),
            gradients: floats(parameters.saturating_mul(1 + levels)),
            optimizer: floats(state),
            activations: floats(kept(&self.layers).saturating_mul(shard_samples)),
        }
    }
}

/// Floats that the layers keep for the backward pass, per sample.
fn kept(layers: &[NamedLayer]) -> u64 {
    let sum = |parts: &[u64]| parts.iter().fold(0u64, |a, &b| a.saturating_add(b));
    layers.iter().fold(0, |total, named| {
        let output = wide(named.output.elements());
        let own = match &named.layer {
            // Views of what comes before, or recomputed from it.
            Layer::Flatten | Layer::GlobalAvgPool => 0,
            Layer::Block(layers) => kept(layers),
            Layer::Residual(residual) => sum(&[
                kept(&residual.branch),
                kept(&residual.shortcut),
                if residual.activation.is_some() {
                    output
                } else {
                    0
                },
            ]),
            Layer::Attention(attention) => {
                let length = match named.output {
                    Shape::Sequence { length, .. } => wide(length),
                    _ => 1,
                };
                let scores = length * length * wide(attention.heads);
                let masks = if attention.dropout.p > 0.0 { 2 } else { 0 };
                let key_values = 2 * length * wide(attention.kv_heads * attention.head_width);
                sum(&[3 * output, key_values, (1 + masks) * scores])
            }
            Layer::FeedForward(layer) => {
                let length = match named.output {
                    Shape::Sequence { length, .. } => wide(length),
                    _ => 1,
                };
                let hidden = length.saturating_mul(wide(layer.up.output));
                let wide_parts = if layer.gate.is_some() { 4 } else { 2 };
                sum(&[output, hidden.saturating_mul(wide_parts)])
            }
            // Output and mask.
            Layer::Dropout(_) => output.saturating_mul(2),
            _ => output,
        };
        total.saturating_add(own)
    })
}

fn row(name: &str, kind: String, output: Shape, parameters: u64) -> LayerSummary {
    LayerSummary {
        name: name.to_owned(),
        kind,
        output: output.dims().into_iter().map(wide).collect(),
        parameters,
    }
}

/// Parameters that a simple layer owns.
fn used(layer: &Layer) -> Vec<ParameterId> {
    match layer {
        Layer::Columns(columns) => columns.embeddings.iter().map(|e| e.weight).collect(),
        Layer::Linear(linear) if linear.tied => linear.bias.into_iter().collect(),
        Layer::Linear(linear) => std::iter::once(linear.weight).chain(linear.bias).collect(),
        Layer::Conv2d(conv) => std::iter::once(conv.weight).chain(conv.bias).collect(),
        Layer::BatchNorm(norm) => vec![norm.gain, norm.bias],
        Layer::LayerNorm(norm) | Layer::RmsNorm(norm) => {
            std::iter::once(norm.gain).chain(norm.bias).collect()
        }
        Layer::Embedding(embedding) => vec![embedding.weight],
        Layer::PositionEmbedding(embedding) => vec![embedding.weight],
        _ => Vec::new(),
    }
}

/// Kind with sizes.
fn describe(layer: &Layer) -> String {
    let kind = layer.kind();
    match layer {
        Layer::Columns(columns) => format!(
            "{kind}({} numeric, {} embedded)",
            columns.numeric,
            columns.embeddings.len()
        ),
        Layer::Linear(linear) => {
            let tied = if linear.tied { ", tied" } else { "" };
            format!("{kind}({} -> {}{tied})", linear.input, linear.output)
        }
        Layer::Conv2d(conv) => {
            let stride = match conv.stride {
                1 => String::new(),
                stride => format!(", stride {stride}"),
            };
            let (input, output, kernel) = (conv.input, conv.output, conv.kernel);
            format!("{kind}({input} -> {output}, {kernel}x{kernel}{stride})")
        }
        Layer::Dropout(dropout) => format!("{kind}({})", dropout.p),
        Layer::MaxPool2d(pool) | Layer::AvgPool2d(pool) => {
            format!("{kind}({0}x{0}, stride {1})", pool.kernel, pool.stride)
        }
        Layer::Embedding(embedding) => {
            format!("{kind}({} x {})", embedding.vocabulary, embedding.width)
        }
        Layer::PositionEmbedding(embedding) => {
            format!("{kind}({} x {})", embedding.length, embedding.width)
        }
        _ => kind.to_owned(),
    }
}

fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// A text table of layers with a line for the total.
#[must_use]
pub fn layer_table(layers: &[LayerSummary]) -> String {
    let mut cells = vec![["layer", "kind", "output", "parameters"].map(str::to_owned)];
    for layer in layers {
        let output: Vec<String> = layer.output.iter().map(ToString::to_string).collect();
        let parameters = match layer.parameters {
            0 => String::new(),
            n => thousands(n),
        };
        let kind = layer.kind.clone();
        cells.push([layer.name.clone(), kind, output.join(" x "), parameters]);
    }
    let total = layers.iter().map(|layer| layer.parameters).sum();
    let total_row = [
        "total".to_owned(),
        String::new(),
        String::new(),
        thousands(total),
    ];
    cells.push(total_row);
    let mut widths = [0; 4];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let [a, b, c, d] = widths;
    let mut text = String::new();
    for [name, kind, output, parameters] in &cells {
        let line = format!("{name:<a$}  {kind:<b$}  {output:>c$}  {parameters:>d$}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Lines for a memory estimate.
#[must_use]
pub fn memory_table(estimate: &MemoryEstimate) -> String {
    let mut text = String::new();
    for (label, value) in [
        ("parameters", estimate.parameters),
        ("gradients", estimate.gradients),
        ("optimizer state", estimate.optimizer),
        ("activations of a shard", estimate.activations),
        ("total", estimate.total()),
    ] {
        let _ = writeln!(text, "{label:<22}  {:>10}", bytes(value));
    }
    text
}

/// A number with a comma every three digits.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the largest unit that leaves at least 1.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}
