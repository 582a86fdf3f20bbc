//! Batch normalisation with the statistics of the batch, optionally followed by ReLU.
//!
//! Each channel is summed by one thread, in 64 bits.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Shape, Tensor};
use rayon::prelude::*;

use crate::ops::norm::{BatchNormTrain, EPSILON};

/// Sums side by side within a run, so that the compiler can vectorise them.
const LANES: usize = 8;

/// Operations of this file, by backend.
#[backend_extension(Flex, Autodiff)]
pub(crate) trait BatchNormOps: Backend {
    /// Mean and biased variance of each channel, `[2, channels]`. No gradient.
    fn channel_moments(x: FloatTensor<Self>) -> FloatTensor<Self>;
    /// (x - mean) / sqrt(variance + epsilon) x gain + bias, then max(., 0) if `relu`. The gradient
    /// takes `moments` as those of `x`.
    fn normalize_channels(
        x: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        moments: FloatTensor<Self>,
        relu: bool,
    ) -> FloatTensor<Self>;
    /// Gradients of `x`, then of gain and bias (`[2, channels]`), for the gradient of the output.
    fn normalize_channels_backward(
        x: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        moments: FloatTensor<Self>,
        relu: bool,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// As [`crate::ops::batch_norm_train`], on the CPU, with ReLU after it if `relu`.
pub(in crate::ops) fn batch_norm_train(
    x: Tensor<3>,
    gain: Tensor<1>,
    bias: Tensor<1>,
    relu: bool,
) -> BatchNormTrain {
    let channels = x.dims()[1];
    let values = x.clone().without_autodiff().into_dispatch();
    let moments: Tensor<2> = Tensor::from_dispatch(Dispatch::channel_moments(values));
    let output = Dispatch::normalize_channels(
        x.into_dispatch(),
        gain.into_dispatch(),
        bias.into_dispatch(),
        moments.clone().into_dispatch(),
        relu,
    );
    let moment = |index: usize| moments.clone().narrow(0, index, 1).reshape([channels]);
    BatchNormTrain {
        output: Tensor::from_dispatch(output),
        mean: moment(0),
        variance: moment(1),
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

    #[inline]
    fn apply(self, x: f32) -> f32 {
        (x - self.mean) * self.scale + self.bias
    }
}

#[expect(clippy::cast_possible_truncation, reason = "statistics are 32-bit")]
fn moments(x: &[f32], sizes: Sizes) -> Vec<f32> {
    let both: Vec<[f32; 2]> = (0..sizes.channels)
        .into_par_iter()
        .map(|channel| {
            let sum: f64 = sizes
                .runs(x, channel)
                .map(|run| lanes(run, f64::from))
                .sum();
            let mean = sum / sizes.count();
            let square = |value: f32| {
                let centred = f64::from(value) - mean;
                centred * centred
            };
            let squares: f64 = sizes.runs(x, channel).map(|run| lanes(run, square)).sum();
            [mean as f32, (squares / sizes.count()) as f32]
        })
        .collect();
    let means = both.iter().map(|pair| pair[0]);
    means.chain(both.iter().map(|pair| pair[1])).collect()
}

/// Sum of a function over a run, in a fixed order.
#[inline]
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
#[inline]
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
        let runs = output
            .chunks_mut(sizes.positions)
            .zip(x.chunks(sizes.positions));
        for ((output, x), channel) in runs.zip(channels) {
            if relu {
                for (y, &x) in output.iter_mut().zip(x) {
                    *y = channel.apply(x).max(0.0);
                }
            } else {
                for (y, &x) in output.iter_mut().zip(x) {
                    *y = channel.apply(x);
                }
            }
        }
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
        });
}

impl BatchNormOps for Flex {
    fn channel_moments(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let sizes = Sizes::of(&x.shape());
        let values = super::values(&x, |x| moments(x, sizes));
        super::tensor(values, Shape::new([2, sizes.channels]))
    }

    fn normalize_channels(
        x: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        moments: FloatTensor<Self>,
        relu: bool,
    ) -> FloatTensor<Self> {
        let shape = x.shape();
        let sizes = Sizes::of(&shape);
        let channels = channels(&gain, &bias, &moments);
        let values = super::values(&x, |x| {
            let mut output = vec![0f32; x.len()];
            normalize(x, &channels, sizes, relu, &mut output);
            output
        });
        super::tensor(values, shape)
    }

