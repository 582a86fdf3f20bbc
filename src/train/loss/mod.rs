//! What is minimised: cross-entropy over classes or tokens, squared, absolute and Huber error.
//!
//! A loss gives the value of every row and the gradient of their *sum* by the model's output, both
//! computed without recording operations: the derivative of a loss is known in closed form, and
//! writing it down is cheaper and more exact than differentiating a chain of eight operations.
//! [`Losses::surrogate`] hands the gradient to the recorded graph of the model.
//!
//! Refuses to: average. Sums and counts travel; the division happens once per step.
//!
//! Main type: [`Objective`].

mod classes;
mod values;

#[cfg(test)]
mod tests;

use burn::tensor::{Int, Tensor, TensorData};

use crate::config::{Loss, Train};
use crate::data::Target;
use crate::model::Output;
use crate::ops;
use crate::run::Fault;

/// What is minimised, resolved against the kind of target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Objective {
    /// Softmax cross-entropy; the target is mixed with the uniform distribution by `smoothing`.
    CrossEntropy {
        /// Share of the uniform distribution, 0 to below 1.
        smoothing: f64,
    },
    /// Squared error.
    Mse,
    /// Absolute error.
    Mae,
    /// Huber loss with delta 1.
    Huber,
}

/// Losses of the rows of one shard; a row is a sample, or a token of one.
#[derive(Debug)]
pub(crate) struct Losses {
    /// Loss of each row, `[rows]`; 0 where the target is not counted. Not recorded.
    pub(crate) values: Tensor<1>,
    /// Gradient of their sum by the model's output, `[rows, width]`. Not recorded.
    pub(crate) gradient: Tensor<2>,
    /// Rows that count.
    pub(crate) count: u64,
}

impl Objective {
    /// The objective of a config for a kind of target.
    ///
    /// # Errors
    ///
    /// When loss and target do not fit together.
    pub(crate) fn resolve(train: &Train, classes: bool) -> Result<Self, Fault> {
        let cross_entropy = Objective::CrossEntropy {
            smoothing: train.label_smoothing,
        };
        match (train.loss, classes) {
            (Loss::Auto | Loss::CrossEntropy, true) => Ok(cross_entropy),
            (Loss::Auto | Loss::Mse, false) => Ok(Objective::Mse),
            (Loss::Mae, false) => Ok(Objective::Mae),
            (Loss::Huber, false) => Ok(Objective::Huber),
            (Loss::CrossEntropy, false) => Err(Fault::usage(
                "train.loss is `cross_entropy`, but the target is a number",
            )
            .advise("use `mse`, `mae` or `huber`, or set `data.task = \"classification\"`")),
            (Loss::Mse | Loss::Mae | Loss::Huber, true) => Err(Fault::usage(
                "train.loss is for numbers, but the target is a class",
            )
            .advise("use `cross_entropy`, or set `data.task = \"regression\"`")),
        }
    }

    /// The same objective as evaluations measure it: without label smoothing, which is a means of
    /// training and not what anybody wants to know.
    pub(crate) fn measured(self) -> Self {
        match self {
            Objective::CrossEntropy { .. } => Objective::CrossEntropy { smoothing: 0.0 },
            other => other,
        }
    }

    /// Losses of the rows of `output` (see [`rows`]) and their gradient.
    ///
    /// # Errors
    ///
    /// When the device fails, or the target is of another kind than the objective.
    pub(crate) fn losses(self, output: &Tensor<2>, target: &Target) -> Result<Losses, Fault> {
        let output = output.clone().inner();
        match (self, target) {
            (
                Objective::CrossEntropy { smoothing },
                Target::Classes(classes) | Target::Tokens(classes),
            ) => classes::cross_entropy(output, classes, smoothing),
            (Objective::Mse, Target::Values(wanted)) => Ok(values::mse(output, wanted)),
            (Objective::Mae, Target::Values(wanted)) => Ok(values::mae(output, wanted)),
            (Objective::Huber, Target::Values(wanted)) => Ok(values::huber(output, wanted)),
            _ => Err(Fault::internal(format!(
                "{self:?} cannot be measured on this kind of target"
            ))),
        }
    }
}

impl Losses {
    /// A recorded scalar whose gradient by the model's parameters is that of the summed loss. Its
    /// value means nothing.
    pub(crate) fn surrogate(&self, output: Tensor<2>) -> Tensor<1> {
        ops::with_gradient(output, self.gradient.clone())
    }
}

/// The model's output as rows, `[samples, width]` or `[samples x tokens, vocabulary]`.
pub(crate) fn rows(output: Output) -> Tensor<2> {
    match output {
        Output::Logits(rows) | Output::Values(rows) => rows,
        Output::TokenLogits(logits) => {
            let [samples, tokens, vocabulary] = logits.dims();
            logits.reshape([samples * tokens, vocabulary])
        }
    }
}

/// Classes that count.
fn count(classes: &[i32]) -> u64 {
    classes.iter().filter(|&&class| class >= 0).count() as u64
}

/// Integers as a column `[n, 1]` beside `like`.
fn column(values: Vec<i32>, like: &Tensor<2>) -> Tensor<2, Int> {
    let shape = [values.len(), 1];
    Tensor::from_data(TensorData::new(values, shape), &like.device())
}
