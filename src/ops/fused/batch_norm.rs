//! Batch normalisation with the statistics of the batch, optionally followed by ReLU.
//!
//! Each channel is summed by one thread, in 64 bits.

use std::sync::Arc;

use burn::backend::TensorMetadata;
use burn::tensor::{Shape, Tensor};
use rayon::prelude::*;

use super::operation::{Operation, Values, apply, constant, detached};
use super::{tensor, values};
use crate::ops::norm::{BatchNormTrain, EPSILON};
use crate::ops::vector::vectorized;

/// Sums side by side within a run, so that the compiler can vectorise them.
const LANES: usize = 8;

/// As [`crate::ops::batch_norm_train`], on the CPU, with ReLU after it if `relu`.
pub(in crate::ops) fn batch_norm_train(
    x: Tensor<3>,
    gain: Tensor<1>,
    bias: Tensor<1>,
    relu: bool,
) -> BatchNormTrain {
    let plain = detached(x.clone());
    let sizes = Sizes::of(&plain.shape());
    let moments = Arc::new(values(&plain, |x| moments(x, sizes)));
    drop(plain);
    let (mean, variance) = moments.split_at(sizes.channels);
    let vector = |moments: &[f32]| constant(tensor(moments.to_vec(), Shape::new([sizes.channels])));
    let (mean, variance) = (vector(mean), vector(variance));
    let inputs = [
        x.into_dispatch(),
        gain.into_dispatch(),
        bias.into_dispatch(),
    ];
    BatchNormTrain {
        output: apply(&Normalize { moments, relu }, inputs),
        mean,
        variance,
    }
}

/// (x - mean) / sqrt(variance + epsilon) x gain + bias, then max(., 0) if `relu`. The gradient takes
/// `moments`, means and then biased variances, as those of `x`.
#[derive(Clone, Debug)]
struct Normalize {
    moments: Arc<Vec<f32>>,
    relu: bool,
}

impl Normalize {
    fn channels(&self, gain: &Values, bias: &Values) -> Vec<Channel> {
        values(gain, |gain| {
            values(bias, |bias| Channel::all(&self.moments, gain, bias))
        })
    }
}

impl Operation<3> for Normalize {
    /// `x`, gain, bias.
    type Saved = [Values; 3];

    fn forward(&self, [x, gain, bias]: [Values; 3]) -> (Values, Self::Saved) {
        let shape = x.shape();
        let sizes = Sizes::of(&shape);
        let channels = self.channels(&gain, &bias);
        let output = values(&x, |x| {
            let mut output = vec![0f32; x.len()];
            normalize(x, &channels, sizes, self.relu, &mut output);
            output
        });
        (tensor(output, shape), [x, gain, bias])
    }

    fn backward(
        &self,
        [x, gain, bias]: Self::Saved,
        gradient: Values,
        _: [bool; 3],
    ) -> [Option<Values>; 3] {
        let shape = x.shape();
        let sizes = Sizes::of(&shape);
        let channels = self.channels(&gain, &bias);
        let (for_x, sums) = values(&x, |x| {
            values(&gradient, |gradient| {
                let sums = gradient_sums(x, gradient, &channels, sizes, self.relu);
                let mut output = vec![0f32; x.len()];
                normalize_backward(x, gradient, &channels, &sums, sizes, self.relu, &mut output);
                (output, sums)
            })
        });
        let affine = |index: usize| {
            #[expect(clippy::cast_possible_truncation, reason = "gradients are 32-bit")]
            let column = sums.iter().map(|sum| sum[index] as f32).collect();
            Some(tensor(column, Shape::new([sizes.channels])))
        };
        [Some(tensor(for_x, shape)), affine(1), affine(0)]
    }
}

/// Sizes of `[n, channels, positions]` and the numbers of one channel.
#[derive(Clone, Copy)]
struct Sizes {
    channels: usize,
    positions: usize,
    samples: usize,
}

