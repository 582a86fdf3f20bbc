//! Apache Parquet files with flat columns.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use parquet::basic::{ConvertedType, LogicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use rayon::prelude::*;

use super::raw::{BYTES_MAX, COLUMNS_MAX, ROWS_MAX, RawColumn, RawTable};
use crate::data::source::damaged;
use crate::run::Fault;

/// Rows that are read at a time.
const ROWS_AT_ONCE: usize = 1 << 14;

/// Reads a file as a table. Columns of a kind that cannot be used (lists, binary numbers…) are kept
/// by name only, so that they can be ignored.
///
/// # Errors
///
/// Damaged for a file that is no Parquet file, disagrees with its own counts, or is too large.
pub(super) fn parse(path: &Path, bytes: Vec<u8>) -> Result<RawTable, Fault> {
    // The library may panic on damaged files: that is a fault of the file, not of the run.
    catch_unwind(AssertUnwindSafe(|| read(path, bytes))).unwrap_or_else(|_| {
        Err(damaged(
            path,
            "it is a damaged Parquet file that its reader cannot handle",
        ))
    })
}

fn read(path: &Path, bytes: Vec<u8>) -> Result<RawTable, Fault> {
    let broken =
        |error: ParquetError| damaged(path, format_args!("it cannot be read as Parquet: {error}"));
    let file = SerializedFileReader::new(Bytes::from(bytes)).map_err(broken)?;
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let rows = row_count(path, &file)?;
    if schema.num_columns() > COLUMNS_MAX {
        return Err(damaged(
            path,
            format_args!("it has more than {COLUMNS_MAX} columns"),
        ));
    }
    let names: Vec<String> = schema
        .columns()
        .iter()
        .map(|column| column.path().string())
        .collect();
    let columns = (0..schema.num_columns())
        .into_par_iter()
        .map(|place| read_column(&file, &schema.column(place), place, rows).map_err(broken))
        .collect::<Result<Vec<_>, Fault>>()?;
    for (name, column) in names.iter().zip(&columns) {
        let cells = match column {
            RawColumn::Text { ends, .. } => ends.len(),
            RawColumn::Numbers(numbers) => numbers.len(),
            RawColumn::Flags(flags) => flags.len(),
            RawColumn::Unusable(_) => rows,
        };
        if cells != rows {
            return Err(damaged(
                path,
                format_args!("column `{name}` holds {cells} cells, the file says {rows} rows"),
            ));
        }
    }
    Ok(RawTable {
        path: path.to_path_buf(),
        names,
        columns,
        rows,
    })
}

/// Rows of the file, after its counts and sizes were found believable.
fn row_count(path: &Path, file: &SerializedFileReader<Bytes>) -> Result<usize, Fault> {
    let metadata = file.metadata();
    let mut rows = 0u64;
    let mut bytes = 0u64;
    for group in metadata.row_groups() {
        let in_group = u64::try_from(group.num_rows())
            .map_err(|_| damaged(path, "a row group has a negative number of rows"))?;
        rows = rows.saturating_add(in_group);
        for column in group.columns() {
            let size = u64::try_from(column.uncompressed_size())
                .map_err(|_| damaged(path, "a column has a negative size"))?;
            bytes = bytes.saturating_add(size);
        }
    }
    if rows == 0 {
        return Err(damaged(path, "it holds no rows"));
    }
    if rows > ROWS_MAX || bytes > BYTES_MAX {
        return Err(damaged(
            path,
            format_args!("it claims {rows} rows and {bytes} bytes, more than is read of a table"),
        ));
    }
    usize::try_from(rows).map_err(|_| damaged(path, "it has too many rows"))
}

/// How the numbers of a column are meant.
#[derive(Clone, Copy)]
struct Meaning {
    unsigned: bool,
    /// What a stored integer is multiplied by.
    factor: f64,
}

fn meaning(column: &ColumnDescriptor) -> Meaning {
    let scale = match column.logical_type_ref() {
        Some(LogicalType::Decimal(decimal)) => decimal.scale,
        _ if column.converted_type() == ConvertedType::DECIMAL => column.type_scale(),
        _ => 0,
    };
    let unsigned = match column.logical_type_ref() {
        Some(LogicalType::Integer(integer)) => !integer.is_signed,
        _ => matches!(
            column.converted_type(),
            ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64
        ),
    };
    Meaning {
        unsigned,
        factor: 10f64.powi(-scale),
    }
}

