//! Causal attention and rotary positions. The plain twins run on every device.

use std::sync::Arc;

use burn::tensor::{Bool, Device, Tensor, TensorData, activation};

use super::mask::dropout_mask;

/// What a masked score becomes: its exponential is 0, and it is finite in every float type.
const MASKED: f32 = -1e4;

/// How rows are cut into samples and heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Places of a sample: so many rows after one another.
    pub length: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of keys and values, each of which serves `heads / kv_heads` heads in a row (Ainslie et
    /// al. 2023).
    pub kv_heads: usize,
    /// Numbers of a head in a row.
    pub width: usize,
}

/// Dropout of attention weights, by the mask that [`super::dropout_mask`] gives for them as
/// `[n, heads, length, length]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightDropout {
    /// Seed of the mask.
    pub seed: u64,
    /// Its place.
    pub place: u64,
    /// Share that is dropped, above 0 and below 1.
    pub p: f64,
}

/// softmax(q kᵀ / sqrt(width)) v, where a place does not see those after it.
///
/// `query` and the result are `[n x length, heads x width]`, `key` and `value` are
/// `[n x length, kv_heads x width]`.
#[must_use]
pub fn causal_attention(
    query: Tensor<2>,
    key: Tensor<2>,
    value: Tensor<2>,
    heads: Heads,
    dropout: Option<WeightDropout>,
) -> Tensor<2> {
    if super::is_host(&query.device()) && super::fused::takes(query.dtype()) {
        return super::fused::causal_attention(query, key, value, heads, dropout);
    }
    plain_causal_attention(query, key, value, heads, dropout)
}

/// [`causal_attention`] by burn's own operations, for every device.
pub(super) fn plain_causal_attention(
    query: Tensor<2>,
    key: Tensor<2>,
    value: Tensor<2>,
    heads: Heads,
    dropout: Option<WeightDropout>,
) -> Tensor<2> {
    let Heads {
        length,
        heads: count,
        kv_heads,
        width,
    } = heads;
    let n = query.dims()[0] / length;
    let split = |x: Tensor<2>, heads: usize| -> Tensor<4> {
        x.reshape([n, length, heads, width]).swap_dims(1, 2)
    };
    let groups = count / kv_heads;
    let query = split(query, count);
    let key = repeat(split(key, kv_heads), groups);
    let value = repeat(split(value, kv_heads), groups);
    // The scale goes into the queries: they are smaller than the scores.
    let scores = (query * scale(width)).matmul(key.swap_dims(2, 3));
    let device = scores.device();
    let mask = causal_mask([n, count, length], &device);
    let mut weights = activation::softmax(scores.mask_fill(mask, MASKED), 3);
    if let Some(WeightDropout { seed, place, p }) = dropout {
        let device = device.without_autodiff();
        let shape = weights.dims();
        let mask = dropout_mask(seed, place, p, shape, &device).cast(weights.dtype());
        weights = weights * mask;
    }
    let context = weights.matmul(value).swap_dims(1, 2);
    context.reshape([n * length, count * width])
}

#[expect(clippy::cast_precision_loss, reason = "a head width is far below 2^53")]
fn scale(head_width: usize) -> f64 {
    1.0 / (head_width as f64).sqrt()
}

/// True above the diagonal.
fn causal_mask([n, heads, length]: [usize; 3], device: &Device) -> Tensor<4, Bool> {
    let values: Vec<bool> = (0..length)
        .flat_map(|row| (0..length).map(move |column| column > row))
        .collect();
    let mask = TensorData::new(values, [1, 1, length, length]);
    let mask = Tensor::<4, Bool>::from_data(mask, device);
    mask.expand([n, heads, length, length])
}

/// Each head `groups` times in a row.
fn repeat(x: Tensor<4>, groups: usize) -> Tensor<4> {
    if groups == 1 {
        return x;
    }
    let [n, heads, length, width] = x.dims();
    let x: Tensor<5> = x.unsqueeze_dim(2);
    x.expand([n, heads, groups, length, width])
        .reshape([n, heads * groups, length, width])
}

/// Rotary positions (Su et al. 2021): element i of a head turns with element i + width / 2 by
/// position x base^(-2 i / width), as in Llama.
#[derive(Clone, Debug)]
pub struct Rotation {
    width: usize,
    /// `[length, width / 2]`.
    cosine: Arc<Vec<f32>>,
    /// Likewise.
    sine: Arc<Vec<f32>>,
}

impl Rotation {
    /// For `length` positions from 0 and heads of an even `width`.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "positions are far below 2^53; the table is 32-bit as all tensors are"
    )]
    pub fn new(length: usize, width: usize, base: f64) -> Self {
        let half = width / 2;
        let speeds = (0..half).map(|element| base.powf(-2.0 * element as f64 / width as f64));
        let speeds: Vec<f64> = speeds.collect();
        let table = |function: fn(f64) -> f64| {
            let angles = (0..length).flat_map(|place| speeds.iter().map(move |s| place as f64 * s));
            Arc::new(angles.map(|angle| function(angle) as f32).collect())
        };
        Self {
            width,
            cosine: table(f64::cos),
            sine: table(f64::sin),
        }
    }

    /// Turns the heads of `[n x length, heads x width]`.
    #[must_use]
    pub fn rotate(&self, x: Tensor<2>) -> Tensor<2> {
        if super::is_host(&x.device()) && super::fused::takes(x.dtype()) {
            let (cosine, sine) = (self.cosine.clone(), self.sine.clone());
            return super::fused::rotate(x, self.width, cosine, sine);
        }
        self.plain_rotate(x)
    }

    /// [`Rotation::rotate`] by burn's own operations, for every device.
    pub(super) fn plain_rotate(&self, x: Tensor<2>) -> Tensor<2> {
        let half = self.width / 2;
        let length = self.cosine.len() / half;
        let [rows, row] = x.dims();
        let (device, dtype) = (x.device().without_autodiff(), x.dtype());
        let table = |values: &[f32]| -> Tensor<4> {
            let data = TensorData::new(values.to_vec(), [1, length, 1, half]);
            let table: Tensor<4> = Tensor::from_data(data, &device);
            table.cast(dtype)
        };
        let (cosine, sine) = (table(&self.cosine), table(&self.sine));
        let x: Tensor<4> = x.reshape([rows / length, length, row / self.width, self.width]);
        let first = x.clone().narrow(3, 0, half);
        let second = x.narrow(3, half, half);
        let turned = Tensor::cat(
            vec![
                first.clone() * cosine.clone() - second.clone() * sine.clone(),
                second * cosine + first * sine,
            ],
            3,
        );
        turned.reshape([rows, row])
    }
}
