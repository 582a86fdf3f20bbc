//! Operations for the CPU that do in one pass over memory what the plain ones do in many.
//!
//! Each has a backward pass written by hand and a plain twin in [`super`] that other devices run and
//! the tests compare with. Sums are taken in an order that does not depend on threads.

mod activation;
mod attention;
mod batch_norm;
mod conv2d;
mod embedding;
mod given;
mod linear;
mod norm;
mod operation;
mod pool;
mod product;
mod rotation;
#[cfg(test)]
mod tests;

pub(super) use activation::{bias_gelu, gelu, swiglu};
pub(super) use attention::causal_attention;
pub(super) use batch_norm::batch_norm_train;
pub(super) use conv2d::conv2d;
pub(super) use embedding::embedding;
pub(super) use given::with_gradient;
pub(super) use linear::linear;
pub(super) use norm::{layer_norm, rms_norm};
pub(super) use pool::{add_relu, max_pool2d, mean_of_positions, relu};
pub(super) use rotation::rotate;

use burn::backend::DType;
use burn::tensor::{Shape, Tensor, TensorData};
use rayon::prelude::*;

use crate::ops::vector::vectorized;
use operation::Values;

/// Rows that one task of the thread pool takes; sums over rows are taken within such groups first.
/// Part of every result: changing it changes bits.
const ROWS: usize = 32;

/// Calls a function with the values of a 32-bit tensor, row-major; copies only what is not already
/// laid out so.
fn values<T>(tensor: &Values, function: impl FnOnce(&[f32]) -> T) -> T {
    if let Some(values) = tensor.as_slice::<f32>() {
        return function(values);
    }
    let tensor = tensor.to_contiguous();
    function(tensor.as_slice::<f32>().unwrap_or_default())
}

/// Calls a function with the values of a 32-bit tensor on the CPU.
pub(super) fn read<const D: usize, T>(tensor: Tensor<D>, function: impl FnOnce(&[f32]) -> T) -> T {
    values(&operation::detached(tensor), function)
}

/// The values of a tensor, row-major; without a copy where nobody else has them.
fn owned(tensor: Values) -> Vec<f32> {
    let tensor = if tensor.as_slice::<f32>().is_some() {
        tensor
    } else {
        tensor.to_contiguous()
    };
    tensor.into_data().try_into_vec().unwrap_or_default()
}

/// A tensor that takes these values.
fn tensor(values: Vec<f32>, shape: Shape) -> Values {
    Values::from_data(TensorData::new(values, shape))
}

/// Whether operations of this module can take a tensor of this type.
pub(super) fn takes(dtype: DType) -> bool {
    dtype == DType::F32
}

/// Sums of `width` numbers each, added one after another.
fn add_up(parts: &[Vec<f32>], width: usize) -> Vec<f32> {
    let mut sums = vec![0f32; width];
    for part in parts {
        sums.iter_mut()
            .zip(part)
            .for_each(|(sum, part)| *sum += part);
    }
    sums
}

/// Sum of each column of a row-major matrix with rows of `width` numbers.
fn column_sums(matrix: &[f32], width: usize) -> Vec<f32> {
    let groups = matrix.par_chunks(ROWS * width.max(1));
    let partial: Vec<Vec<f32>> = groups
        .map(|group| {
            vectorized(
                #[inline(always)]
                || {
                    let mut sums = vec![0f32; width];
                    for row in group.chunks(width) {
                        sums.iter_mut()
                            .zip(row)
                            .for_each(|(sum, value)| *sum += value);
                    }
                    sums
                },
            )
        })
        .collect();
    add_up(&partial, width)
}
