//! Samples as they travel from the data to the model: host memory and plain shapes.

use serde::{Deserialize, Serialize};

use crate::run::{Epoch, SPLIT_TEST, SPLIT_TRAIN, SPLIT_VALIDATION, SampleId};

/// A part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What is trained on.
    Train,
    /// What early stopping and `best` checkpoints look at.
    Validation,
    /// What is evaluated once, at the end.
    Test,
}

impl Part {
    /// All parts, in order.
    pub const ALL: [Part; 3] = [Part::Train, Part::Validation, Part::Test];

    /// Name of the part in metrics and files.
    #[must_use]
    pub fn split(self) -> &'static str {
        match self {
            Part::Train => SPLIT_TRAIN,
            Part::Validation => SPLIT_VALIDATION,
            Part::Test => SPLIT_TEST,
        }
    }
}

/// What the augmentation of a sample depends on, beside the sample itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AugmentKey {
    /// Seed of the run.
    pub seed: u64,
    /// Epoch of the step.
    pub epoch: Epoch,
}

/// Shape of one sample's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputShape {
    /// A row of a table.
    Table {
        /// Numeric columns.
        numeric: usize,
        /// Vocabulary size per categorical column; code 0 stands for unknown or missing and is
        /// counted.
        categories: Vec<usize>,
    },
    /// A picture.
    Image {
        /// 1 (grey) or 3 (colour).
        channels: usize,
        /// Pixels.
        height: usize,
        /// Pixels.
        width: usize,
    },
    /// A sequence of tokens.
    Tokens {
        /// Tokens of a sample.
        length: usize,
        /// Number of different tokens.
        vocabulary: usize,
    },
}

/// What one sample's target is.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetShape {
    /// One of several classes.
    Classes {
        /// Their names, in order of their numbers.
        names: Vec<String>,
    },
    /// A number; targets of a batch are standardised with these.
    Value {
        /// Mean over the training split.
        mean: f64,
        /// Standard deviation over the training split.
        std: f64,
    },
    /// The token that follows each input token.
    NextToken {
        /// Number of different tokens.
        vocabulary: usize,
    },
}

/// Inputs of `n` samples, row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Rows of a table.
    Table {
        /// `[n, numeric columns]`.
        numeric: Vec<f32>,
        /// `[n, categorical columns]`, codes below each column's vocabulary size.
        categorical: Vec<i32>,
    },
    /// Pictures.
    Images {
        /// `[n, channels, height, width]`.
        pixels: Vec<f32>,
    },
    /// Token sequences.
    Tokens {
        /// `[n, length]`.
        ids: Vec<i32>,
    },
}

/// Targets of `n` samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// Class numbers, `[n]`.
    Classes(Vec<i32>),
    /// Numbers, `[n]`, standardised with the mean and deviation of [`TargetShape::Value`].
    Values(Vec<f32>),
    /// Following tokens, `[n, length]`; a negative one is not counted.
    Tokens(Vec<i32>),
}

/// Samples of one shard in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Which samples, in order; may be none.
    pub ids: Vec<SampleId>,
    /// Their inputs.
    pub input: Input,
    /// Their targets.
    pub target: Target,
}
