//! Convolution with stride 1 straight from the image, without a matrix of patches.
//!
//! A channel is laid out with its padding, rows after one another. Then what a number of the kernel meets
//! at all places of the output is one run of the channel, shifted: row ends only add a few places whose
//! results are thrown away. Tiles of [`ROWS`] output channels by a few vectors of places stay in
//! registers while all input channels and kernel places pass by. The gradient of the input is the same
//! operation with the kernel turned around; that of the weights sums over places instead.

#![allow(clippy::inline_always, reason = "see `ops::vector`")]

use bytemuck::{cast_slice, pod_read_unaligned};
use pulp::{Simd, WithSimd};

/// Output channels of a tile.
const ROWS: usize = 4;

/// Vectors of places of a tile: with four rows that makes twelve sums, which fit the registers of every
/// processor with vectors of 256 bits.
const VECTORS: usize = 3;

/// Numbers by which a buffer is longer than what counts in it, so that the last tile may read on.
const SLACK: usize = 64;

/// Numbers of a processor's cache that a chunk of samples may take.
const CHUNK: usize = 1 << 16;

/// One plane or several with padding, and how a kernel slides over it.
#[derive(Clone, Copy)]
pub(super) struct Slide {
    /// Channels that are read.
    pub(super) input: usize,
    /// Channels that are written.
    pub(super) output: usize,
    /// Side of a channel without padding, rows and columns.
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) kernel: usize,
    pub(super) padding: usize,
}

impl Slide {
    /// The slide whose output is the gradient of this one's input.
    pub(super) fn back(self) -> Self {
        Self {
            input: self.output,
            output: self.input,
            height: self.output_height(),
            width: self.output_width(),
            kernel: self.kernel,
            padding: self.kernel - 1 - self.padding,
        }
    }

    fn row(self) -> usize {
        self.width + 2 * self.padding
    }

    fn plane(self) -> usize {
        self.row() * (self.height + 2 * self.padding)
    }

    pub(super) fn output_height(self) -> usize {
        self.height + 2 * self.padding + 1 - self.kernel
    }

    pub(super) fn output_width(self) -> usize {
        self.row() + 1 - self.kernel
    }

    /// Places of the output with those between its rows.
    fn places(self) -> usize {
        self.output_height() * self.row()
    }

    /// Numbers of a padded sample.
    fn padded(self) -> usize {
        self.input * self.plane() + self.kernel + SLACK
    }

    /// Distance of two output channels in scratch memory.
    fn stride(self) -> usize {
        self.places().next_multiple_of(SLACK)
    }

    /// Copies a sample into zeros, with its padding around each channel.
    fn pad(self, sample: &[f32], padded: &mut [f32]) {
        let planes = padded.chunks_mut(self.plane().max(1));
        let channels = sample.chunks(self.height * self.width);
        for (plane, channel) in planes.zip(channels) {
            let rows = plane.chunks_mut(self.row()).skip(self.padding);
            for (to, from) in rows.zip(channel.chunks(self.width)) {
                to[self.padding..self.padding + self.width].copy_from_slice(from);
            }
        }
    }

    /// Where each (channel, kernel row, kernel column) begins in a padded sample, in this order.
    fn offsets(self) -> Vec<usize> {
        let mut offsets = Vec::with_capacity(self.input * self.kernel * self.kernel);
        for channel in 0..self.input {
            for row in 0..self.kernel {
                for column in 0..self.kernel {
                    offsets.push(channel * self.plane() + row * self.row() + column);
                }
            }
        }
        offsets
    }
}

/// Weights in the order in which tiles read them: [`ROWS`] output channels side by side.
pub(super) struct Packed(Vec<[f32; ROWS]>);

/// Weights `[output, input, kernel, kernel]` for a slide forwards.
pub(super) fn pack(slide: Slide, weight: &[f32]) -> Packed {
    let patch = slide.input * slide.kernel * slide.kernel;
    pack_by(slide, |output, place| weight[output * patch + place])
}

/// The same weights for the slide back: channels exchanged, the kernel turned around. `slide` is the one
/// back.
pub(super) fn pack_back(slide: Slide, weight: &[f32]) -> Packed {
    let area = slide.kernel * slide.kernel;
    pack_by(slide, |output, place| {
        let (input, place) = (place / area, place % area);
        weight[(input * slide.output + output) * area + area - 1 - place]
    })
}

