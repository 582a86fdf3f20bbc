//! Errors of numbers. `output` is `[rows, 1]`.

use burn::tensor::{Tensor, TensorData};

use super::Losses;

/// Squared error d²; gradient 2 d.
pub(super) fn mse(output: Tensor<2>, wanted: &[f32]) -> Losses {
    let difference = difference(output, wanted);
    losses(difference.clone().square(), difference.mul_scalar(2.0))
}

/// Absolute error |d|; gradient the sign of d, 0 at 0.
pub(super) fn mae(output: Tensor<2>, wanted: &[f32]) -> Losses {
    let difference = difference(output, wanted);
    losses(difference.clone().abs(), difference.sign())
}

/// Huber loss with delta 1 (Huber 1964): d²/2 up to |d| = 1, |d| - 1/2 beyond; gradient d clamped
/// to [-1, 1]. With c the clamped d, both branches are c d - c²/2, exactly.
pub(super) fn huber(output: Tensor<2>, wanted: &[f32]) -> Losses {
    let difference = difference(output, wanted);
    let clamped = difference.clone().clamp(-1.0, 1.0);
    let values = clamped.clone() * (difference - clamped.clone().mul_scalar(0.5));
    losses(values, clamped)
}

fn difference(output: Tensor<2>, wanted: &[f32]) -> Tensor<2> {
    let shape = [wanted.len(), 1];
    let wanted = Tensor::from_data(TensorData::new(wanted.to_vec(), shape), &output.device());
    output - wanted
}

fn losses(values: Tensor<2>, gradient: Tensor<2>) -> Losses {
    let [rows, width] = values.dims();
    Losses {
        values: values.reshape([rows * width]),
        gradient,
        count: rows as u64,
    }
}
