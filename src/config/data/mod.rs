//! `[data]`: where samples come from and how they are split and prepared.

mod image;
mod split;
mod table;
mod text;

pub use image::{Augment, ImageData, ImageFormat, Normalize};
pub use split::Split;
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
    }
}

impl Data {
    /// The held-out part that early stopping and `best` checkpoints look at.
    #[must_use]
    pub fn validation(&self) -> &Split {
        match self {
            Data::Table(data) => &data.validation,
            Data::Images(data) => &data.validation,
            Data::Text(data) => &data.validation,
        }
    }

    /// The held-out part that is evaluated once, at the end.
    #[must_use]
    pub fn test(&self) -> &Split {
        match self {
            Data::Table(data) => &data.test,
            Data::Images(data) => &data.test,
            Data::Text(data) => &data.test,
        }
    }
}
