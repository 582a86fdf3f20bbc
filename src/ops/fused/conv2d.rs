//! 2-D convolution without groups or dilation, as one matrix product per sample.
//!
//! The patches of a sample become the columns of a matrix ("im2col": Chellapilla, Puri and Simard,
//! 2006). It is small enough to stay in a core's cache, and it is made again in the backward pass
//! rather than kept. Samples are shared out among threads; the gradient of the weights is summed over
//! groups of samples that depend on the sizes alone, then over the groups in order.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Shape, Tensor};
use rayon::prelude::*;

use super::product::{Matrix, multiply};

/// Operations of this file, by backend.
#[backend_extension(Flex, Autodiff)]
pub(crate) trait ConvolutionOps: Backend {
    /// `x` is `[n, input, height, width]`, `weight` is `[output, input, kernel, kernel]`.
    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self>;
    /// Gradients of `x` and `weight`; that of `x` is left out (one zero) unless `with_x`.
    fn convolve_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
        gradient: FloatTensor<Self>,
        with_x: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// As [`crate::ops::conv2d`] without bias, on the CPU.
pub(in crate::ops) fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(Dispatch::convolve(x, weight, stride, padding))
}

/// Most floats of the partial gradients of the weights together.
const PARTIAL_MAX: usize = 1 << 24;

/// Most groups of samples with a partial gradient of the weights of their own.
const GROUPS_MAX: usize = 16;

/// Sizes of a convolution.
#[derive(Clone, Copy)]
struct Sizes {
    samples: usize,
    input: usize,
    height: usize,
    width: usize,
    output: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
}

impl Sizes {
    fn new(x: &Shape, weight: &Shape, stride: usize, padding: usize) -> Self {
        let [samples, input, height, width] = x.dims();
        let [output, _, kernel, _] = weight.dims();
        Self {
            samples,
            input,
            height,
            width,
            output,
            kernel,
            stride,
            padding,
        }
    }

    fn slide(self, side: usize) -> usize {
        (side + 2 * self.padding - self.kernel) / self.stride + 1
    }

    fn output_height(self) -> usize {
        self.slide(self.height)
    }

    fn output_width(self) -> usize {
        self.slide(self.width)
    }

    /// Positions of the output.
    fn positions(self) -> usize {
        self.output_height() * self.output_width()
    }

    /// Numbers of a patch.
    fn patch(self) -> usize {
        self.input * self.kernel * self.kernel
    }

    /// Numbers of a sample of the input.
    fn x_size(self) -> usize {
        self.input * self.height * self.width
    }

    /// Numbers of a sample of the output.
    fn y_size(self) -> usize {
        self.output * self.positions()
    }

    /// Whether a sample is its own matrix of patches.
    fn is_pointwise(self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.padding == 0
    }

    /// Samples of one group; the number of groups does not depend on threads.
    fn group(self) -> usize {
        let fitting = PARTIAL_MAX / (self.output * self.patch()).max(1);
        self.samples.div_ceil(fitting.clamp(1, GROUPS_MAX)).max(1)
    }

    /// Columns of the output, from and to, whose column `offset` of the patch is inside the input.
    fn inside(self, offset: usize) -> [usize; 2] {
        let first = self.padding.saturating_sub(offset).div_ceil(self.stride);
        let last = (self.width + self.padding).saturating_sub(offset);
        let last = last.div_ceil(self.stride).min(self.output_width());
        [first.min(last), last]
    }

    /// Visits each row of the patch matrix that lies in the input: place of its first number in the
    /// matrix, and the row of the input with the first column in it, none where it is padding.
    fn rows(self, mut visit: impl FnMut(usize, Option<usize>, [usize; 2])) {
        let (height, width) = (self.output_height(), self.output_width());
        let mut place = 0;
        for channel in 0..self.input {
            for row in 0..self.kernel {
                for column in 0..self.kernel {
                    let inside = self.inside(column);
                    for y in 0..height {
                        let source = (y * self.stride + row).checked_sub(self.padding);
                        let source = source.filter(|&y| y < self.height).map(|y| {
                            let first = inside[0] * self.stride + column - self.padding;
                            (channel * self.height + y) * self.width + first
                        });
                        visit(place, source, inside);
                        place += width;
                    }
                }
            }
        }
    }
}

