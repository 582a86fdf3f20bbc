//! CSV files without quotes, which most are: lines and separators are all there is to look for, and
//! threads can share the lines.

use rayon::prelude::*;

use super::csv::header;
use super::raw::{RawColumn, RawTable};
use crate::data::source::Source;

/// Bytes that a thread takes at a time.
const PIECE_BYTES: usize = 1 << 19;

/// Reads a file, or gives nothing when there is anything out of the ordinary: quotes, lone carriage
/// returns, lines of another length, a bad header. The general reader then says what is wrong.
pub(super) fn parse(source: &Source, delimiter: u8) -> Option<RawTable> {
    let bytes = source.bytes.as_slice();
    let lone_return = || {
        let mut pairs = bytes.array_windows();
        bytes.ends_with(b"\r") || pairs.any(|&[a, b]| a == b'\r' && b != b'\n')
    };
    if bytes.contains(&b'"') || bytes.contains(&b'\r') && lone_return() {
        return None;
    }
    let mut rest = bytes;
    let first = loop {
        let (line, after) = next_line(rest)?;
        rest = after;
        if !line.trim_ascii().is_empty() {
            break line;
        }
    };
    let fields: Vec<&[u8]> = first.split(|&byte| byte == delimiter).collect();
    let names = header(source, &fields).ok()?;
    let pieces = pieces(rest);
    let parts: Vec<Cells> = pieces
        .par_iter()
        .map(|piece| read(piece, delimiter, names.len()))
        .collect::<Option<_>>()?;
    let cells = Cells::join(parts)?;
    (cells.rows > 0).then(|| cells.into_table(source, names))?
}

/// A line without its end, and what follows it.
fn next_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if bytes.is_empty() {
        return None;
    }
    let end = bytes.iter().position(|&byte| byte == b'\n');
    let (line, after) = match end {
        Some(end) => (bytes.get(..end)?, bytes.get(end + 1..)?),
        None => (bytes, &[][..]),
    };
    Some((line.strip_suffix(b"\r").unwrap_or(line), after))
}

/// Cuts after line ends.
fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while rest.len() > PIECE_BYTES {
        let tail = rest.iter().skip(PIECE_BYTES);
        let Some(newline) = tail.clone().position(|&byte| byte == b'\n') else {
            break;
        };
        let (piece, after) = rest.split_at(PIECE_BYTES + newline + 1);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// Cells of whole lines; nothing when a line has another number of them.
fn read(piece: &[u8], delimiter: u8, columns: usize) -> Option<Cells> {
    let mut cells = Cells::new(columns, piece.len());
    for line in piece.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let is_whole = cells.push(line.split(|&byte| byte == delimiter));
        if !is_whole {
            if !line.trim_ascii().is_empty() {
                return None;
            }
            cells.undo();
        }
    }
    Some(cells)
}

/// Cells of the columns while they are collected.
pub(super) struct Cells {
    columns: Vec<(Vec<u8>, Vec<u32>)>,
    /// Rows so far.
    pub rows: usize,
}

impl Cells {
    /// Nothing yet, with room for the cells of a text of about `bytes`.
    pub(super) fn new(columns: usize, bytes: usize) -> Self {
        let each = bytes / columns.max(1);
        let column = || (Vec::with_capacity(each), Vec::with_capacity(each / 4));
        Self {
            columns: (0..columns).map(|_| column()).collect(),
            rows: 0,
        }
    }

    /// Adds a row; says whether it had as many fields as there are columns.
    #[inline]
    pub(super) fn push<'a>(&mut self, fields: impl Iterator<Item = &'a [u8]>) -> bool {
        let mut fields = fields;
        let mut seen = 0;
        for ((text, ends), field) in self.columns.iter_mut().zip(&mut fields) {
            text.extend_from_slice(field.trim_ascii());
            // The file's length fits 32 bits, so its cells do.
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
            seen += 1;
        }
        let is_whole = seen == self.columns.len() && fields.next().is_none();
        self.rows += 1;
        is_whole
    }

    /// Takes the last row back.
    fn undo(&mut self) {
        self.rows -= 1;
        let rows = self.rows;
        for (text, ends) in &mut self.columns {
            ends.truncate(rows);
            text.truncate(ends.last().map_or(0, |&end| end as usize));
        }
    }

    /// Puts pieces one after another.
    fn join(parts: Vec<Cells>) -> Option<Cells> {
        if parts.len() == 1 {
            return parts.into_iter().next();
        }
        let rows = parts.iter().map(|part| part.rows).sum();
        let count = parts.first()?.columns.len();
        let columns = (0..count)
            .into_par_iter()
            .map(|place| {
                let pieces = || parts.iter().filter_map(|part| part.columns.get(place));
                let mut text = Vec::with_capacity(pieces().map(|(text, _)| text.len()).sum());
                let mut ends = Vec::with_capacity(rows);
                for (more, their_ends) in pieces() {
                    let before = u32::try_from(text.len()).unwrap_or(u32::MAX);
                    text.extend_from_slice(more);
                    ends.extend(their_ends.iter().map(|end| end + before));
                }
                (text, ends)
            })
            .collect();
        Some(Cells { columns, rows })
    }

    /// The table; nothing when a cell is not UTF-8 text, which cells of UTF-8 text cut at ASCII
    /// characters always are.
    pub(super) fn into_table(self, source: &Source, names: Vec<String>) -> Option<RawTable> {
        let columns = self
            .columns
            .into_par_iter()
            .map(|(text, ends)| {
                let text = String::from_utf8(text).ok()?;
                let nulls = Vec::new();
                Some(RawColumn::Text { text, ends, nulls })
            })
            .collect::<Option<Vec<_>>>()?;
        Some(RawTable {
            path: source.path.clone(),
            names,
            columns,
            rows: self.rows,
        })
    }
}
