//! Comma-separated values with a header line (RFC 4180, with blanks around cells taken off).

use csv::{ByteRecord, ReaderBuilder};

use super::raw::{COLUMNS_MAX, RawColumn, RawTable};
use crate::data::source::{Source, damaged, file_name};
use crate::run::Fault;

/// Most faulty lines that one message names.
const NAMED_MAX: usize = 3;

/// Reads the text of a file as a table. A first line gives the names of the columns; lines that
/// hold nothing are left out, wherever they stand.
///
/// # Errors
///
/// Damaged, with line numbers, for text that is not UTF-8, empty or repeated column names, lines
/// with another number of cells, and files without rows; usage for a separator that is not one
/// ASCII character.
pub(super) fn parse(source: &Source, delimiter: char) -> Result<RawTable, Fault> {
    let path = &source.path;
    let delimiter = u8::try_from(delimiter)
        .ok()
        .filter(|byte| byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r'))
        .ok_or_else(|| {
            Fault::usage(format!("{delimiter:?} cannot separate cells"))
                .advise("set data.delimiter to one ASCII character, e.g. \",\" or \"\\t\"")
        })?;
    if let Err(error) = std::str::from_utf8(&source.bytes) {
        let line = line_of(&source.bytes, error.valid_up_to());
        return Err(damaged(path, format_args!("line {line} is not UTF-8 text"))
            .advise("convert the file, e.g. with `iconv -f latin1 -t utf8`"));
    }
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .from_reader(source.bytes.as_slice());
    let mut record = ByteRecord::new();
    let mut next = |record: &mut ByteRecord| {
        reader
            .read_byte_record(record)
            .map_err(|error| damaged(path, format_args!("it cannot be read as CSV: {error}")))
    };
    // Blank lines before the header count as little as those after the last row.
    while next(&mut record)? && is_blank(&record) {}
    let names = header(source, &record)?;
    let mut cells = Cells::new(names.len(), source.bytes.len());
    let mut ragged = Ragged::default();
    while next(&mut record)? {
        if record.len() == names.len() {
            cells.push(&record);
        } else if !is_blank(&record) {
            ragged.note(&record);
        }
    }
    ragged.verdict(source, names.len())?;
    if cells.rows == 0 {
        return Err(damaged(path, "it holds a header and no rows"));
    }
    cells.into_table(source, names)
}

/// A line that holds nothing, or nothing but blanks.
fn is_blank(record: &ByteRecord) -> bool {
    record.len() <= 1 && record.iter().all(|field| field.trim_ascii().is_empty())
}

/// Names of the columns.
fn header(source: &Source, record: &ByteRecord) -> Result<Vec<String>, Fault> {
    let path = &source.path;
    if record.is_empty() || is_blank(record) {
        return Err(damaged(
            path,
            "it is empty; a line with column names is needed",
        ));
    }
    if record.len() > COLUMNS_MAX {
        return Err(damaged(
            path,
            format_args!("it has {} columns, more than {COLUMNS_MAX}", record.len()),
        ));
    }
    let mut names = Vec::with_capacity(record.len());
    for (place, field) in record.iter().enumerate() {
        let name = String::from_utf8_lossy(field)
            .trim_start_matches('\u{feff}')
            .trim()
            .to_string();
        if name.is_empty() {
            return Err(damaged(
                path,
                format_args!("column {} has no name in the header line", place + 1),
            )
            .advise("give every column a name"));
        }
        names.push(name);
    }
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(
            damaged(path, format_args!("two columns are named `{}`", pair[0]))
                .advise("give every column a name of its own; is the header line missing?"),
        );
    }
    Ok(names)
}

/// Cells of the columns while they are collected.
struct Cells {
    columns: Vec<(Vec<u8>, Vec<u32>)>,
    rows: usize,
}

impl Cells {
    fn new(columns: usize, bytes: usize) -> Self {
        let each = bytes / columns.max(1);
        Self {
            columns: (0..columns)
                .map(|_| (Vec::with_capacity(each), Vec::new()))
                .collect(),
            rows: 0,
        }
    }

