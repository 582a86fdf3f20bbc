//! Comma-separated values with a header line (RFC 4180, with blanks around cells taken off).

use csv::{ByteRecord, ReaderBuilder};

use super::lines::{self, Cells};
use super::raw::{COLUMNS_MAX, RawTable};
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
    if let Some(table) = lines::parse(source, delimiter) {
        return Ok(table);
    }
    by_record(source, delimiter)
}

/// Reads any file, one record after another, and says what is wrong with it.
fn by_record(source: &Source, delimiter: u8) -> Result<RawTable, Fault> {
    let path = &source.path;
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
    let fields: Vec<&[u8]> = record.iter().collect();
    let names = header(source, &fields)?;
    let mut cells = Cells::new(names.len(), 0);
    let mut ragged = Ragged::default();
    while next(&mut record)? {
        if record.len() == names.len() {
            cells.push(record.iter());
        } else if !is_blank(&record) {
            ragged.note(&record);
        }
    }
    ragged.verdict(source, names.len())?;
    if cells.rows == 0 {
        return Err(damaged(path, "it holds a header and no rows"));
    }
    cells
        .into_table(source, names)
        .ok_or_else(|| damaged(path, "a cell is not UTF-8 text"))
}

/// A line that holds nothing, or nothing but blanks.
fn is_blank(record: &ByteRecord) -> bool {
    record.len() <= 1 && record.iter().all(|field| field.trim_ascii().is_empty())
}

/// Names of the columns.
pub(super) fn header(source: &Source, record: &[&[u8]]) -> Result<Vec<String>, Fault> {
    let path = &source.path;
    if record.iter().all(|field| field.trim_ascii().is_empty()) {
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
    let repeated = sorted.array_windows().find(|[a, b]| a == b);
    if let Some([name, _]) = repeated {
        return Err(
            damaged(path, format_args!("two columns are named `{name}`"))
                .advise("give every column a name of its own; is the header line missing?"),
        );
    }
    Ok(names)
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
    let before = bytes.get(..place).unwrap_or_default();
    before.split(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::raw::{Cell, RawColumn};
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
    fn the_quick_way_is_taken_and_joins_its_pieces() {
        let mut text = String::from("number,text\r\n");
        for row in 0..200_000 {
            text.extend([row.to_string(), format!(", t{} \r\n", row % 7)]);
        }
        let source = source(text.as_bytes());
        let quick = lines::parse(&source, b',').unwrap();
        assert_eq!(quick.rows, 200_000);
        assert_eq!(quick.columns[0].cell(199_999), Cell::Text("199999"));
        assert_eq!(quick.columns[1].cell(150_001), Cell::Text("t5"));
        assert!(matches!(&quick.columns[1], RawColumn::Text { text, .. } if text.len() == 400_000));
        let slow = by_record(&source, b',').unwrap();
        assert!(quick.columns == slow.columns);
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
        fn the_quick_way_gives_the_same_table(text in "a,b\n([a-c,é \t.]{0,4},?[0-9]{0,3}\r?\n){0,40}") {
            let source = source(text.as_bytes());
            if let Some(quick) = lines::parse(&source, b',') {
                let slow = by_record(&source, b',').unwrap();
                prop_assert_eq!(quick.names, slow.names);
                prop_assert_eq!(quick.columns, slow.columns);
                prop_assert_eq!(quick.rows, slow.rows);
            }
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
