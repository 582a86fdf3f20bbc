//! `[data]`: where samples come from and how they are split and prepared.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to learn from; `kind` chooses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Data {
    /// Rows of a CSV or Parquet file.
    Table(TableData),
    /// Pictures with a class each.
    Images(ImageData),
    /// Text as a stream of tokens.
    Text(TextData),
}

/// A held-out part: nothing, a seeded share of the training samples, or files of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// No such part.
    None,
    /// Share of the training file's samples, above 0 and below 1, chosen by the seed.
    Fraction(f64),
    /// A file or folder of its own, in the same format as `train`.
    Path(PathBuf),
}

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// From the label column: text, booleans or few integers are classes, other numbers a value.
    Auto,
    /// One of several classes.
    Classification,
    /// A number.
    Regression,
}

/// Layout of a table file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TableFormat {
    /// By the file's ending: `.csv`, `.csv.gz`, `.tsv`, `.parquet`.
    Auto,
    /// Comma-separated values with a header line, plain or gzip.
    Csv,
    /// Apache Parquet.
    Parquet,
}

/// Columns of one role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Columns {
    /// Inferred from the training split, and shown.
    Auto,
    /// Exactly these.
    Named(Vec<String>),
}

/// `kind = "table"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableData {
    /// Training file.
    pub train: PathBuf,
    /// Held-out part that early stopping and `best` checkpoints look at.
    pub validation: Split,
    /// Held-out part that is evaluated once, at the end.
    pub test: Split,
    /// Layout of the files.
    pub format: TableFormat,
    /// Column to predict.
    pub label: String,
    /// Classes or a number.
    pub task: Task,
    /// Columns read as numbers.
    pub numeric: Columns,
    /// Columns read as categories.
    pub categorical: Columns,
    /// Columns left out.
    pub ignore: Vec<String>,
    /// Cells with one of these texts (after trimming) are missing.
    pub missing: Vec<String>,
    /// Whether numeric columns are scaled to mean 0 and standard deviation 1 of the training split.
    pub standardize: bool,
    /// Field separator of CSV files, one ASCII character.
    pub delimiter: char,
}

/// Layout of image files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    /// A pair of idx files (MNIST layout), plain or gzip.
    Idx,
    /// CIFAR-10 binary batches: a file or a folder of `*.bin`.
    Cifar10,
    /// CIFAR-100 binary batches with fine labels.
    Cifar100,
    /// A folder with one sub-folder of PNG or JPEG files per class.
    Folder,
}

/// Mean and spread that pixels are normalised with, per channel, on the 0 to 1 scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Normalize {
    /// Leave pixels on the 0 to 1 scale.
    None,
    /// Computed on the training split and stored with the run.
    Auto,
    /// Given.
    Fixed {
        /// One mean per channel.
        mean: Vec<f32>,
        /// One standard deviation per channel, above 0.
        std: Vec<f32>,
    },
}

/// Seeded changes to training images; each depends on seed, epoch and sample alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Augment {
    /// Probability of a left-right flip, 0 to 1.
    pub flip: f64,
    /// Zero padding on each side before a random crop back to size, in pixels.
    pub crop_padding: u32,
}

/// `kind = "images"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageData {
    /// Layout of the files.
    pub format: ImageFormat,
    /// Training images: a file or folder.
    pub train: PathBuf,
    /// Training labels (`idx` only; empty otherwise).
    pub train_labels: PathBuf,
    /// Held-out part that early stopping and `best` checkpoints look at.
    pub validation: Split,
    /// Labels of a validation file (`idx` only; empty otherwise).
    pub validation_labels: PathBuf,
    /// Held-out part that is evaluated once, at the end.
    pub test: Split,
    /// Labels of a test file (`idx` only; empty otherwise).
    pub test_labels: PathBuf,
    /// Height and width in pixels that images are resized to; `[0, 0]` keeps the files' own size.
    pub size: [u32; 2],
    /// 1 (grey) or 3 (colour); 0 takes what the files have.
    pub channels: u32,
    /// Normalisation.
    pub normalize: Normalize,
    /// Augmentation of training images.
    pub augment: Augment,
}

/// Layout of text files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextFormat {
    /// By the file's ending: `.jsonl` is JSONL, all else plain text.
    Auto,
    /// UTF-8 text; one document per file.
    Plain,
    /// One JSON object per line; one document per line.
    Jsonl,
}

/// `kind = "text"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextData {
    /// Training text: a file, or a folder whose files are read in order of their names.
    pub train: PathBuf,
    /// Held-out part that early stopping and `best` checkpoints look at; a fraction is taken in
    /// blocks of whole sequences.
    pub validation: Split,
    /// Held-out part that is evaluated once, at the end.
    pub test: Split,
    /// Layout of the files.
    pub format: TextFormat,
    /// Key of the text in a JSONL object.
    pub field: String,
    /// `byte` (256 bytes and an end-of-document token) or the path of a `tokenizer.json`.
    pub tokenizer: String,
    /// Tokens a sample has as input; its targets are the same tokens one place further.
    pub sequence_length: u32,
    /// Folder for token files; they are keyed by content and tokenizer and can be deleted.
    pub cache: PathBuf,
}
