//! Causal attention and rotary positions, as plain tensor operations.

use burn::tensor::{Bool, Device, Tensor, TensorData, activation};

/// What a masked score becomes: its exponential is 0, and it is finite in every float type.
const MASKED: f32 = -1e4;

/// softmax(q kᵀ / sqrt(width)) v, where a place does not see those after it.
///
/// `query` is `[n, heads, length, width]`; `key` and `value` may have fewer heads, each of which
/// serves `heads / kv_heads` query heads in a row (Ainslie et al. 2023). `drop` is applied to the
/// attention weights.
#[must_use]
pub fn causal_attention(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    drop: impl FnOnce(Tensor<4>) -> Tensor<4>,
) -> Tensor<4> {
    let [n, heads, length, width] = query.dims();
    let groups = heads / key.dims()[1];
    let (key, value) = (repeat(key, groups), repeat(value, groups));
    // The scale goes into the queries: they are smaller than the scores.
    let scores = (query * scale(width)).matmul(key.swap_dims(2, 3));
    let mask = causal_mask([n, heads, length], &scores.device());
    let weights = activation::softmax(scores.mask_fill(mask, MASKED), 3);
    drop(weights).matmul(value)
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
#[derive(Debug)]
pub struct Rotation {
    /// `[1, 1, length, width]`, the first half repeated.
    cosine: Tensor<4>,
    /// Likewise, negative in the first half.
    sine: Tensor<4>,
}

impl Rotation {
    /// For `length` positions from 0 and heads of an even `width`.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "positions are far below 2^53; the table is 32-bit as all tensors are"
    )]
    pub fn new(length: usize, width: usize, base: f64, device: &Device) -> Self {
        let half = width / 2;
        let mut cosine = Vec::with_capacity(length * width);
        let mut sine = Vec::with_capacity(length * width);
        for position in 0..length {
            for element in 0..width {
                let exponent = -2.0 * ((element % half) as f64) / width as f64;
                let angle = position as f64 * base.powf(exponent);
                let sign = if element < half { -1.0 } else { 1.0 };
                cosine.push(angle.cos() as f32);
                sine.push((sign * angle.sin()) as f32);
            }
        }
        let table = |values| {
            let data = TensorData::new(values, [1, 1, length, width]);
            Tensor::from_data(data, device)
        };
        Self {
            cosine: table(cosine),
            sine: table(sine),
        }
    }

    /// Turns `[n, heads, length, width]`.
    #[must_use]
    pub fn rotate(&self, x: Tensor<4>) -> Tensor<4> {
        let half = x.dims()[3] / 2;
        let first = x.clone().narrow(3, 0, half);
        let second = x.clone().narrow(3, half, half);
        let swapped = Tensor::cat(vec![second, first], 3);
        x * self.cosine.clone() + swapped * self.sine.clone()
    }
}
