//! Causal attention without the matrix of all scores.
//!
//! Queries are taken in strips of [`STRIP`] rows; a strip's scores with the keys it may see stay in a
//! core's cache. The backward pass makes them again from the logarithm of each row's sum (Dao et al.
//! 2022), and skips what the mask hides. One (sample, key head) is one thread's work from first to last
//! strip, so no sum depends on threads.

use std::sync::Arc;

use burn::backend::TensorMetadata;
use burn::tensor::{Shape, Tensor};
use rayon::prelude::*;

use super::operation::{Operation, Values, apply};
use super::product::{Matrix, multiply};
use super::{tensor, values};
use crate::ops::attention::{Heads, WeightDropout};
use crate::ops::mask;
use crate::ops::vector::{exp, largest, sum, vectorized};

/// Queries of a strip.
const STRIP: usize = 64;

/// As [`crate::ops::causal_attention`], on the CPU.
pub(in crate::ops) fn causal_attention(
    query: Tensor<2>,
    key: Tensor<2>,
    value: Tensor<2>,
    heads: Heads,
    dropout: Option<WeightDropout>,
) -> Tensor<2> {
    let inputs = [query, key, value].map(Tensor::into_dispatch);
    apply(&Attend { heads, dropout }, inputs)
}

#[derive(Clone, Copy, Debug)]
struct Attend {
    heads: Heads,
    dropout: Option<WeightDropout>,
}

/// Query, key, value, and of each (sample, head, place) the logarithm of the sum of exponentials.
#[derive(Clone, Debug)]
struct Saved {
    inputs: [Values; 3],
    log_sums: Arc<Vec<f32>>,
}

/// One sample's key head with the query heads that it serves.
#[derive(Clone, Copy)]
struct Task<'a> {
    attend: &'a Attend,
    sample: usize,
    kv_head: usize,
    query: &'a [f32],
    key: &'a [f32],
    value: &'a [f32],
}

/// A strip of queries of one head: places `first..end`, which see keys `0..end`.
#[derive(Clone, Copy)]
struct Strip {
    head: usize,
    first: usize,
    end: usize,
}

impl Strip {
    fn rows(self) -> usize {
        self.end - self.first
    }
}

impl Attend {
    fn tasks<'a>(
        &'a self,
        samples: usize,
        [query, key, value]: [&'a [f32]; 3],
    ) -> impl IndexedParallelIterator<Item = Task<'a>> {
        let kv_heads = self.heads.kv_heads;
        (0..samples * kv_heads)
            .into_par_iter()
            .map(move |index| Task {
                attend: self,
                sample: index / kv_heads,
                kv_head: index % kv_heads,
                query,
                key,
                value,
            })
    }

    /// Numbers of a row of queries.
    fn query_row(&self) -> usize {
        self.heads.heads * self.heads.width
    }

    /// Numbers of a row of keys.
    fn key_row(&self) -> usize {
        self.heads.kv_heads * self.heads.width
    }

    /// Query heads that one key head serves.
    fn groups(&self) -> usize {
        self.heads.heads / self.heads.kv_heads
    }

    fn scale(&self) -> f32 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "a head width is far below 2^24"
        )]
        let scale = (1.0 / (self.heads.width as f64).sqrt()) as f32;
        scale
    }

    /// From `[task][head of the task][place][width]` to rows of `heads` heads.
    fn assemble(&self, parts: &[&[f32]], samples: usize, per_task: usize) -> Vec<f32> {
        let Heads {
            length,
            width,
            kv_heads,
            ..
        } = self.heads;
        let row = kv_heads * per_task * width;
        let mut joined = vec![0f32; samples * length * row];
        let rows = joined.par_chunks_mut(row).enumerate();
        rows.with_min_len(16).for_each(|(index, row)| {
            let (sample, place) = (index / length, index % length);
            for (head, to) in row.chunks_mut(width).enumerate() {
                let part = parts[sample * kv_heads + head / per_task];
                let from = (head % per_task * length + place) * width;
                to.copy_from_slice(&part[from..from + width]);
            }
        });
        joined
    }
}

