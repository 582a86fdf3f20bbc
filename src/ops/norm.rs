//! Normalisation, as plain tensor operations. Every device can run them, and they are what the fused
//! ones are tested against.

use burn::tensor::{Tensor, activation};

/// Added to variances, as in PyTorch's normalisation layers.
pub const EPSILON: f64 = 1e-5;

/// Output of [`batch_norm_train`].
#[derive(Debug)]
pub struct BatchNormTrain {
    /// `[n, channels, positions]`.
    pub output: Tensor<3>,
    /// Mean of each channel, `[channels]`, without gradient.
    pub mean: Tensor<1>,
    /// Biased variance of each channel, `[channels]`, without gradient.
    pub variance: Tensor<1>,
}

/// Batch normalisation with the statistics of the batch itself (Ioffe and Szegedy 2015).
///
/// `x` is `[n, channels, positions]`, `gain` and `bias` are `[channels]`. With `relu`, negative
/// outputs become 0.
#[must_use]
pub fn batch_norm_train(
    x: Tensor<3>,
    gain: Tensor<1>,
    bias: Tensor<1>,
    relu: bool,
) -> BatchNormTrain {
    if super::is_host(&x.device()) && super::fused::takes(x.dtype()) {
        return super::fused::batch_norm_train(x, gain, bias, relu);
    }
    plain_batch_norm_train(x, gain, bias, relu)
}

/// [`batch_norm_train`] by burn's own operations, for every device.
pub(super) fn plain_batch_norm_train(
    x: Tensor<3>,
    gain: Tensor<1>,
    bias: Tensor<1>,
    relu: bool,
) -> BatchNormTrain {
    let result = burn::tensor::module::batch_norm_train(x, gain, bias, EPSILON);
    BatchNormTrain {
        output: rectified(result.output, relu),
        mean: result.mean.without_autodiff(),
        variance: result.variance.without_autodiff(),
    }
}

/// Batch normalisation with given statistics.
///
/// `x` is `[n, channels, positions]`, all else `[channels]`. With `relu`, negative outputs become 0.
#[must_use]
pub fn batch_norm_evaluate(
    x: Tensor<3>,
    gain: Tensor<1>,
    bias: Tensor<1>,
    mean: Tensor<1>,
    variance: Tensor<1>,
    relu: bool,
) -> Tensor<3> {
    let channels = gain.dims()[0];
    let scale = gain / (variance + EPSILON).sqrt();
    let shift = bias - mean * scale.clone();
    let y = x * scale.reshape([1, channels, 1]) + shift.reshape([1, channels, 1]);
    rectified(y, relu)
}

fn rectified(x: Tensor<3>, relu: bool) -> Tensor<3> {
    if relu { activation::relu(x) } else { x }
}

/// Layer normalisation over the last dimension (Ba et al. 2016). `x` is `[rows, width]`.
#[must_use]
pub fn layer_norm(x: Tensor<2>, gain: Tensor<1>, bias: Option<Tensor<1>>) -> Tensor<2> {
    if super::is_host(&x.device()) && super::fused::takes(x.dtype()) {
        return super::fused::layer_norm(x, gain, bias);
    }
    plain_layer_norm(x, gain, bias)
}

/// [`layer_norm`] by burn's own operations, for every device.
pub(super) fn plain_layer_norm(
    x: Tensor<2>,
    gain: Tensor<1>,
    bias: Option<Tensor<1>>,
) -> Tensor<2> {
    burn::tensor::module::layer_norm(x, gain, bias, EPSILON)
}

/// Root-mean-square normalisation over the last dimension (Zhang and Sennrich 2019). `x` is
/// `[rows, width]`.
#[must_use]
pub fn rms_norm(x: Tensor<2>, gain: Tensor<1>) -> Tensor<2> {
    if super::is_host(&x.device()) && super::fused::takes(x.dtype()) {
        return super::fused::rms_norm(x, gain);
    }
    plain_rms_norm(x, gain)
}

/// [`rms_norm`] by burn's own operations, for every device.
pub(super) fn plain_rms_norm(x: Tensor<2>, gain: Tensor<1>) -> Tensor<2> {
    let square = x.clone() * x.clone();
    let root = (square.mean_dim(1) + EPSILON).sqrt();
    x / root * gain.unsqueeze()
}
