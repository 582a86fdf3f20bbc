//! Softmax cross-entropy with class indices, for samples and tokens alike.

use burn::tensor::{Bool, IndexingUpdateOp, Tensor, TensorData};

use super::{Losses, column};

/// Cross-entropy of each row of `logits` `[rows, classes]` with its class; rows with a negative
/// class do not count. With smoothing e over C classes the loss of a row with class y is
///
/// `(1 - e) (lse - z_y) + e (lse - mean(z))`, gradient `softmax(z) - (1 - e) onehot(y) - e / C`,
///
/// where lse is the logarithm of the sum of the exponentials, taken after the largest logit is
/// subtracted: no exponential overflows and the largest one is 1.
pub(super) fn cross_entropy(logits: Tensor<2>, classes: &[i32], smoothing: f64) -> Losses {
    let [rows, width] = logits.dims();
    let largest = logits.clone().max_dim(1);
    let shifted = logits - largest;
    let exponentials = shifted.clone().exp();
    let sums = exponentials.clone().sum_dim(1);
    let log_sums = sums.clone().log();

    let indices = column(classes.iter().map(|&class| class.max(0)).collect(), &shifted);
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

    let counted: Vec<bool> = classes.iter().map(|&class| class >= 0).collect();
    let count = counted.iter().filter(|&&counted| counted).count();
    if count < counted.len() {
        let ignored: Tensor<2, Bool> =
            Tensor::from_data(TensorData::new(counted, [rows, 1]), &gradient.device()).bool_not();
        values = values.mask_fill(ignored.clone(), 0.0);
        gradient = gradient.mask_fill(ignored.expand([rows, width]), 0.0);
    }
    Losses {
        values: values.reshape([rows]),
        gradient,
        count: count as u64,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a width stays far below 2^52")]
fn width_f64(width: usize) -> f64 {
    width as f64
}
