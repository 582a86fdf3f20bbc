//! What is measured on held-out data: exact, streaming, on the host.
//!
//! Counts are integers and sums are float64, so the size of the batches changes nothing but the
//! last digits, and meters of several workers can be merged. AUROC alone has to keep every score;
//! it does up to [`auroc::AUROC_SCORES_MAX`] and is absent beyond.
//!
//! Refuses to: average averages, or report a value that is not a number.
//!
//! Main type: [`Meter`].

mod auroc;
mod classes;
mod tokens;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::data::{Target, TargetShape};
use crate::run::Fault;

#[cfg(test)]
use auroc::AUROC_SCORES_MAX;
use classes::ClassMeter;
use tokens::TokenMeter;
use values::ValueMeter;

/// Measures predictions of one kind of target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Meter {
    /// `loss`, `accuracy`, `top<k>_accuracy`, `f1`, `auroc`.
    Classes(ClassMeter),
    /// `loss`, `accuracy`, `top<k>_accuracy`, `perplexity`.
    Tokens(TokenMeter),
    /// `loss`, `mse`, `mae`, `r2`.
    Values(ValueMeter),
}

impl Meter {
    /// A meter for a kind of target. `top_k` below 2, or not below the number of classes, asks for
    /// no top-k accuracy.
    pub(crate) fn new(target: &TargetShape, top_k: u32) -> Self {
        let top = |classes: usize| {
            usize::try_from(top_k)
                .ok()
                .filter(|k| (2..classes).contains(k))
        };
        match target {
            TargetShape::Classes { names } => {
                Meter::Classes(ClassMeter::new(names.len(), top(names.len())))
            }
            TargetShape::NextToken { vocabulary } => {
                Meter::Tokens(TokenMeter::new(top(*vocabulary)))
            }
            TargetShape::Value { std, .. } => Meter::Values(ValueMeter::new(*std)),
        }
    }

    /// Takes predictions `[rows, width]` (logits, or values of width 1) with their targets and the
    /// loss of each row.
    ///
    /// # Errors
    ///
    /// When the parts do not fit together; a mistake of the program.
    pub(crate) fn add(
        &mut self,
        predictions: &[f32],
        target: &Target,
        losses: &[f32],
    ) -> Result<(), Fault> {
        let rows = losses.len();
        let width = predictions.len().checked_div(rows).unwrap_or(0);
        let fits = |targets: usize| targets == rows && predictions.len() == rows * width;
        match (self, target) {
            (Meter::Classes(meter), Target::Classes(classes))
                if fits(classes.len()) && (rows == 0 || width == meter.classes()) =>
            {
                meter.add(predictions, classes, losses);
            }
            (Meter::Tokens(meter), Target::Tokens(tokens)) if fits(tokens.len()) => {
                meter.add(predictions, tokens, losses);
            }
            (Meter::Values(meter), Target::Values(values))
                if fits(values.len()) && (rows == 0 || width == 1) =>
            {
                meter.add(predictions, values, losses);
            }
            _ => {
                return Err(Fault::internal(
                    "predictions and targets do not fit together",
                ));
            }
        }
        Ok(())
    }

    /// Takes what another meter of the same kind has seen.
    ///
    /// # Errors
    ///
    /// When it is of another kind; a mistake of the program.
    pub(crate) fn merge(&mut self, other: &Meter) -> Result<(), Fault> {
        match (self, other) {
            (Meter::Classes(mine), Meter::Classes(other)) => mine.merge(other),
            (Meter::Tokens(mine), Meter::Tokens(other)) => mine.merge(other),
            (Meter::Values(mine), Meter::Values(other)) => mine.merge(other),
            _ => return Err(Fault::internal("meters of different kinds")),
        }
        Ok(())
    }

    /// Values by name. What is not defined (nothing seen, one class only) or not finite is absent.
    pub(crate) fn values(&self) -> BTreeMap<String, f64> {
        let values = self.all().into_iter();
        values.filter(|(_, value)| value.is_finite()).collect()
    }

    /// Names of all values that it can have.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all().into_iter().map(|(name, _)| name).collect()
    }

    fn all(&self) -> Vec<(String, f64)> {
        match self {
            Meter::Classes(meter) => meter.values(),
            Meter::Tokens(meter) => meter.values(),
            Meter::Values(meter) => meter.values(),
        }
    }
}

/// Number of values that come before the target in descending order; equal ones count by index, as
/// a stable sort has them. `None` when the target is out of range or one of the values is NaN.
fn rank(row: &[f32], target: usize) -> Option<usize> {
    let chosen = *row.get(target)?;
    let mut before = 0;
    for (index, &value) in row.iter().enumerate() {
        match value.partial_cmp(&chosen)? {
            std::cmp::Ordering::Greater => before += 1,
            std::cmp::Ordering::Equal if index < target => before += 1,
            _ => {}
        }
    }
    Some(before)
}

/// A quotient of counts; NaN when there is nothing to divide by.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// A mean; NaN when there is nothing.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn mean(sum: f64, count: u64) -> f64 {
    sum / count as f64
}
