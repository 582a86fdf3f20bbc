//! A table as it stands in the file: named columns of cells, before anybody decided what they mean.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::data::source::file_name;

/// Most rows of a table.
pub(super) const ROWS_MAX: u64 = 1 << 31;

/// Most columns of a table.
pub(super) const COLUMNS_MAX: usize = 1 << 14;

/// Largest file, before and after decompression. Text positions fit 32 bits.
pub(super) const BYTES_MAX: u64 = (1 << 32) - 2;

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell<'a> {
    /// Nothing (Parquet null).
    Null,
    /// Text, trimmed.
    Text(&'a str),
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
}

impl<'a> Cell<'a> {
    /// The cell as a category's name; nothing when it is missing.
    pub(super) fn category(self, missing: &[String]) -> Option<Cow<'a, str>> {
        match self {
            Cell::Null => None,
            Cell::Text(text) => (!is_missing(text, missing)).then_some(Cow::Borrowed(text)),
            Cell::Number(number) if number.is_nan() => None,
            Cell::Number(number) => Some(Cow::Owned(number.to_string())),
            Cell::Flag(flag) => Some(Cow::Borrowed(if flag { "true" } else { "false" })),
        }
    }

    /// The cell as a finite number, `Ok(None)` when it is missing.
    ///
    /// # Errors
    ///
    /// The text of a cell that is no finite number.
    pub(super) fn number(self, missing: &[String]) -> Result<Option<f64>, Cow<'a, str>> {
        match self {
            Cell::Null => Ok(None),
            Cell::Text(text) if is_missing(text, missing) => Ok(None),
            Cell::Text(text) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number)),
                _ => Err(Cow::Borrowed(text)),
            },
            // Columnar files write a missing number as NaN as often as a null.
            Cell::Number(number) if number.is_nan() => Ok(None),
            Cell::Number(number) if number.is_finite() => Ok(Some(number)),
            Cell::Number(number) => Err(Cow::Owned(number.to_string())),
            Cell::Flag(flag) => Ok(Some(f64::from(u8::from(flag)))),
        }
    }
}

/// Whether a trimmed text stands for nothing.
fn is_missing(text: &str, missing: &[String]) -> bool {
    text.is_empty() || missing.iter().any(|name| name == text)
}

/// Cells of one column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RawColumn {
    /// Texts, one after another, with the end of each.
    Text {
        /// All texts.
        text: String,
        /// Where each ends.
        ends: Vec<u32>,
        /// Which are null; empty when none can be.
        nulls: Vec<bool>,
    },
    /// Numbers; null is NaN.
    Numbers(Vec<f64>),
    /// Truth values; null is nothing.
    Flags(Vec<Option<bool>>),
    /// A kind of cell that cannot be used, with its name.
    Unusable(String),
}

impl RawColumn {
    /// The cell of a row; null beyond the end.
    pub(super) fn cell(&self, row: usize) -> Cell<'_> {
        match self {
            RawColumn::Text { text, ends, nulls } => {
                if nulls.get(row).copied().unwrap_or(false) {
                    return Cell::Null;
                }
                let start = match row.checked_sub(1) {
                    Some(before) => ends.get(before).map_or(0, |&end| end as usize),
                    None => 0,
                };
                let end = ends.get(row).map_or(start, |&end| end as usize);
                text.get(start..end).map_or(Cell::Null, Cell::Text)
            }
            RawColumn::Numbers(numbers) => numbers.get(row).map_or(Cell::Null, |&number| {
                if number.is_nan() {
                    Cell::Null
                } else {
                    Cell::Number(number)
                }
            }),
            RawColumn::Flags(flags) => flags
                .get(row)
                .copied()
                .flatten()
                .map_or(Cell::Null, Cell::Flag),
            RawColumn::Unusable(_) => Cell::Null,
        }
    }
}

/// A table in memory.
#[derive(Debug)]
pub(super) struct RawTable {
    /// Its file.
    pub path: PathBuf,
    /// Names of the columns, all different.
    pub names: Vec<String>,
    /// Cells, by column.
    pub columns: Vec<RawColumn>,
    /// Number of rows.
    pub rows: usize,
}

impl RawTable {
    /// Column with a name.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|candidate| candidate == name)
    }

    /// `row 17 of train.csv`; rows are counted from 1 and the header is none.
    pub(super) fn row_name(&self, row: usize) -> String {
        format!("row {} of {}", row + 1, file_name(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_numbers_categories_or_missing() {
        let missing = vec!["?".to_string()];
        assert_eq!(Cell::Text("1.5").number(&missing), Ok(Some(1.5)));
        assert_eq!(Cell::Text("?").number(&missing), Ok(None));
        assert_eq!(Cell::Text("").category(&missing), None);
        assert!(Cell::Text("inf").number(&missing).is_err());
        assert!(Cell::Text("NaN").number(&missing).is_err());
        assert!(Cell::Number(f64::INFINITY).number(&missing).is_err());
        assert_eq!(Cell::Number(3.0).category(&missing).unwrap(), "3");
        assert_eq!(Cell::Flag(true).category(&missing).unwrap(), "true");
    }

    #[test]
    fn texts_are_found_by_their_ends() {
        let column = RawColumn::Text {
            text: "abc".into(),
            ends: vec![1, 1, 3],
            nulls: vec![],
        };
        let cells: Vec<Cell<'_>> = (0..4).map(|row| column.cell(row)).collect();
        let expected = ["a", "", "bc", ""].map(Cell::Text);
        assert_eq!(cells, expected);
    }
}