impl Sizes {
    fn of(shape: &Shape) -> Self {
        let [samples, channels, positions] = shape.dims();
        Self {
            channels,
            positions,
            samples,
        }
    }

    /// Numbers of one channel.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn count(self) -> f64 {
        (self.samples * self.positions) as f64
    }

    /// The runs of one channel.
    fn runs(self, values: &[f32], channel: usize) -> impl Iterator<Item = &[f32]> {
        let runs = values.chunks_exact(self.positions);
        runs.skip(channel).step_by(self.channels)
    }
}

/// What is done to the values of one channel.
#[derive(Clone, Copy)]
struct Channel {
    mean: f32,
    inverse_deviation: f64,
    scale: f32,
    bias: f32,
}

impl Channel {
    #[expect(clippy::cast_possible_truncation, reason = "one f32 of scale is meant")]
    fn new(mean: f32, variance: f32, gain: f32, bias: f32) -> Self {
        let inverse_deviation = 1.0 / (f64::from(variance) + EPSILON).sqrt();
        Self {
            mean,
            inverse_deviation,
            scale: (f64::from(gain) * inverse_deviation) as f32,
            bias,
        }
    }

    fn all(moments: &[f32], gain: &[f32], bias: &[f32]) -> Vec<Self> {
        let (means, variances) = moments.split_at(gain.len());
        let statistics = means.iter().zip(variances);
        let affine = gain.iter().zip(bias);
        statistics
            .zip(affine)
            .map(|((&mean, &variance), (&gain, &bias))| Self::new(mean, variance, gain, bias))
            .collect()
    }

    #[allow(clippy::inline_always, reason = "see `ops::vector`")]
    #[inline(always)]
    fn apply(self, x: f32) -> f32 {
        (x - self.mean) * self.scale + self.bias
    }
}

#[expect(clippy::cast_possible_truncation, reason = "statistics are 32-bit")]
fn moments(x: &[f32], sizes: Sizes) -> Vec<f32> {
    let both: Vec<[f32; 2]> = (0..sizes.channels)
        .into_par_iter()
        .map(|channel| {
            vectorized(
                #[inline(always)]
                || {
                    let runs = || sizes.runs(x, channel);
                    let sum: f64 = runs().map(|run| lanes(run, f64::from)).sum();
                    let mean = sum / sizes.count();
                    let square = |value: f32| {
                        let centred = f64::from(value) - mean;
                        centred * centred
                    };
                    let squares: f64 = runs().map(|run| lanes(run, square)).sum();
                    [mean as f32, (squares / sizes.count()) as f32]
                },
            )
        })
        .collect();
    let means = both.iter().map(|pair| pair[0]);
    means.chain(both.iter().map(|pair| pair[1])).collect()
}

/// Sum of a function over a run, in a fixed order.
#[allow(clippy::inline_always, reason = "see `ops::vector`")]
#[inline(always)]
fn lanes(run: &[f32], function: impl Fn(f32) -> f64) -> f64 {
    let mut sums = [0f64; LANES];
    let mut groups = run.chunks_exact(LANES);
    for group in &mut groups {
        for (sum, &value) in sums.iter_mut().zip(group) {
            *sum += function(value);
        }
    }
    let rest: f64 = groups
        .remainder()
        .iter()
        .map(|&value| function(value))
        .sum();
    sums.iter().sum::<f64>() + rest
}

/// As [`lanes`], over two runs.
#[allow(clippy::inline_always, reason = "see `ops::vector`")]
#[inline(always)]
fn lanes2(first: &[f32], second: &[f32], function: impl Fn(f32, f32) -> [f64; 2]) -> [f64; 2] {
    let mut sums = [[0f64; LANES]; 2];
    let mut left = first.chunks_exact(LANES);
    let mut right = second.chunks_exact(LANES);
    for (a, b) in (&mut left).zip(&mut right) {
        for (lane, (&a, &b)) in a.iter().zip(b).enumerate() {
            let [x, y] = function(a, b);
            sums[0][lane] += x;
            sums[1][lane] += y;
        }
    }
    let mut total = sums.map(|lanes| lanes.iter().sum::<f64>());
    for (&a, &b) in left.remainder().iter().zip(right.remainder()) {
        let [x, y] = function(a, b);
        total[0] += x;
        total[1] += y;
    }
    total
}

