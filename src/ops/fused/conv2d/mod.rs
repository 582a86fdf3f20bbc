//! 2-D convolution without groups or dilation.
//!
//! With stride 1 the kernel slides over the image itself ([`direct`]). Otherwise a convolution is one
//! matrix product per sample: the patches of a sample become the columns of a matrix ("im2col":
//! Chellapilla, Puri and Simard, 2006). It is small enough to stay in a core's cache, and it is made
//! again in the backward pass rather than kept.
//!
//! Samples are shared out among threads; the gradient of the weights is summed over groups of samples
//! that depend on the sizes alone, then over the groups in order.

mod direct;

use burn::backend::TensorMetadata;
use burn::tensor::{Shape, Tensor};
use rayon::prelude::*;

use direct::{Scratch, Slide};

use super::operation::{Operation, Values, apply};
use super::product::{Matrix, multiply};
use super::{tensor, values};

/// As [`crate::ops::conv2d`] without bias, on the CPU.
pub(in crate::ops) fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    let inputs = [x.into_dispatch(), weight.into_dispatch()];
    apply(&Convolve { stride, padding }, inputs)
}

/// `x` is `[n, input, height, width]`, weight is `[output, input, kernel, kernel]`.
#[derive(Clone, Debug)]
struct Convolve {
    stride: usize,
    padding: usize,
}

impl Operation<2> for Convolve {
    type Saved = [Values; 2];

    fn forward(&self, [x, weight]: [Values; 2]) -> (Values, Self::Saved) {
        let sizes = Sizes::new(&x.shape(), &weight.shape(), self.stride, self.padding);
        let y = values(&x, |x| {
            values(&weight, |weight| {
                let mut y = vec![0f32; sizes.samples * sizes.y_size()];
                forward(x, weight, sizes, &mut y);
                y
            })
        });
        let [height, width] = [sizes.output_height(), sizes.output_width()];
        let shape = Shape::new([sizes.samples, sizes.output, height, width]);
        (tensor(y, shape), [x, weight])
    }

    fn backward(
        &self,
        [x, weight]: Self::Saved,
        gradient: Values,
        [with_x, _]: [bool; 2],
    ) -> [Option<Values>; 2] {
        let (x_shape, weight_shape) = (x.shape(), weight.shape());
        let sizes = Sizes::new(&x_shape, &weight_shape, self.stride, self.padding);
        let (for_x, for_weight) = values(&x, |x| {
            values(&weight, |weight| {
                values(&gradient, |gradient| {
                    backward(x, weight, gradient, sizes, with_x)
                })
            })
        });
        let for_x = with_x.then(|| tensor(for_x, x_shape));
        [for_x, Some(tensor(for_weight, weight_shape))]
    }
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

    /// How the kernel slides over the image itself, where it can.
    fn slide_directly(self) -> Option<Slide> {
        let fits = self.stride == 1 && self.kernel > 1 && self.padding < self.kernel;
        fits.then_some(Slide {
            input: self.input,
            output: self.output,
            height: self.height,
            width: self.width,
            kernel: self.kernel,
            padding: self.padding,
        })
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
    let samples = y
        .par_chunks_mut(sizes.y_size())
        .zip(x.par_chunks(sizes.x_size()));
    if let Some(slide) = sizes.slide_directly() {
        let weights = direct::pack(slide, weight);
        return samples.for_each_init(Scratch::default, |scratch, (y, x)| {
            direct::correlate(slide, &weights, x, y, scratch);
        });
    }
    let weight = Matrix::new(weight, sizes.output, sizes.patch());
    let (patch, positions) = (sizes.patch(), sizes.positions());
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
    if let Some(slide) = sizes.slide_directly() {
        return slide_back(x, weight, gradient, slide, for_x);
    }
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

/// As [`backward_group`], from the image itself.
fn slide_back(
    x: &[f32],
    weight: &[f32],
    gradient: &[f32],
    slide: Slide,
    for_x: Option<&mut [f32]>,
) -> Vec<f32> {
    let mut for_weight = vec![0f32; weight.len()];
    direct::weight_gradient(slide, x, gradient, &mut for_weight);
    if let Some(for_x) = for_x {
        let x_size = slide.input * slide.height * slide.width;
        let y_size = slide.output * slide.output_height() * slide.output_width();
        let back = slide.back();
        let weights = direct::pack_back(back, weight);
        let mut scratch = Scratch::default();
        for (for_x, gradient) in for_x.chunks_mut(x_size).zip(gradient.chunks(y_size)) {
            direct::correlate(back, &weights, gradient, for_x, &mut scratch);
        }
    }
    for_weight
}
