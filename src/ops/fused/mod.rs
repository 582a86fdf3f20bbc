//! Operations for the CPU that do in one pass over memory what the plain ones do in many.
//!
//! Each has a backward pass written by hand and a plain twin in [`super`] that other devices run and
//! the tests compare with. Sums are taken in an order that does not depend on threads.

mod batch_norm;
mod conv2d;
mod product;
#[cfg(test)]
mod tests;

pub(super) use batch_norm::batch_norm_train;
pub(super) use conv2d::conv2d;

use burn::backend::tensor::FloatTensor;
use burn::backend::{DType, Flex};
use burn::tensor::{Shape, TensorData};

/// Calls a function with the values of a 32-bit tensor, row-major; copies only what is not already
/// laid out so.
fn values<T>(tensor: &FloatTensor<Flex>, function: impl FnOnce(&[f32]) -> T) -> T {
    if let Some(values) = tensor.as_slice::<f32>() {
        return function(values);
    }
    let tensor = tensor.to_contiguous();
    function(tensor.as_slice::<f32>().unwrap_or_default())
}

/// A tensor that takes these values.
fn tensor(values: Vec<f32>, shape: Shape) -> FloatTensor<Flex> {
    FloatTensor::<Flex>::from_data(TensorData::new(values, shape))
}

/// Whether operations of this module can take a tensor of this type.
pub(super) fn takes(dtype: DType) -> bool {
    dtype == DType::F32
}