fn normalize(x: &[f32], channels: &[Channel], sizes: Sizes, relu: bool, output: &mut [f32]) {
    let sample = sizes.channels * sizes.positions;
    let pairs = output.par_chunks_mut(sample).zip(x.par_chunks(sample));
    pairs.for_each(|(output, x)| {
        vectorized(
            #[inline(always)]
            || {
                let runs = output
                    .chunks_mut(sizes.positions)
                    .zip(x.chunks(sizes.positions));
                for ((output, x), channel) in runs.zip(channels) {
                    for (y, &x) in output.iter_mut().zip(x) {
                        // Not `max`, which would make a number of a NaN.
                        let value = channel.apply(x);
                        *y = if relu && value < 0.0 { 0.0 } else { value };
                    }
                }
            },
        );
    });
}

/// Sums over each channel of the gradient behind the ReLU, alone and times the normalised values.
fn gradient_sums(
    x: &[f32],
    gradient: &[f32],
    channels: &[Channel],
    sizes: Sizes,
    relu: bool,
) -> Vec<[f64; 2]> {
    let each = channels.par_iter().enumerate();
    each.map(|(index, channel)| {
        vectorized(
            #[inline(always)]
            || {
                let pairs = sizes.runs(x, index).zip(sizes.runs(gradient, index));
                let mean = f64::from(channel.mean);
                let mut sums = [0f64; 2];
                for (x, gradient) in pairs {
                    let part = lanes2(x, gradient, |x, gradient| {
                        let open = !relu || channel.apply(x) > 0.0;
                        let gradient = if open { f64::from(gradient) } else { 0.0 };
                        [gradient, gradient * (f64::from(x) - mean)]
                    });
                    sums[0] += part[0];
                    sums[1] += part[1];
                }
                [sums[0], sums[1] * channel.inverse_deviation]
            },
        )
    })
    .collect()
}

#[expect(clippy::cast_possible_truncation, reason = "gradients are 32-bit")]
fn normalize_backward(
    x: &[f32],
    gradient: &[f32],
    channels: &[Channel],
    sums: &[[f64; 2]],
    sizes: Sizes,
    relu: bool,
    output: &mut [f32],
) {
    // gain / deviation x (g - mean(g) - normalised x mean(g x normalised)).
    let factors: Vec<[f32; 2]> = channels
        .iter()
        .zip(sums)
        .map(|(channel, [sum, product])| {
            let scale = f64::from(channel.scale) / sizes.count();
            let slope = -scale * product * channel.inverse_deviation;
            [slope as f32, (-scale * sum) as f32]
        })
        .collect();
    let sample = sizes.channels * sizes.positions;
    let inputs = x.par_chunks(sample).zip(gradient.par_chunks(sample));
    output
        .par_chunks_mut(sample)
        .zip(inputs)
        .for_each(|(output, (x, gradient))| {
            vectorized(
                #[inline(always)]
                || {
                    let inputs = x
                        .chunks(sizes.positions)
                        .zip(gradient.chunks(sizes.positions));
                    let runs = output.chunks_mut(sizes.positions).zip(inputs);
                    for ((output, (x, gradient)), (channel, [slope, shift])) in
                        runs.zip(channels.iter().zip(&factors))
                    {
                        for ((out, &x), &gradient) in output.iter_mut().zip(x).zip(gradient) {
                            let open = !relu || channel.apply(x) > 0.0;
                            let gradient = if open { gradient } else { 0.0 };
                            *out = gradient * channel.scale + ((x - channel.mean) * slope + shift);
                        }
                    }
                },
            );
        });
}
