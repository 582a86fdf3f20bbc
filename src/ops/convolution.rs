//! 2-D convolution.

use burn::tensor::Tensor;
use burn::tensor::ops::ConvOptions;

/// Convolution of `x`, `[n, input, height, width]`, with square kernels `weight`, `[output, input,
/// kernel, kernel]`; `bias` is `[output]`.
#[must_use]
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    if !super::is_host(&x.device()) || !super::fused::takes(x.dtype()) {
        return plain_conv2d(x, weight, bias, stride, padding);
    }
    let y = super::fused::conv2d(x, weight, stride, padding);
    match bias {
        Some(bias) => {
            let channels = bias.dims()[0];
            y + bias.reshape([1, channels, 1, 1])
        }
        None => y,
    }
}

/// [`conv2d`] by burn's own operation, for every device.
pub(super) fn plain_conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    let both = |n: usize| [n, n];
    let options = ConvOptions::new(both(stride), both(padding), [1, 1], 1);
    burn::tensor::module::conv2d(x, weight, bias, options)
}