fn pack_by(slide: Slide, weight: impl Fn(usize, usize) -> f32) -> Packed {
    let patch = slide.input * slide.kernel * slide.kernel;
    let mut packed = Vec::with_capacity(slide.output.div_ceil(ROWS) * patch);
    for first in (0..slide.output).step_by(ROWS) {
        for place in 0..patch {
            packed.push(std::array::from_fn(|row| match first + row {
                output if output < slide.output => weight(output, place),
                _ => 0.0,
            }));
        }
    }
    Packed(packed)
}

/// Memory of a thread that goes from sample to sample.
#[derive(Default)]
pub(super) struct Scratch {
    padded: Vec<f32>,
    output: Vec<f32>,
}

/// Slides over one sample `[input, height, width]`; writes `[output, output_height, output_width]`.
pub(super) fn correlate(
    slide: Slide,
    weights: &Packed,
    sample: &[f32],
    output: &mut [f32],
    scratch: &mut Scratch,
) {
    // What is not written below is zero from the beginning: buffers serve one slide only.
    scratch.padded.resize(slide.padded(), 0.0);
    slide.pad(sample, &mut scratch.padded);
    let rows = slide.output.next_multiple_of(ROWS);
    scratch.output.resize(rows * slide.stride(), 0.0);
    pulp::Arch::new().dispatch(Correlate {
        slide,
        weights: &weights.0,
        offsets: &slide.offsets(),
        input: &scratch.padded,
        output: &mut scratch.output,
    });
    let (height, width) = (slide.output_height(), slide.output_width());
    let channels = scratch.output.chunks(slide.stride());
    for (to, from) in output.chunks_mut(height * width).zip(channels) {
        for (to, from) in to.chunks_mut(width).zip(from.chunks(slide.row())) {
            to.copy_from_slice(&from[..width]);
        }
    }
}

/// All tiles of one sample.
struct Correlate<'a> {
    slide: Slide,
    weights: &'a [[f32; ROWS]],
    offsets: &'a [usize],
    input: &'a [f32],
    output: &'a mut [f32],
}

impl WithSimd for Correlate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (places, stride) = (self.slide.places(), self.slide.stride());
        let mut first = 0;
        while first < places {
            let left = (places - first).div_ceil(S::F32_LANES);
            let vectors = left.min(VECTORS);
            let blocks = self.output.chunks_mut(ROWS * stride);
            for (output, weights) in blocks.zip(self.weights.chunks(self.offsets.len())) {
                let (input, output) = (&self.input[first..], &mut output[first..]);
                match vectors {
                    1 => tile::<S, 1>(simd, weights, self.offsets, input, output, stride),
                    2 => tile::<S, 2>(simd, weights, self.offsets, input, output, stride),
                    _ => tile::<S, VECTORS>(simd, weights, self.offsets, input, output, stride),
                }
            }
            first += vectors * S::F32_LANES;
        }
    }
}

/// `V` vectors of numbers.
#[inline(always)]
fn load<S: Simd, const V: usize>(values: &[f32]) -> [S::f32s; V] {
    let values = &values[..V * S::F32_LANES];
    std::array::from_fn(|index| {
        let vector = &values[index * S::F32_LANES..][..S::F32_LANES];
        pod_read_unaligned(cast_slice(vector))
    })
}

