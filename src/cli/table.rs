//! Aligned columns, and numbers, sizes and times as people read them.

use std::io::{self, Write};

use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;

/// Spaces between columns.
const GAP: usize = 2;

/// Rows of text cells, printed in aligned columns.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    /// Columns whose cells end, rather than start, at the same place.
    right: Vec<usize>,
}

impl Table {
    /// With a header row.
    pub(super) fn new(header: &[&str]) -> Self {
        let mut table = Self::default();
        let header: Vec<String> = header.iter().map(ToString::to_string).collect();
        table.row(&header);
        table
    }

    /// With these columns aligned at their right end.
    pub(super) fn right(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: &[String]) {
        self.rows
            .push(cells.iter().map(|cell| printable(cell)).collect());
    }

    /// Prints all rows, each after `indent` spaces.
    ///
    /// # Errors
    ///
    /// When the output cannot be written.
    pub(super) fn print(&self, indent: usize, out: &mut dyn Write) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.width()).max().unwrap_or(0)
            })
            .collect();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let fill = " ".repeat(width.saturating_sub(cell.width()));
                if self.right.contains(&column) {
                    line.push_str(&fill);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&fill);
                }
                line.push_str(&" ".repeat(GAP));
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Names come from files: control characters must not reach a terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// A metric value: four significant digits or more, short.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_string()
    } else if (1e-3..1e6).contains(&size) {
        let text = format!("{value:.5}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        format!("{value:.4e}")
    }
}

/// A number of bytes with a decimal unit.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if count < 1000 {
        return format!("{count} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(value < 9.95);
    let name = UNITS.get(unit).copied().unwrap_or_default();
    format!("{value:.digits$} {name}")
}

/// A whole number with thin groups of three digits.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A moment, in UTC.
pub(super) fn moment(time_ms: u64) -> String {
    i64::try_from(time_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .map_or_else(
            || "?".to_string(),
            |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let mut table = Table::new(&["NAME", "STEP"]).right(&[1]);
        table.row(&["größe".to_string(), "7".to_string()]);
        table.row(&["a\u{1b}[2J".to_string(), "1234".to_string()]);
        let mut out = Vec::new();
        table.print(1, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, " NAME   STEP\n größe     7\n a\u{fffd}[2J  1234\n");
    }

    #[test]
    fn quantities_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.97531, "0.97531"),
            (12.5, "12.5"),
            (-3.0, "-3"),
            (1e-7, "1.0000e-7"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(value), text);
        }
        for (value, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1500, "1.5 kB"),
            (999_600, "1.0 MB"),
            (23_400_000, "23 MB"),
        ] {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(moment(u64::MAX), "?");
    }
}
