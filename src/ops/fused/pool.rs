//! Pooling of images, and ReLU with and without a sum before it.

use std::sync::Arc;

use burn::backend::TensorMetadata;
use burn::tensor::{Shape, Tensor};
use rayon::prelude::*;

use super::operation::{Operation, Values, apply};
use super::{owned, tensor, values};
use crate::ops::pool::Window;
use crate::ops::vector::{sum, vectorized};

/// Numbers that one task of the thread pool takes.
const TASK: usize = 1 << 13;

/// As [`crate::ops::max_pool2d`], on the CPU.
pub(in crate::ops) fn max_pool2d(x: Tensor<4>, window: Window) -> Tensor<4> {
    apply(&MaxPool { window }, [x.into_dispatch()])
}

/// As [`crate::ops::mean_of_positions`], on the CPU.
pub(in crate::ops) fn mean_of_positions(x: Tensor<3>) -> Tensor<2> {
    apply(&MeanOfPositions, [x.into_dispatch()])
}

/// As [`crate::ops::relu`], on the CPU.
pub(in crate::ops) fn relu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    apply(&Relu, [x.into_dispatch()])
}

/// As [`crate::ops::add_relu`], on the CPU.
pub(in crate::ops) fn add_relu<const D: usize>(x: Tensor<D>, y: Tensor<D>) -> Tensor<D> {
    apply(&AddRelu, [x.into_dispatch(), y.into_dispatch()])
}

#[derive(Clone, Debug)]
struct MaxPool {
    window: Window,
}

/// Shape of the input, and where in its channel each output was found.
#[derive(Clone, Debug)]
struct Found {
    shape: Shape,
    places: Arc<Vec<u32>>,
}

impl MaxPool {
    /// Largest numbers of one channel, and where they are; the first of equal ones, a NaN before all.
    fn channel(&self, x: &[f32], width: usize, output: &mut [f32], places: &mut [u32]) {
        let height = x.len() / width;
        let columns = self.window.slide(width);
        for (index, (best, place)) in output.iter_mut().zip(places).enumerate() {
            let rows = self.window.covers(index / columns, height);
            let columns = self.window.covers(index % columns, width);
            *best = f32::NEG_INFINITY;
            for row in rows {
                for column in columns.clone() {
                    let at = row * width + column;
                    if x[at] > *best || x[at].is_nan() {
                        *best = x[at];
                        *place = u32::try_from(at).unwrap_or(u32::MAX);
                    }
                }
            }
        }
    }
}

impl Operation<1> for MaxPool {
    type Saved = Found;

    fn forward(&self, [x]: [Values; 1]) -> (Values, Found) {
        let shape = x.shape();
        let [n, channels, height, width] = shape.dims();
        let [rows, columns] = [height, width].map(|side| self.window.slide(side));
        let mut output = vec![0f32; n * channels * rows * columns];
        let mut places = vec![0u32; output.len()];
        values(&x, |x| {
            let all = output
                .par_chunks_mut(rows * columns)
                .zip(places.par_chunks_mut(rows * columns))
                .zip(x.par_chunks(height * width));
            all.with_min_len(16).for_each(|((output, places), x)| {
                self.channel(x, width, output, places);
            });
        });
        let found = Found {
            shape,
            places: Arc::new(places),
        };
        let shape = Shape::new([n, channels, rows, columns]);
        (tensor(output, shape), found)
    }

    fn backward(&self, found: Found, gradient: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        let [.., height, width] = found.shape.dims::<4>();
        let [.., rows, columns] = gradient.shape().dims::<4>();
        let mut for_x = vec![0f32; found.shape.num_elements()];
        values(&gradient, |gradient| {
            let all = for_x
                .par_chunks_mut(height * width)
                .zip(gradient.par_chunks(rows * columns))
                .zip(found.places.par_chunks(rows * columns));
            all.with_min_len(16)
                .for_each(|((for_x, gradient), places)| {
                    for (&place, gradient) in places.iter().zip(gradient) {
                        if let Some(sum) = for_x.get_mut(place as usize) {
                            *sum += gradient;
                        }
                    }
                });
        });
        [Some(tensor(for_x, found.shape))]
    }
}