/// Writes the patches of a sample as columns.
fn to_columns(x: &[f32], sizes: Sizes, columns: &mut [f32]) {
    let width = sizes.output_width();
    sizes.rows(|place, source, [first, last]| {
        let row = &mut columns[place..place + width];
        let (Some(source), true) = (source, first < last) else {
            return row.fill(0.0);
        };
        row[..first].fill(0.0);
        row[last..].fill(0.0);
        let row = &mut row[first..last];
        if sizes.stride == 1 {
            row.copy_from_slice(&x[source..source + row.len()]);
        } else {
            let values = x[source..].iter().step_by(sizes.stride);
            row.iter_mut()
                .zip(values)
                .for_each(|(to, &from)| *to = from);
        }
    });
}

/// Adds columns back to where their patches came from.
fn add_columns(columns: &[f32], sizes: Sizes, x: &mut [f32]) {
    let width = sizes.output_width();
    sizes.rows(|place, source, [first, last]| {
        let (Some(source), true) = (source, first < last) else {
            return;
        };
        let row = &columns[place..place + width][first..last];
        if sizes.stride == 1 {
            let values = &mut x[source..source + row.len()];
            values
                .iter_mut()
                .zip(row)
                .for_each(|(to, &from)| *to += from);
        } else {
            let values = x[source..].iter_mut().step_by(sizes.stride);
            values.zip(row).for_each(|(to, &from)| *to += from);
        }
    });
}

fn forward(x: &[f32], weight: &[f32], sizes: Sizes, y: &mut [f32]) {
    let weight = Matrix::new(weight, sizes.output, sizes.patch());
    let (patch, positions) = (sizes.patch(), sizes.positions());
    let samples = y
        .par_chunks_mut(sizes.y_size())
        .zip(x.par_chunks(sizes.x_size()));
    samples.for_each_init(Vec::new, |columns, (y, x)| {
        let columns = patches(x, sizes, columns);
        multiply(y, weight, Matrix::new(columns, patch, positions), false);
    });
}

/// The patch matrix of a sample, in `buffer` unless the sample is one itself.
fn patches<'a>(x: &'a [f32], sizes: Sizes, buffer: &'a mut Vec<f32>) -> &'a [f32] {
    if sizes.is_pointwise() {
        return x;
    }
    buffer.resize(sizes.patch() * sizes.positions(), 0.0);
    to_columns(x, sizes, buffer);
    buffer
}

/// Gradients of input (empty unless asked for) and weight.
fn backward(
    x: &[f32],
    weight: &[f32],
    gradient: &[f32],
    sizes: Sizes,
    with_x: bool,
) -> (Vec<f32>, Vec<f32>) {
    let group = sizes.group();
    let mut for_x = vec![0f32; if with_x { x.len() } else { 0 }];
    let inputs = x.par_chunks(group * sizes.x_size());
    let gradients = gradient.par_chunks(group * sizes.y_size());
    let partial: Vec<Vec<f32>> = if with_x {
        let outputs = for_x.par_chunks_mut(group * sizes.x_size());
        let all = inputs.zip(gradients).zip(outputs);
        all.map(|((x, gradient), for_x)| backward_group(x, weight, gradient, sizes, Some(for_x)))
            .collect()
    } else {
        let all = inputs.zip(gradients);
        all.map(|(x, gradient)| backward_group(x, weight, gradient, sizes, None))
            .collect()
    };
    let mut for_weight = vec![0f32; weight.len()];
    for part in partial {
        for_weight
            .iter_mut()
            .zip(part)
            .for_each(|(sum, value)| *sum += value);
    }
    (for_x, for_weight)
}

