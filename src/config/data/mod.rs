//! `[data]`: where samples come from and how they are split and prepared.

mod image;
mod split;
mod synthetic;
mod table;
mod text;

pub use image::{Augment, ImageData, ImageFormat, Normalize};
pub use split::Split;
pub use synthetic::{SyntheticImages, SyntheticTable, SyntheticText};
pub use table::{Columns, TableData, TableFormat, Task};
pub use text::{TextData, TextFormat};

use super::declare::tagged_records;

tagged_records! {
    /// What to learn from; `kind` chooses.
    pub enum Data {
        /// Rows of a CSV or Parquet file.
        Table(TableData) = "table",
        /// Pictures with a class each.
        Images(ImageData) = "images",
        /// Text as a stream of tokens.
        Text(TextData) = "text",
        /// Random rows of a given shape, for measuring: no files.
        SyntheticTable(SyntheticTable) = "synthetic_table",
        /// Random pictures of a given shape, for measuring: no files.
        SyntheticImages(SyntheticImages) = "synthetic_images",
        /// Random tokens, for measuring: no files.
        SyntheticText(SyntheticText) = "synthetic_text",
    }
}

/// What samples are, wherever they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    /// Rows of a table.
    Table,
    /// Pictures.
    Images,
    /// Sequences of tokens.
    Text,
}

/// Synthetic data are all for training.
static NOTHING: Split = Split::None;

impl Data {
    /// What the samples are.
    pub(super) fn nature(&self) -> Nature {
        match self {
            Data::Table(_) | Data::SyntheticTable(_) => Nature::Table,
            Data::Images(_) | Data::SyntheticImages(_) => Nature::Images,
            Data::Text(_) | Data::SyntheticText(_) => Nature::Text,
        }
    }

    /// The held-out part that early stopping and `best` checkpoints look at.
    #[must_use]
    pub fn validation(&self) -> &Split {
        match self {
            Data::Table(data) => &data.validation,
            Data::Images(data) => &data.validation,
            Data::Text(data) => &data.validation,
            Data::SyntheticTable(_) | Data::SyntheticImages(_) | Data::SyntheticText(_) => &NOTHING,
        }
    }

    /// The held-out part that is evaluated once, at the end.
    #[must_use]
    pub fn test(&self) -> &Split {
        match self {
            Data::Table(data) => &data.test,
            Data::Images(data) => &data.test,
            Data::Text(data) => &data.test,
            Data::SyntheticTable(_) | Data::SyntheticImages(_) | Data::SyntheticText(_) => &NOTHING,
        }
    }
}