    fn normalize_channels_backward(
        x: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        moments: FloatTensor<Self>,
        relu: bool,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let shape = x.shape();
        let sizes = Sizes::of(&shape);
        let channels = channels(&gain, &bias, &moments);
        let (values, sums) = super::values(&x, |x| {
            super::values(&gradient, |gradient| {
                let sums = gradient_sums(x, gradient, &channels, sizes, relu);
                let mut output = vec![0f32; x.len()];
                normalize_backward(x, gradient, &channels, &sums, sizes, relu, &mut output);
                (output, sums)
            })
        });
        #[expect(clippy::cast_possible_truncation, reason = "gradients are 32-bit")]
        let column = |index: usize| sums.iter().map(move |sum| sum[index] as f32);
        let affine = column(1).chain(column(0)).collect();
        let affine = super::tensor(affine, Shape::new([2, sizes.channels]));
        (super::tensor(values, shape), affine)
    }
}

fn channels(
    gain: &FloatTensor<Flex>,
    bias: &FloatTensor<Flex>,
    moments: &FloatTensor<Flex>,
) -> Vec<Channel> {
    super::values(gain, |gain| {
        super::values(bias, |bias| {
            super::values(moments, |moments| Channel::all(moments, gain, bias))
        })
    })
}

/// State of the backward pass: `x`, gain, bias, moments, whether ReLU follows.
type Saved<B> = (
    FloatTensor<B>,
    FloatTensor<B>,
    FloatTensor<B>,
    FloatTensor<B>,
    bool,
);

#[derive(Debug)]
struct NormalizeBackward;

impl<B: BatchNormOps> Backward<B, 3> for NormalizeBackward {
    type State = Saved<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        gradients: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = gradients.consume::<B>(&ops.node);
        let (x, gain, bias, moments, relu) = ops.state;
        let shape = gain.shape();
        let (for_x, affine) =
            B::normalize_channels_backward(x, gain, bias, moments, relu, gradient);
        let [x, gain, bias] = ops.parents;
        if let Some(node) = x {
            gradients.register::<B>(node.id, for_x);
        }
        for (index, node) in [gain, bias].into_iter().enumerate() {
            if let Some(node) = node {
                let row = burn::tensor::Slice::from(index..index + 1);
                let row = B::float_slice(affine.clone(), &[row]);
                gradients.register::<B>(node.id, B::float_reshape(row, shape.clone()));
            }
        }
    }
}

impl<B: BatchNormOps, C: CheckpointStrategy> BatchNormOps for Autodiff<B, C> {
    fn channel_moments(x: FloatTensor<Self>) -> FloatTensor<Self> {
        FloatTensor::<Self>::new(B::channel_moments(x.into_primitive()))
    }

    fn normalize_channels(
        x: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        moments: FloatTensor<Self>,
        relu: bool,
    ) -> FloatTensor<Self> {
        let moments = moments.into_primitive();
        let ((x, x_node), (gain, gain_node)) = (x.into_parts(), gain.into_parts());
        let (bias, bias_node) = bias.into_parts();
        let run = |state: &Saved<B>| {
            let (x, gain, bias, moments, relu) = state.clone();
            B::normalize_channels(x, gain, bias, moments, relu)
        };
        let state = (x, gain, bias, moments, relu);
        let nodes = [x_node, gain_node, bias_node];
        match NormalizeBackward
            .prepare::<C>(nodes)
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prepared) => {
                let output = run(&state);
                prepared.finish(state, output)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(run(&state)),
        }
    }

    /// Gradients of gradients are not offered: the values come back untracked.
    fn normalize_channels_backward(
        x: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        moments: FloatTensor<Self>,
        relu: bool,
        gradient: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (first, second) = B::normalize_channels_backward(
            x.into_primitive(),
            gain.into_primitive(),
            bias.into_primitive(),
            moments.into_primitive(),
            relu,
            gradient.into_primitive(),
        );
        (
            FloatTensor::<Self>::new(first),
            FloatTensor::<Self>::new(second),
        )
    }
}