/// Backward pass of a few samples; returns their gradient of the weight.
fn backward_group(
    x: &[f32],
    weight: &[f32],
    gradient: &[f32],
    sizes: Sizes,
    mut for_x: Option<&mut [f32]>,
) -> Vec<f32> {
    let (patch, positions) = (sizes.patch(), sizes.positions());
    let mut for_weight = vec![0f32; weight.len()];
    let mut buffer = Vec::new();
    let mut back = vec![0f32; patch * positions];
    let weight = Matrix::new(weight, sizes.output, patch);
    let samples = x
        .chunks(sizes.x_size())
        .zip(gradient.chunks(sizes.y_size()));
    for (index, (x, gradient)) in samples.enumerate() {
        let gradient = Matrix::new(gradient, sizes.output, positions);
        let columns = Matrix::new(patches(x, sizes, &mut buffer), patch, positions);
        multiply(&mut for_weight, gradient, columns.transposed(), true);
        if let Some(for_x) = for_x.as_deref_mut() {
            let for_x = &mut for_x[index * sizes.x_size()..][..sizes.x_size()];
            if sizes.is_pointwise() {
                multiply(for_x, weight.transposed(), gradient, false);
            } else {
                multiply(&mut back, weight.transposed(), gradient, false);
                add_columns(&back, sizes, for_x);
            }
        }
    }
    for_weight
}

impl ConvolutionOps for Flex {
    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        let sizes = Sizes::new(&x.shape(), &weight.shape(), stride, padding);
        let y = super::values(&x, |x| {
            super::values(&weight, |weight| {
                let mut y = vec![0f32; sizes.samples * sizes.y_size()];
                forward(x, weight, sizes, &mut y);
                y
            })
        });
        let [height, width] = [sizes.output_height(), sizes.output_width()];
        super::tensor(y, Shape::new([sizes.samples, sizes.output, height, width]))
    }

    fn convolve_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
        gradient: FloatTensor<Self>,
        with_x: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (x_shape, weight_shape) = (x.shape(), weight.shape());
        let sizes = Sizes::new(&x_shape, &weight_shape, stride, padding);
        let (for_x, for_weight) = super::values(&x, |x| {
            super::values(&weight, |weight| {
                super::values(&gradient, |gradient| {
                    backward(x, weight, gradient, sizes, with_x)
                })
            })
        });
        let for_x = if with_x {
            super::tensor(for_x, x_shape)
        } else {
            super::tensor(vec![0.0], Shape::new([1]))
        };
        (for_x, super::tensor(for_weight, weight_shape))
    }
}

/// State of the backward pass: `x`, weight, stride, padding.
type Saved<B> = (FloatTensor<B>, FloatTensor<B>, usize, usize);

#[derive(Debug)]
struct ConvolveBackward;

impl<B: ConvolutionOps> Backward<B, 2> for ConvolveBackward {
    type State = Saved<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        gradients: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = gradients.consume::<B>(&ops.node);
        let (x, weight, stride, padding) = ops.state;
        let [x_node, weight_node] = ops.parents;
        let with_x = x_node.is_some();
        let (for_x, for_weight) =
            B::convolve_backward(x, weight, stride, padding, gradient, with_x);
        if let Some(node) = x_node {
            gradients.register::<B>(node.id, for_x);
        }
        if let Some(node) = weight_node {
            gradients.register::<B>(node.id, for_weight);
        }
    }
}

impl<B: ConvolutionOps, C: CheckpointStrategy> ConvolutionOps for Autodiff<B, C> {
    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        let output = B::convolve(x.clone(), weight.clone(), stride, padding);
        let operation = ConvolveBackward.prepare::<C>([x_node, weight_node]);
        match operation.compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish((x, weight, stride, padding), output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        }
    }

    /// Gradients of gradients are not offered: the values come back untracked.
    fn convolve_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
        gradient: FloatTensor<Self>,
        with_x: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (x, weight) = (x.into_primitive(), weight.into_primitive());
        let gradient = gradient.into_primitive();
        let (for_x, for_weight) =
            B::convolve_backward(x, weight, stride, padding, gradient, with_x);
        (
            FloatTensor::<Self>::new(for_x),
            FloatTensor::<Self>::new(for_weight),
        )
    }
}