impl<'a> Task<'a> {
    /// Rows `first..end` of a head of some tensor with rows of `row` numbers.
    fn rows(
        self,
        values: &'a [f32],
        row: usize,
        head: usize,
        [first, end]: [usize; 2],
    ) -> Matrix<'a> {
        let heads = self.attend.heads;
        let start = (self.sample * heads.length + first) * row + head * heads.width;
        Matrix::within(&values[start..], end - first, heads.width, row)
    }

    fn queries(self, values: &'a [f32], strip: Strip) -> Matrix<'a> {
        let row = self.attend.query_row();
        self.rows(values, row, strip.head, [strip.first, strip.end])
    }

    fn keys(self, values: &'a [f32], strip: Strip) -> Matrix<'a> {
        self.rows(values, self.attend.key_row(), self.kv_head, [0, strip.end])
    }

    /// Strips of all heads, in order, with the number of the head within the task.
    fn strips(self) -> impl Iterator<Item = (usize, Strip)> {
        let (length, groups) = (self.attend.heads.length, self.attend.groups());
        (0..groups).flat_map(move |group| {
            (0..length).step_by(STRIP).map(move |first| {
                let strip = Strip {
                    head: self.kv_head * groups + group,
                    first,
                    end: (first + STRIP).min(length),
                };
                (group, strip)
            })
        })
    }

    /// Scores of a strip, `[rows, end]`, not scaled yet.
    fn scores(self, strip: Strip, scores: &mut Vec<f32>) {
        scores.resize(strip.rows() * strip.end, 0.0);
        let (query, key) = (self.queries(self.query, strip), self.keys(self.key, strip));
        multiply(scores, query, key.transposed(), false);
    }

    /// What the weights of a strip are multiplied by; nothing without dropout.
    fn kept(self, strip: Strip, kept: &mut Vec<f32>) {
        let Some(dropout) = self.attend.dropout else {
            return;
        };
        let heads = self.attend.heads;
        kept.resize(strip.rows() * strip.end, 0.0);
        for (row, kept) in kept.chunks_mut(strip.end).enumerate() {
            let place = (self.sample * heads.heads + strip.head) * heads.length + strip.first + row;
            mask::fill(
                dropout.seed,
                dropout.place,
                dropout.p,
                place * heads.length,
                kept,
            );
        }
    }

    /// The result of the task's heads, `[head][place][width]`, and the logarithms of their sums.
    fn forward(self) -> (Vec<f32>, Vec<f32>) {
        let Heads { length, width, .. } = self.attend.heads;
        let (groups, scale) = (self.attend.groups(), self.attend.scale());
        let mut output = vec![0f32; groups * length * width];
        let mut log_sums = vec![0f32; groups * length];
        let (mut weights, mut kept) = (Vec::new(), Vec::new());
        for (group, strip) in self.strips() {
            self.scores(strip, &mut weights);
            self.kept(strip, &mut kept);
            let from = group * length + strip.first;
            let sums = &mut log_sums[from..from + strip.rows()];
            vectorized(
                #[inline(always)]
                || softmax_rows(&mut weights, strip, scale, sums),
            );
            drop_weights(&mut weights, &kept);
            let output = &mut output[from * width..][..strip.rows() * width];
            let weights = Matrix::new(&weights, strip.rows(), strip.end);
            multiply(output, weights, self.keys(self.value, strip), false);
        }
        (output, log_sums)
    }

    /// Gradients of the task's queries `[head][place][width]`, keys and values `[place][width]`.
    fn backward(self, log_sums: &[f32], gradient: &'a [f32]) -> [Vec<f32>; 3] {
        let Heads { length, width, .. } = self.attend.heads;
        let (groups, scale) = (self.attend.groups(), self.attend.scale());
        let mut for_query = vec![0f32; groups * length * width];
        let mut for_key = vec![0f32; length * width];
        let mut for_value = vec![0f32; length * width];
        let (mut weights, mut slopes) = (Vec::new(), Vec::new());
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for (group, strip) in self.strips() {
            let (rows, end) = (strip.rows(), strip.end);
            let from = group * length + strip.first;
            self.scores(strip, &mut weights);
            self.kept(strip, &mut kept);
            slopes.resize(rows * end, 0.0);
            let gradient = self.queries(gradient, strip);
            let value = self.keys(self.value, strip);
            multiply(&mut slopes, gradient, value.transposed(), false);
            let sums = &log_sums[from..from + rows];
            vectorized(
                #[inline(always)]
                || weights_again(&mut weights, strip, scale, sums),
            );
            let used = if kept.is_empty() {
                &weights
            } else {
                dropped.clone_from(&weights);
                drop_weights(&mut dropped, &kept);
                drop_weights(&mut slopes, &kept);
                &dropped
            };
            let used = Matrix::new(used, rows, end).transposed();
            multiply(&mut for_value[..end * width], used, gradient, true);
            vectorized(
                #[inline(always)]
                || score_slopes(&mut slopes, &weights, strip, scale),
            );
            let slopes = Matrix::new(&slopes, rows, end);
            let for_query = &mut for_query[from * width..][..rows * width];
            multiply(for_query, slopes, self.keys(self.key, strip), false);
            let query = self.queries(self.query, strip);
            let for_key = &mut for_key[..end * width];
            multiply(for_key, slopes.transposed(), query, true);
        }
        [for_query, for_key, for_value]
    }
}

/// Scores become weights; 0 behind the diagonal.
#[allow(clippy::inline_always, reason = "see `ops::vector`")]
#[inline(always)]
fn softmax_rows(scores: &mut [f32], strip: Strip, scale: f32, log_sums: &mut [f32]) {
    let rows = scores.chunks_mut(strip.end).zip(log_sums).enumerate();
    for (row, (scores, log_sum)) in rows {
        let (seen, hidden) = scores.split_at_mut(strip.first + row + 1);
        let most = largest(seen);
        for score in seen.iter_mut() {
            *score = exp((*score - most) * scale);
        }
        let total = sum(seen.len(), |i| seen[i]);
        let share = 1.0 / total;
        for weight in seen.iter_mut() {
            *weight *= share;
        }
        hidden.fill(0.0);
        *log_sum = most.mul_add(scale, total.ln());
    }
}

/// As [`softmax_rows`], from the logarithms of the sums.
#[allow(clippy::inline_always, reason = "see `ops::vector`")]
#[inline(always)]
fn weights_again(scores: &mut [f32], strip: Strip, scale: f32, log_sums: &[f32]) {
    for (row, (scores, &log_sum)) in scores.chunks_mut(strip.end).zip(log_sums).enumerate() {
        let (seen, hidden) = scores.split_at_mut(strip.first + row + 1);
        for score in seen.iter_mut() {
            *score = exp(score.mul_add(scale, -log_sum));
        }
        hidden.fill(0.0);
    }
}

/// Gradients of the weights become those of the scores before scaling.
#[allow(clippy::inline_always, reason = "see `ops::vector`")]
#[inline(always)]
fn score_slopes(slopes: &mut [f32], weights: &[f32], strip: Strip, scale: f32) {
    let rows = slopes.chunks_mut(strip.end).zip(weights.chunks(strip.end));
    for (row, (slopes, weights)) in rows.enumerate() {
        let (seen, hidden) = slopes.split_at_mut(strip.first + row + 1);
        let weights = &weights[..seen.len()];
        let level = sum(seen.len(), |i| seen[i] * weights[i]);
        for (slope, &weight) in seen.iter_mut().zip(weights) {
            *slope = (*slope - level) * weight * scale;
        }
        hidden.fill(0.0);
    }
}

fn drop_weights(weights: &mut [f32], kept: &[f32]) {
    for (weight, &kept) in weights.iter_mut().zip(kept) {
        *weight *= kept;
    }
}

/// Calls a function with the values of three tensors.
fn all<T>(inputs: &[Values; 3], function: impl FnOnce([&[f32]; 3]) -> T) -> T {
    let [query, key, value] = inputs;
    values(query, |query| {
        values(key, |key| {
            values(value, |value| function([query, key, value]))
        })
    })
}

impl Operation<3> for Attend {
    type Saved = Saved;

    fn forward(&self, inputs: [Values; 3]) -> (Values, Saved) {
        let shape = inputs[0].shape();
        let [rows, _] = shape.dims();
        let samples = rows / self.heads.length;
        let parts: Vec<(Vec<f32>, Vec<f32>)> = all(&inputs, |inputs| {
            self.tasks(samples, inputs).map(Task::forward).collect()
        });
        let outputs: Vec<&[f32]> = parts.iter().map(|(output, _)| &**output).collect();
        let output = self.assemble(&outputs, samples, self.groups());
        let log_sums = parts.iter().flat_map(|(_, sums)| sums.iter().copied());
        let saved = Saved {
            inputs,
            log_sums: Arc::new(log_sums.collect()),
        };
        (tensor(output, shape), saved)
    }

    fn backward(&self, saved: Saved, gradient: Values, _: [bool; 3]) -> [Option<Values>; 3] {
        let [rows, _] = gradient.shape().dims();
        let samples = rows / self.heads.length;
        let per_task = self.groups() * self.heads.length;
        let parts: Vec<[Vec<f32>; 3]> = all(&saved.inputs, |inputs| {
            values(&gradient, |gradient| {
                let tasks = self.tasks(samples, inputs);
                tasks
                    .zip(saved.log_sums.par_chunks(per_task))
                    .map(|(task, log_sums)| task.backward(log_sums, gradient))
                    .collect()
            })
        });
        [(0, self.groups()), (1, 1), (2, 1)].map(|(index, per_task)| {
            let parts: Vec<&[f32]> = parts.iter().map(|part| &*part[index]).collect();
            let joined = self.assemble(&parts, samples, per_task);
            let row = self.heads.kv_heads * per_task * self.heads.width;
            Some(tensor(joined, Shape::new([rows, row])))
        })
    }
}