    fn push(&mut self, record: &ByteRecord) {
        for ((text, ends), field) in self.columns.iter_mut().zip(record) {
            text.extend_from_slice(field.trim_ascii());
            // The file's length fits 32 bits, so its cells do.
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        self.rows += 1;
    }

    fn into_table(self, source: &Source, names: Vec<String>) -> Result<RawTable, Fault> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for (text, ends) in self.columns {
            // Cells of UTF-8 text cut at ASCII characters are UTF-8 themselves.
            let text = String::from_utf8(text)
                .map_err(|_| damaged(&source.path, "a cell is not UTF-8 text"))?;
            columns.push(RawColumn::Text {
                text,
                ends,
                nulls: Vec::new(),
            });
        }
        Ok(RawTable {
            path: source.path.clone(),
            names,
            columns,
            rows: self.rows,
        })
    }
}

/// Lines with a wrong number of cells.
#[derive(Default)]
struct Ragged {
    first: Vec<(u64, usize)>,
    count: u64,
}

impl Ragged {
    fn note(&mut self, record: &ByteRecord) {
        self.count += 1;
        if self.first.len() < NAMED_MAX {
            let line = record.position().map_or(0, csv::Position::line);
            self.first.push((line, record.len()));
        }
    }

    fn verdict(&self, source: &Source, columns: usize) -> Result<(), Fault> {
        if self.count == 0 {
            return Ok(());
        }
        let named: Vec<String> = self
            .first
            .iter()
            .map(|(line, cells)| format!("line {line} has {cells}"))
            .collect();
        let more = match self.count - self.first.len() as u64 {
            0 => String::new(),
            more => format!(" and {more} more lines are wrong"),
        };
        Err(damaged(
            &source.path,
            format_args!("the header has {columns} cells, {}{more}", named.join(", ")),
        )
        .advise(format!(
            "look at that line of {}: is a quote open, a separator inside a cell, or data.delimiter wrong?",
            file_name(&source.path)
        )))
    }
}

/// Line, counted from 1, that a byte is in.
fn line_of(bytes: &[u8], place: usize) -> usize {
    bytes
        .iter()
        .take(place)
        .filter(|&&byte| byte == b'\n')
        .count()
        + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::raw::Cell;
    use super::*;

    fn source(bytes: &[u8]) -> Source {
        Source {
            path: "t.csv".into(),
            bytes: bytes.to_vec(),
            sha256: String::new(),
            stored: 0,
        }
    }

    #[test]
    fn blanks_quotes_and_blank_lines_are_handled() {
        let text = "\u{feff}a, b ,c\r\n1, x y ,\"p, \"\"q\"\"\"\r\n\r\n 2 ,,z\n   \n\n";
        let table = parse(&source(text.as_bytes()), ',').unwrap();
        assert_eq!(table.names, ["a", "b", "c"]);
        assert_eq!(table.rows, 2);
        let row = |row| -> Vec<Cell<'_>> {
            table
                .columns
                .iter()
                .map(|column| column.cell(row))
                .collect()
        };
        assert_eq!(row(0), ["1", "x y", "p, \"q\""].map(Cell::Text));
        assert_eq!(row(1), ["2", "", "z"].map(Cell::Text));
    }

    #[test]
    fn faults_name_lines() {
        let fault = parse(&source(b"a,b\n1,2\n1\n1,2,3\n"), ',').unwrap_err();
        assert!(
            fault.message.contains("line 3 has 1, line 4 has 3"),
            "{fault}"
        );
        let fault = parse(&source(b"a,b\n1,2\n1,\xff\n"), ',').unwrap_err();
        assert!(fault.message.contains("line 3"), "{fault}");
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_table_or_a_fault(bytes: Vec<u8>) {
            let _ = parse(&source(&bytes), ',');
        }

        #[test]
        fn cells_survive(rows in prop::collection::vec(("[a-z,\"\n]{1,6}", "[a-z0-9 é]{0,6}"), 1..20)) {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(["first", "second"]).unwrap();
            for (first, second) in &rows {
                writer.write_record([format!("x{first}y"), second.clone()]).unwrap();
            }
            let table = parse(&source(&writer.into_inner().unwrap()), ',').unwrap();
            prop_assert_eq!(table.rows, rows.len());
            for (row, (first, second)) in rows.iter().enumerate() {
                let first = format!("x{first}y");
                prop_assert_eq!(table.columns[0].cell(row), Cell::Text(&first));
                prop_assert_eq!(table.columns[1].cell(row), Cell::Text(second.trim()));
            }
        }
    }
}