/// One tile: for each (channel, kernel place) in order, four weights times `V` vectors.
#[inline(always)]
fn tile<S: Simd, const V: usize>(
    simd: S,
    weights: &[[f32; ROWS]],
    offsets: &[usize],
    input: &[f32],
    output: &mut [f32],
    stride: usize,
) {
    let mut sums = [[simd.splat_f32s(0.0); V]; ROWS];
    for (weights, &offset) in weights.iter().zip(offsets) {
        let x = load::<S, V>(&input[offset..]);
        for (sums, &weight) in sums.iter_mut().zip(weights) {
            let weight = simd.splat_f32s(weight);
            for (sum, &x) in sums.iter_mut().zip(&x) {
                *sum = simd.mul_add_f32s(weight, x, *sum);
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        let output = &mut output[row * stride..][..V * S::F32_LANES];
        output.copy_from_slice(cast_slice(sums));
    }
}

/// Adds the gradient of the weights `[output, input, kernel, kernel]` over samples `x`, whose gradients
/// of the output are `gradient`.
pub(super) fn weight_gradient(slide: Slide, x: &[f32], gradient: &[f32], sums: &mut [f32]) {
    let (x_size, y_size) = (
        slide.input * slide.height * slide.width,
        slide.output * slide.output_height() * slide.output_width(),
    );
    let rows = slide.output.next_multiple_of(ROWS);
    let per_sample = slide.padded() + rows * slide.stride();
    let chunk = (CHUNK / per_sample).max(1);
    let mut padded = vec![0f32; chunk * slide.padded()];
    let mut spread = vec![0f32; chunk * rows * slide.stride()];
    let chunks = x
        .chunks(chunk * x_size)
        .zip(gradient.chunks(chunk * y_size));
    for (x, gradient) in chunks {
        let samples = x.len() / x_size;
        for (padded, x) in padded.chunks_mut(slide.padded()).zip(x.chunks(x_size)) {
            slide.pad(x, padded);
        }
        let spreads = spread.chunks_mut(rows * slide.stride());
        for (spread, gradient) in spreads.zip(gradient.chunks(y_size)) {
            spread_rows(slide, gradient, spread);
        }
        pulp::Arch::new().dispatch(Products {
            slide,
            samples,
            padded: &padded,
            spread: &spread,
            sums,
        });
    }
}

/// Lays the output's rows as far apart as those of the padded input; zeros stay between them.
fn spread_rows(slide: Slide, gradient: &[f32], spread: &mut [f32]) {
    let (height, width) = (slide.output_height(), slide.output_width());
    let channels = spread.chunks_mut(slide.stride());
    for (to, from) in channels.zip(gradient.chunks(height * width)) {
        for (to, from) in to.chunks_mut(slide.row()).zip(from.chunks(width)) {
            to[..width].copy_from_slice(from);
        }
    }
}

/// Products of a few samples summed over places.
struct Products<'a> {
    slide: Slide,
    samples: usize,
    padded: &'a [f32],
    spread: &'a [f32],
    sums: &'a mut [f32],
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let slide = self.slide;
        for output in (0..slide.output).step_by(ROWS) {
            for input in 0..slide.input {
                for row in 0..slide.kernel {
                    let mut column = 0;
                    while column < slide.kernel {
                        let place = [output, input, row, column];
                        match slide.kernel - column {
                            1 => self.at::<S, 1>(simd, place),
                            2 => self.at::<S, 2>(simd, place),
                            _ => self.at::<S, VECTORS>(simd, place),
                        }
                        column += VECTORS;
                    }
                }
            }
        }
    }
}

impl Products<'_> {
    /// `C` kernel columns from `[output, input, row, column]` on, for [`ROWS`] output channels.
    #[inline(always)]
    fn at<S: Simd, const C: usize>(&mut self, simd: S, place: [usize; 4]) {
        let slide = self.slide;
        let [output, input, row, column] = place;
        let (stride, length) = (
            slide.stride(),
            slide.places().next_multiple_of(S::F32_LANES),
        );
        let block = slide.output.next_multiple_of(ROWS) * stride;
        let start = input * slide.plane() + row * slide.row() + column;
        let mut sums = [[simd.splat_f32s(0.0); C]; ROWS];
        for sample in 0..self.samples {
            let gradient = &self.spread[sample * block + output * stride..][..ROWS * stride];
            let x = &self.padded[sample * slide.padded() + start..][..length + C - 1];
            // All of one length, cut once: the loop below needs no check.
            let count = length / S::F32_LANES;
            let gradient: [&[S::f32s]; ROWS] = std::array::from_fn(|row| {
                &cast_slice(&gradient[row * stride..][..length])[..count]
            });
            let x: [&[S::f32s]; C] =
                std::array::from_fn(|column| &cast_slice(&x[column..][..length])[..count]);
            for vector in 0..count {
                let x = x.map(|x| x[vector]);
                for (sums, gradient) in sums.iter_mut().zip(gradient) {
                    for (sum, &x) in sums.iter_mut().zip(&x) {
                        *sum = simd.mul_add_f32s(gradient[vector], x, *sum);
                    }
                }
            }
        }
        let area = slide.kernel * slide.kernel;
        for (index, sums) in sums.iter().take(slide.output - output).enumerate() {
            let start = ((output + index) * slide.input + input) * area;
            let to = &mut self.sums[start + row * slide.kernel + column..][..C];
            for (to, &sum) in to.iter_mut().zip(sums) {
                *to += simd.reduce_sum_f32s(sum);
            }
        }
    }
}
