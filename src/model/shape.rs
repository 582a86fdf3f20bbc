//! The shape of one sample between two layers.

use std::fmt;

use crate::data::InputShape;

/// Shape of one sample, without the batch dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A row of a table: numeric and categorical columns.
    Row {
        /// Numeric columns.
        numeric: usize,
        /// Categorical columns.
        categorical: usize,
    },
    /// Token ids.
    Ids {
        /// Tokens.
        length: usize,
        /// Number of different tokens.
        vocabulary: usize,
    },
    /// A vector.
    Features(usize),
    /// Channels of a picture.
    Map {
        /// Channels.
        channels: usize,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },
    /// A vector for each token.
    Sequence {
        /// Tokens.
        length: usize,
        /// Numbers per token.
        width: usize,
    },
}

impl Shape {
    /// Shape of a sample of the data.
    #[must_use]
    pub fn of_input(input: &InputShape) -> Self {
        match input {
            InputShape::Table {
                numeric,
                categories,
            } => Shape::Row {
                numeric: *numeric,
                categorical: categories.len(),
            },
            InputShape::Image {
                channels,
                height,
                width,
            } => Shape::Map {
                channels: *channels,
                height: *height,
                width: *width,
            },
            InputShape::Tokens { length, vocabulary } => Shape::Ids {
                length: *length,
                vocabulary: *vocabulary,
            },
        }
    }

    /// Sizes of the dimensions.
    #[must_use]
    pub fn dims(self) -> Vec<usize> {
        match self {
            Shape::Row {
                numeric,
                categorical,
            } => vec![numeric + categorical],
            Shape::Ids { length, .. } => vec![length],
            Shape::Features(n) => vec![n],
            Shape::Map {
                channels,
                height,
                width,
            } => vec![channels, height, width],
            Shape::Sequence { length, width } => vec![length, width],
        }
    }

    /// Numbers in one sample.
    #[must_use]
    pub fn elements(self) -> usize {
        self.dims().iter().product()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims().iter().map(ToString::to_string).collect();
        let dims = dims.join("x");
        match self {
            Shape::Row { .. } => write!(f, "{dims} columns"),
            Shape::Ids { .. } => write!(f, "{dims} token ids"),
            Shape::Features(_) => write!(f, "{dims} features"),
            Shape::Map { .. } => write!(f, "a {dims} image"),
            Shape::Sequence { .. } => write!(f, "a {dims} sequence"),
        }
    }
}
