//! Softmax cross-entropy with class indices, for samples and tokens alike.
//!
//! With smoothing e over C classes the loss of a row z with class y is
//!
//! `(1 - e) (lse - z_y) + e (lse - mean(z))`, its gradient `softmax(z) - (1 - e) onehot(y) - e / C`,
//!
//! where lse is the logarithm of the sum of the exponentials, taken after the largest logit is
//! subtracted: no exponential overflows and the largest one is 1.

use burn::tensor::{Bool, IndexingUpdateOp, Tensor, TensorData};
use rayon::prelude::*;

use super::{Losses, column};
use crate::ops;
use crate::ops::vector::{self, vectorized};
use crate::run::Fault;

/// Numbers that are worth a task of the thread pool.
const TASK: usize = 1 << 14;

/// Cross-entropy of each row of `logits` `[rows, classes]` with its class; rows with a negative
/// class do not count.
///
/// # Errors
///
/// When the device fails.
pub(super) fn cross_entropy(
    logits: Tensor<2>,
    classes: &[i32],
    smoothing: f64,
) -> Result<Losses, Fault> {
    if ops::is_host(&logits.device()) {
        on_host(logits, classes, smoothing)
    } else {
        Ok(on_device(logits, classes, smoothing))
    }
}

/// One pass over host memory; a row stays in the cache while it is worked on.
pub(super) fn on_host(logits: Tensor<2>, classes: &[i32], smoothing: f64) -> Result<Losses, Fault> {
    let device = logits.device();
    let [rows, width] = logits.dims();
    let mut gradient = ops::download(logits)?;
    let mut values = vec![0f32; rows];
    let work = gradient
        .par_chunks_mut(width.max(1))
        .zip(&mut values)
        .zip(classes)
        .with_min_len(TASK / width.max(1) + 1);
    work.for_each(|((row, value), &class)| match usize::try_from(class) {
        Ok(class) => {
            *value = vectorized(
                #[inline(always)]
                || narrow(row_in_place(row, class, smoothing)),
            );
        }
        Err(_) => row.fill(0.0),
    });
    Ok(Losses {
        values: ops::upload(values, &device),
        gradient: ops::upload(gradient, &device).reshape([rows, width]),
        count: super::count(classes),
    })
}

/// Loss of one row, whose logits become its gradient. Sums are in float64.
#[allow(clippy::inline_always, reason = "see `ops::vector`")]
#[inline(always)]
fn row_in_place(row: &mut [f32], class: usize, smoothing: f64) -> f64 {
    let width = width_f64(row.len());
    let largest = vector::largest(row);
    let chosen = row.get(class).map_or(f64::NAN, |&z| f64::from(z - largest));
    let shifted = if smoothing > 0.0 {
        vector::sum_64(row.len(), |i| row[i] - largest)
    } else {
        0.0
    };
    for z in row.iter_mut() {
        *z = vector::exp(*z - largest);
    }
    let sum = vector::sum_64(row.len(), |i| row[i]);
    let log_sum = sum.ln();
    let inverse = narrow(1.0 / sum);
    let uniform = narrow(smoothing / width);
    for z in row.iter_mut() {
        *z = *z * inverse - uniform;
    }
    if let Some(z) = row.get_mut(class) {
        *z -= narrow(1.0 - smoothing);
    }
    let plain = log_sum - chosen;
    if smoothing > 0.0 {
        (1.0 - smoothing) * plain + smoothing * (log_sum - shifted / width)
    } else {
        plain
    }
}

/// As tensor operations: for devices that fuse them, and what the pass over host memory is tested
/// against.
pub(super) fn on_device(logits: Tensor<2>, classes: &[i32], smoothing: f64) -> Losses {
    let [rows, width] = logits.dims();
    let largest = logits.clone().max_dim(1);
    let shifted = logits - largest;
    let exponentials = shifted.clone().exp();
    let sums = exponentials.clone().sum_dim(1);
    let log_sums = sums.clone().log();

    let indices = column(
        classes.iter().map(|&class| class.max(0)).collect(),
        &shifted,
    );
    let chosen = shifted.clone().gather(1, indices.clone());
    let mut values = log_sums.clone() - chosen;
    if smoothing > 0.0 {
        let uniform = log_sums - shifted.mean_dim(1);
        values = values.mul_scalar(1.0 - smoothing) + uniform.mul_scalar(smoothing);
    }

    let subtracted = Tensor::full([rows, 1], smoothing - 1.0, &indices.device());
    let mut gradient = (exponentials / sums).scatter(1, indices, subtracted, IndexingUpdateOp::Add);
    if smoothing > 0.0 {
        gradient = gradient.sub_scalar(smoothing / width_f64(width));
    }

    let count = super::count(classes);
    if count < classes.len() as u64 {
        let ignored: Vec<bool> = classes.iter().map(|&class| class < 0).collect();
        let ignored = TensorData::new(ignored, [rows, 1]);
        let ignored: Tensor<2, Bool> = Tensor::from_data(ignored, &gradient.device());
        values = values.mask_fill(ignored.clone(), 0.0);
        gradient = gradient.mask_fill(ignored.expand([rows, width]), 0.0);
    }
    Losses {
        values: values.reshape([rows]),
        gradient,
        count,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a width stays far below 2^52")]
fn width_f64(width: usize) -> f64 {
    width as f64
}

#[expect(clippy::cast_possible_truncation, reason = "losses are kept in f32")]
fn narrow(value: f64) -> f32 {
    value as f32
}
