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

/// Texts that stand for nothing, the empty one always among them.
#[derive(Clone, Debug)]
pub(super) struct Missing {
    texts: Vec<String>,
    /// Bit n is set when one of the texts has n bytes (the last bit: that many or more), so that
    /// most cells need no comparison.
    lengths: u64,
}

impl Missing {
    /// These texts, and the empty one.
    pub(super) fn new(texts: &[String]) -> Self {
        let lengths = texts
            .iter()
            .fold(1, |bits, text| bits | 1 << text.len().min(63));
        Self {
            texts: texts.to_vec(),
            lengths,
        }
    }

    /// Whether a trimmed text stands for nothing.
    #[inline]
    fn holds(&self, text: &str) -> bool {
        if self.lengths >> text.len().min(63) & 1 == 0 {
            return false;
        }
        text.is_empty() || self.texts.iter().any(|name| name == text)
    }
}

/// A number as cells have it. Short integers, most of what tables hold, need no general parser.
#[inline]
fn parse_number(text: &str) -> Option<f64> {
    const DIGITS_MAX: usize = 9;
    let digits = text.as_bytes();
    if digits.len() <= DIGITS_MAX && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        let number = digits
            .iter()
            .fold(0u32, |number, digit| number * 10 + u32::from(digit - b'0'));
        return Some(f64::from(number));
    }
    text.parse().ok()
}

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
    #[inline]
    pub(super) fn category(self, missing: &Missing) -> Option<Cow<'a, str>> {
        match self {
            Cell::Null => None,
            Cell::Text(text) => (!missing.holds(text)).then_some(Cow::Borrowed(text)),
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
    #[inline]
    pub(super) fn number(self, missing: &Missing) -> Result<Option<f64>, Cow<'a, str>> {
        match self {
            Cell::Null => Ok(None),
            Cell::Text(text) if missing.holds(text) => Ok(None),
            Cell::Text(text) => match parse_number(text) {
                Some(number) if number.is_finite() => Ok(Some(number)),
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
    #[inline]
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
        let missing = Missing::new(&["?".to_string()]);
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
    fn short_integers_are_parsed_like_all_numbers() {
        for text in [
            "0",
            "7",
            "007",
            "123456789",
            "999999999",
            "1234567890",
            "-5",
            "+5",
            "1e3",
            "",
            "1_0",
            "٣",
        ] {
            assert_eq!(parse_number(text), text.parse().ok(), "{text}");
        }
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