/// All row groups of one column.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers become floating point; unsigned columns are stored as signed ones"
)]
fn read_column(
    file: &SerializedFileReader<Bytes>,
    column: &ColumnDescriptor,
    place: usize,
    rows: usize,
) -> Result<RawColumn, ParquetError> {
    if column.max_rep_level() > 0 {
        return Ok(RawColumn::Unusable("a list".into()));
    }
    let meaning = meaning(column);
    let nullable = column.max_def_level() > 0;
    let mut out = Collected::default();
    for group in 0..file.num_row_groups() {
        let reader = file.get_row_group(group)?.get_column_reader(place)?;
        let limit = rows;
        match reader {
            ColumnReader::BoolColumnReader(reader) => {
                drain(reader, column, limit, |cell| {
                    out.flags.push(cell.copied());
                    Ok(())
                })?;
            }
            ColumnReader::Int32ColumnReader(reader) => {
                let convert = |&value: &i32| {
                    let number = if meaning.unsigned {
                        f64::from(value as u32)
                    } else {
                        f64::from(value)
                    };
                    number * meaning.factor
                };
                out.numbers(reader, column, limit, convert)?;
            }
            ColumnReader::Int64ColumnReader(reader) => {
                let convert = |&value: &i64| {
                    let number = if meaning.unsigned {
                        value as u64 as f64
                    } else {
                        value as f64
                    };
                    number * meaning.factor
                };
                out.numbers(reader, column, limit, convert)?;
            }
            ColumnReader::FloatColumnReader(reader) => {
                out.numbers(reader, column, limit, |&value| f64::from(value))?;
            }
            ColumnReader::DoubleColumnReader(reader) => {
                out.numbers(reader, column, limit, |&value| value)?;
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                drain(reader, column, limit, |cell| out.text(cell, nullable))?;
            }
            ColumnReader::Int96ColumnReader(_) => {
                return Ok(RawColumn::Unusable("a 96-bit time".into()));
            }
            ColumnReader::FixedLenByteArrayColumnReader(_) => {
                return Ok(RawColumn::Unusable("binary of fixed length".into()));
            }
        }
    }
    Ok(out.into_column())
}

/// Cells of a column while they are collected; only one kind is used.
#[derive(Default)]
struct Collected {
    flags: Vec<Option<bool>>,
    numbers: Vec<f64>,
    text: String,
    ends: Vec<u32>,
    nulls: Vec<bool>,
}

impl Collected {
    fn numbers<T: DataType>(
        &mut self,
        reader: ColumnReaderImpl<T>,
        column: &ColumnDescriptor,
        limit: usize,
        convert: impl Fn(&T::T) -> f64,
    ) -> Result<(), ParquetError> {
        drain(reader, column, limit, |cell| {
            self.numbers.push(cell.map_or(f64::NAN, &convert));
            Ok(())
        })
    }

    fn text(&mut self, cell: Option<&ByteArray>, nullable: bool) -> Result<(), ParquetError> {
        if let Some(bytes) = cell {
            let text = std::str::from_utf8(bytes.data()).map_err(|_| {
                ParquetError::General(format!("row {} is not UTF-8 text", self.ends.len() + 1))
            })?;
            self.text.push_str(text.trim());
        }
        let end = u32::try_from(self.text.len())
            .map_err(|_| ParquetError::General("a column has more than 4 GiB of text".into()))?;
        self.ends.push(end);
        if nullable {
            self.nulls.push(cell.is_none());
        }
        Ok(())
    }

    fn into_column(self) -> RawColumn {
        if !self.ends.is_empty() {
            RawColumn::Text {
                text: self.text,
                ends: self.ends,
                nulls: self.nulls,
            }
        } else if !self.flags.is_empty() {
            RawColumn::Flags(self.flags)
        } else {
            RawColumn::Numbers(self.numbers)
        }
    }
}

/// Gives every cell of a column chunk in order, nothing for null.
fn drain<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    column: &ColumnDescriptor,
    rows_max: usize,
    mut take: impl FnMut(Option<&T::T>) -> Result<(), ParquetError>,
) -> Result<(), ParquetError> {
    let full = column.max_def_level();
    let mut seen = 0usize;
    loop {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let (records, _, _) =
            reader.read_records(ROWS_AT_ONCE, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Ok(());
        }
        seen += records;
        if seen > rows_max {
            return Err(ParquetError::General(
                "a column has more cells than the file has rows".into(),
            ));
        }
        let mut values = values.iter();
        if full == 0 {
            for value in values {
                take(Some(value))?;
            }
        } else {
            for level in levels {
                take(if level == full { values.next() } else { None })?;
            }
        }
    }
}
