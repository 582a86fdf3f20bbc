//! The global norm of a gradient, and how far it is scaled back.

use burn::tensor::Tensor;

use crate::ops;
use crate::run::Fault;

/// Root of the sum of squares of `vector` `[n]`, times `scale`. Not finite exactly when a value is
/// not (or when `scale` is not): values whose squares overflow are scaled down first.
///
/// # Errors
///
/// When the device fails.
pub(super) fn norm(vector: &Tensor<1>, scale: f64) -> Result<f64, Fault> {
    let squares = ops::squared_norm(vector)?;
    if squares.is_finite() {
        return Ok(squares.sqrt() * scale);
    }
    let largest = ops::download(vector.clone().max_abs())?;
    let largest = f64::from(largest.first().copied().unwrap_or(0.0));
    if !largest.is_finite() || largest == 0.0 {
        return Ok(f64::NAN);
    }
    let squares = ops::squared_norm(&vector.clone().div_scalar(largest))?;
    Ok(squares.sqrt() * largest * scale)
}

/// What a gradient of this norm is multiplied by, as in PyTorch's `clip_grad_norm_`. A `limit` of 0
/// does not clip.
pub(super) fn factor(norm: f64, limit: f64) -> f64 {
    if limit > 0.0 {
        (limit / (norm + 1e-6)).min(1.0)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    fn vector(values: &[f32]) -> Tensor<1> {
        Tensor::from_floats(values, &Device::flex())
    }

    #[test]
    fn large_values_are_no_fault_and_infinite_ones_are() {
        let found = norm(&vector(&[3e30, -4e30]), 0.5).unwrap();
        assert!((found / 2.5e30 - 1.0).abs() < 1e-6);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(!norm(&vector(&[1.0, bad, 2.0]), 1.0).unwrap().is_finite());
        }
        assert!(norm(&vector(&[0.0; 3]), 1.0).unwrap().abs() < 1e-30);
    }

    #[test]
    fn short_gradients_stay() {
        assert!((factor(0.5, 1.0) - 1.0).abs() < 1e-12);
        assert!((factor(50.0, 0.0) - 1.0).abs() < 1e-12);
        assert!((factor(4.0, 1.0) - 0.25).abs() < 1e-6);
    }
}