/// `[n, channels, positions]` to `[n, channels]`.
#[derive(Clone, Debug)]
struct MeanOfPositions;

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "an image has far fewer than 2^24 positions"
)]
fn reciprocal(positions: usize) -> f32 {
    (1.0 / positions as f64) as f32
}

impl Operation<1> for MeanOfPositions {
    type Saved = Shape;

    fn forward(&self, [x]: [Values; 1]) -> (Values, Shape) {
        let shape = x.shape();
        let [n, channels, positions] = shape.dims();
        let share = reciprocal(positions);
        let mean = values(&x, |x| {
            let runs = x.chunks(positions.max(1));
            vectorized(
                #[inline(always)]
                || runs.map(|run| sum(run.len(), |i| run[i]) * share).collect(),
            )
        });
        (tensor(mean, Shape::new([n, channels])), shape)
    }

    fn backward(&self, shape: Shape, gradient: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        let [.., positions] = shape.dims::<3>();
        let share = reciprocal(positions);
        let mut for_x = vec![0f32; shape.num_elements()];
        values(&gradient, |gradient| {
            for (run, gradient) in for_x.chunks_mut(positions.max(1)).zip(gradient) {
                run.fill(gradient * share);
            }
        });
        [Some(tensor(for_x, shape))]
    }
}

/// 0 for negative numbers; unlike `max`, it leaves a NaN.
#[allow(clippy::inline_always, reason = "see `ops::vector`")]
#[inline(always)]
fn rectified(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// The gradient where the output is not 0.
fn through(output: &Values, gradient: Values) -> Values {
    let shape = output.shape();
    let mut for_x = owned(gradient);
    values(output, |output| {
        let tasks = for_x.par_chunks_mut(TASK).zip(output.par_chunks(TASK));
        tasks.for_each(|(g, y)| {
            vectorized(
                #[inline(always)]
                || {
                    for (g, &y) in g.iter_mut().zip(y) {
                        *g = if y > 0.0 { *g } else { 0.0 };
                    }
                },
            );
        });
    });
    tensor(for_x, shape)
}

#[derive(Clone, Debug)]
struct Relu;

impl Operation<1> for Relu {
    type Saved = Values;

    fn forward(&self, [x]: [Values; 1]) -> (Values, Values) {
        let shape = x.shape();
        let mut y = owned(x);
        y.par_chunks_mut(TASK).for_each(|y| {
            vectorized(
                #[inline(always)]
                || y.iter_mut().for_each(|y| *y = rectified(*y)),
            );
        });
        let y = tensor(y, shape);
        (y.clone(), y)
    }

    fn backward(&self, output: Values, gradient: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        [Some(through(&output, gradient))]
    }
}

#[derive(Clone, Debug)]
struct AddRelu;

impl Operation<2> for AddRelu {
    type Saved = Values;

    fn forward(&self, [x, y]: [Values; 2]) -> (Values, Values) {
        let shape = x.shape();
        let mut sums = owned(x);
        values(&y, |y| {
            let tasks = sums.par_chunks_mut(TASK).zip(y.par_chunks(TASK));
            tasks.for_each(|(sums, y)| {
                vectorized(
                    #[inline(always)]
                    || {
                        for (sum, y) in sums.iter_mut().zip(y) {
                            *sum = rectified(*sum + y);
                        }
                    },
                );
            });
        });
        let output = tensor(sums, shape);
        (output.clone(), output)
    }

    fn backward(&self, output: Values, gradient: Values, _: [bool; 2]) -> [Option<Values>; 2] {
        let gradient = through(&output, gradient);
        [Some(gradient.clone()), Some(gradient)]
    }
}
