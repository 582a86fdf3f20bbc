//! Pooling of images, ReLU, and ReLU of a sum.

use std::ops::Range;

use burn::tensor::module::{avg_pool2d as plain_avg_pool2d, max_pool2d as plain_max_pool2d};
use burn::tensor::ops::{AvgPoolOptions, MaxPoolOptions};
use burn::tensor::{Tensor, activation};

/// A square window that slides over an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its side.
    pub kernel: usize,
    /// How far it moves.
    pub stride: usize,
    /// How far it starts outside of the image, less than its side.
    pub padding: usize,
}

impl Window {
    /// Places of the window along a side of an image.
    pub(super) fn slide(self, side: usize) -> usize {
        (side + 2 * self.padding - self.kernel) / self.stride + 1
    }

    /// What place `index` covers of a side.
    pub(super) fn covers(self, index: usize, side: usize) -> Range<usize> {
        let first = index * self.stride;
        let end = (first + self.kernel).saturating_sub(self.padding);
        first.saturating_sub(self.padding)..end.min(side)
    }
}

/// Whether the operations of `fused` take this tensor.
fn fuses<const D: usize>(x: &Tensor<D>) -> bool {
    super::is_host(&x.device()) && super::fused::takes(x.dtype())
}

/// The largest number under each place of the window; `x` is `[n, channels, height, width]`.
#[must_use]
pub fn max_pool2d(x: Tensor<4>, window: Window) -> Tensor<4> {
    if fuses(&x) {
        return super::fused::max_pool2d(x, window);
    }
    plain_max_pool(x, window)
}

/// [`max_pool2d`] by burn's own operation, for every device.
pub(super) fn plain_max_pool(x: Tensor<4>, window: Window) -> Tensor<4> {
    let both = |n: usize| [n, n];
    let options = MaxPoolOptions::new(both(window.kernel))
        .with_stride(both(window.stride))
        .with_padding(both(window.padding));
    plain_max_pool2d(x, options)
}

/// The mean of what lies within the image under each place of the window; `x` is
/// `[n, channels, height, width]`.
#[must_use]
pub fn avg_pool2d(x: Tensor<4>, window: Window) -> Tensor<4> {
    let both = |n: usize| [n, n];
    let options = AvgPoolOptions::new(both(window.kernel))
        .with_stride(both(window.stride))
        .with_padding(both(window.padding))
        .with_count_include_pad(false);
    plain_avg_pool2d(x, options)
}

/// Mean over the positions of `[n, channels, positions]`.
#[must_use]
pub fn mean_of_positions(x: Tensor<3>) -> Tensor<2> {
    if fuses(&x) {
        return super::fused::mean_of_positions(x);
    }
    x.mean_dim(2).squeeze_dim(2)
}

/// 0 for negative numbers.
#[must_use]
pub fn relu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if fuses(&x) {
        return super::fused::relu(x);
    }
    activation::relu(x)
}

/// ReLU of the sum of two tensors of one shape.
#[must_use]
pub fn add_relu<const D: usize>(x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
    if fuses(&x) {
        return super::fused::add_relu(x, y);
    }
    activation::relu(x + y)
}
