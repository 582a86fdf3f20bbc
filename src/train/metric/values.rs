//! Errors of numeric predictions, in the units of the data.

use serde::{Deserialize, Serialize};

use super::mean;

/// Measures standardised predictions against standardised targets. `mse` and `mae` are scaled back;
/// R² is the same in both units, and computed in the standardised one, where sums of squares do not
/// cancel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ValueMeter {
    std: f64,
    count: u64,
    loss: f64,
    absolute: f64,
    squared: f64,
    target: f64,
    target_squared: f64,
}

impl ValueMeter {
    pub(super) fn new(std: f64) -> Self {
        Self {
            std,
            count: 0,
            loss: 0.0,
            absolute: 0.0,
            squared: 0.0,
            target: 0.0,
            target_squared: 0.0,
        }
    }

    pub(super) fn add(&mut self, predictions: &[f32], targets: &[f32], losses: &[f32]) {
        for ((&prediction, &target), &loss) in predictions.iter().zip(targets).zip(losses) {
            let target = f64::from(target);
            let error = f64::from(prediction) - target;
            self.count += 1;
            self.loss += f64::from(loss);
            self.absolute += error.abs();
            self.squared += error * error;
            self.target += target;
            self.target_squared += target * target;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.loss += other.loss;
        self.absolute += other.absolute;
        self.squared += other.squared;
        self.target += other.target;
        self.target_squared += other.target_squared;
    }

    /// All values; NaN where they are not defined.
    pub(super) fn values(&self) -> Vec<(String, f64)> {
        let spread = self.target_squared - self.target * mean(self.target, self.count);
        // One sample, or equal targets: R² is not defined, and what is left of the spread is
        // rounding.
        let r2 = if self.count > 1 && spread > self.target_squared * 1e-12 {
            1.0 - self.squared / spread
        } else {
            f64::NAN
        };
        vec![
            ("loss".to_string(), mean(self.loss, self.count)),
            (
                "mse".to_string(),
                mean(self.squared, self.count) * self.std * self.std,
            ),
            (
                "mae".to_string(),
                mean(self.absolute, self.count) * self.std,
            ),
            ("r2".to_string(), r2),
        ]
    }
}
