//! Layer normalisation and root-mean-square normalisation of rows.
//!
//! A row is read once for its moments and once for its result, both from the cache. The gradients of
//! gain and bias are summed over groups of rows that depend on the sizes alone, then over the groups.

use std::sync::Arc;

use burn::backend::TensorMetadata;
use burn::tensor::{Shape, Tensor};
use rayon::prelude::*;

use super::operation::{Operation, Values, apply};
use super::{ROWS, add_up, tensor, values};
use crate::ops::norm::EPSILON;
use crate::ops::vector::{sum, vectorized};

/// As [`crate::ops::layer_norm`], on the CPU.
pub(in crate::ops) fn layer_norm(
    x: Tensor<2>,
    gain: Tensor<1>,
    bias: Option<Tensor<1>>,
) -> Tensor<2> {
    let operation = Normalize { centred: true };
    let (x, gain) = (x.into_dispatch(), gain.into_dispatch());
    match bias {
        Some(bias) => apply(&operation, [x, gain, bias.into_dispatch()]),
        None => apply(&operation, [x, gain]),
    }
}

/// As [`crate::ops::rms_norm`], on the CPU.
pub(in crate::ops) fn rms_norm(x: Tensor<2>, gain: Tensor<1>) -> Tensor<2> {
    let operation = Normalize { centred: false };
    apply(&operation, [x.into_dispatch(), gain.into_dispatch()])
}

#[derive(Clone, Copy, Debug)]
struct Normalize {
    /// Whether the mean is taken away.
    centred: bool,
}

/// What the backward pass needs: `x`, gain, and of each row what was taken away and what the rest was
/// multiplied by.
#[derive(Clone, Debug)]
struct Saved {
    x: Values,
    gain: Values,
    moments: Arc<Vec<[f32; 2]>>,
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a width is far below 2^24, and one f32 of it is meant"
)]
fn reciprocal(width: usize) -> f32 {
    (1.0 / width as f64) as f32
}

impl Normalize {
    #[expect(clippy::cast_possible_truncation, reason = "rows are in f32")]
    fn moments(self, row: &[f32]) -> [f32; 2] {
        let share = reciprocal(row.len());
        let mean = if self.centred {
            sum(row.len(), |i| row[i]) * share
        } else {
            0.0
        };
        let square = |i: usize| (row[i] - mean) * (row[i] - mean);
        let variance = sum(row.len(), square) * share;
        [mean, 1.0 / (variance + EPSILON as f32).sqrt()]
    }

    fn run(self, x: Values, gain: Values, bias: Option<&Values>) -> (Values, Saved) {
        let shape = x.shape();
        let [rows, width] = shape.dims();
        let mut y = vec![0f32; rows * width];
        let mut moments = vec![[0f32; 2]; rows];
        values(&x, |x| {
            values(&gain, |gain| match bias {
                Some(bias) => values(bias, |bias| {
                    self.rows(x, gain, Some(bias), &mut moments, &mut y);
                }),
                None => self.rows(x, gain, None, &mut moments, &mut y),
            });
        });
        let saved = Saved {
            x,
            gain,
            moments: Arc::new(moments),
        };
        (tensor(y, shape), saved)
    }

    fn rows(
        self,
        x: &[f32],
        gain: &[f32],
        bias: Option<&[f32]>,
        moments: &mut [[f32; 2]],
        y: &mut [f32],
    ) {
        let width = gain.len();
        let groups = y
            .par_chunks_mut(ROWS * width)
            .zip(x.par_chunks(ROWS * width))
            .zip(moments.par_chunks_mut(ROWS));
        groups.for_each(|((y, x), moments)| {
            vectorized(
                #[inline(always)]
                || {
                    let rows = y.chunks_mut(width).zip(x.chunks(width));
                    for ((y, x), moments) in rows.zip(moments) {
                        *moments = self.moments(x);
                        let [mean, scale] = *moments;
                        for ((y, &x), &gain) in y.iter_mut().zip(x).zip(gain) {
                            *y = (x - mean) * scale * gain;
                        }
                        if let Some(bias) = bias {
                            y.iter_mut().zip(bias).for_each(|(y, &bias)| *y += bias);
                        }
                    }
                },
            );
        });
    }

    /// Gradients of `x`, gain and bias.
    fn back(self, saved: &Saved, gradient: &Values) -> [Values; 3] {
        let shape = saved.x.shape();
        let [rows, width] = shape.dims();
        let mut for_x = vec![0f32; rows * width];
        let affine = values(&saved.x, |x| {
            values(&saved.gain, |gain| {
                values(gradient, |gradient| {
                    let groups = for_x
                        .par_chunks_mut(ROWS * width)
                        .zip(x.par_chunks(ROWS * width))
                        .zip(gradient.par_chunks(ROWS * width))
                        .zip(saved.moments.par_chunks(ROWS));
                    let partial: Vec<Vec<f32>> = groups
                        .map(|(((for_x, x), gradient), moments)| {
                            vectorized(
                                #[inline(always)]
                                || self.back_group(x, gain, gradient, moments, for_x),
                            )
                        })
                        .collect();
                    add_up(&partial, 2 * width)
                })
            })
        });
        let (for_gain, for_bias) = affine.split_at(width);
        let vector = |values: &[f32]| tensor(values.to_vec(), Shape::new([width]));
        [tensor(for_x, shape), vector(for_gain), vector(for_bias)]
    }

    /// Writes the gradient of some rows; returns what they add to those of gain and bias, one after
    /// the other.
    #[allow(clippy::inline_always, reason = "see `ops::vector`")]
    #[inline(always)]
    fn back_group(
        self,
        x: &[f32],
        gain: &[f32],
        gradient: &[f32],
        moments: &[[f32; 2]],
        for_x: &mut [f32],
    ) -> Vec<f32> {
        let width = gain.len();
        let share = reciprocal(width);
        let mut affine = vec![0f32; 2 * width];
        let (for_gain, for_bias) = affine.split_at_mut(width);
        let rows = x.chunks(width).zip(gradient.chunks(width));
        for (((x, g), &[mean, scale]), for_x) in rows.zip(moments).zip(for_x.chunks_mut(width)) {
            let (x, g, gain) = (&x[..width], &g[..width], &gain[..width]);
            let along = sum(width, |i| g[i] * gain[i] * (x[i] - mean)) * scale * share;
            let level = if self.centred {
                sum(width, |i| g[i] * gain[i]) * share
            } else {
                0.0
            };
            for i in 0..width {
                let normal = (x[i] - mean) * scale;
                for_x[i] = scale * (g[i] * gain[i] - level - normal * along);
                for_gain[i] += g[i] * normal;
                for_bias[i] += g[i];
            }
        }
        affine
    }
}

impl Operation<2> for Normalize {
    type Saved = Saved;

    fn forward(&self, [x, gain]: [Values; 2]) -> (Values, Saved) {
        self.run(x, gain, None)
    }

    fn backward(&self, saved: Saved, gradient: Values, _: [bool; 2]) -> [Option<Values>; 2] {
        let [for_x, for_gain, _] = self.back(&saved, &gradient);
        [Some(for_x), Some(for_gain)]
    }
}

impl Operation<3> for Normalize {
    type Saved = Saved;

    fn forward(&self, [x, gain, bias]: [Values; 3]) -> (Values, Saved) {
        self.run(x, gain, Some(&bias))
    }

    fn backward(&self, saved: Saved, gradient: Values, _: [bool; 3]) -> [Option<Values>; 3] {
        self.back(&saved, &gradient).map(Some)
    }
}
