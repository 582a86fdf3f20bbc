//! Tables: CSV and Parquet rows become numbers and codes.
//!
//! A file is read as raw cells, columns get a role, means and vocabularies are computed on
//! the training rows, and every row is encoded with them once; a batch only gathers.
//!
//! Refuses to: look at held-out rows for anything but the list of classes.

mod csv;
mod encode;
mod lines;
mod parquet;
mod prepare;
mod raw;
mod report;
mod roles;
mod samples;

use std::path::Path;

use rayon::prelude::*;

pub(super) use prepare::TablePreparation;

use self::encode::{Encoded, encode};
use self::prepare::{LabelPreparation, prepare};
use self::raw::{BYTES_MAX, RawTable};
use self::report::report;
use self::roles::assign;
use self::samples::TableSamples;
use super::batch::{InputShape, TargetShape};
use super::dataset::Opened;
use super::prepared::{Earlier, FileRecord, Preparation};
use super::source::Source;
use super::split::{divide, parts};
use crate::config::{Split, TableData, TableFormat};
use crate::run::Fault;

/// Reads, splits, prepares and encodes the tables of a config.
///
/// # Errors
///
/// See [`super::Dataset::open`].
pub(super) fn open(config: &TableData, seed: u64, earlier: &Earlier) -> Result<Opened, Fault> {
    let (files, tables) = read_all(config)?;
    let known = match earlier.check(&files)? {
        Some(Preparation::Table(known)) => Some(known.clone()),
        _ => None,
    };
    let divided = divide(tables[0].rows, &config.validation, &config.test, seed)?;
    let counts: Vec<usize> = tables.iter().map(|table| table.rows).collect();
    let parts = parts(divided, &config.validation, &config.test, &counts);
    let train = &parts[0].samples;
    let (preparation, findings) = if let Some(known) = known {
        (known, None)
    } else {
        let roles = assign(config, &tables[0], train)?;
        let (made, findings) = prepare(config, &tables[0], train, &roles)?;
        (made, Some(findings))
    };
    let encoded = encode_all(&tables, &preparation, config)?;
    let report =
        findings.map(|findings| report(config, &tables, &encoded, &parts, &preparation, findings));
    Ok(Opened {
        files,
        input: InputShape::Table {
            numeric: preparation.numeric.len(),
            categories: preparation
                .categorical
                .iter()
                .map(|column| column.values.len() + 1)
                .collect(),
        },
        target: match &preparation.label {
            LabelPreparation::Classes(names) => TargetShape::Classes {
                names: names.clone(),
            },
            LabelPreparation::Value { mean, std } => TargetShape::Value {
                mean: *mean,
                std: *std,
            },
        },
        preparation: Preparation::Table(preparation),
        samples: Box::new(TableSamples::new(encoded, &tables, parts)),
        report,
    })
}

/// The training table, then those of parts with files of their own; read side by side.
fn read_all(config: &TableData) -> Result<(Vec<FileRecord>, Vec<RawTable>), Fault> {
    let mut paths = vec![("train", config.train.as_path())];
    for (role, split) in [("validation", &config.validation), ("test", &config.test)] {
        if let Split::Path(path) = split {
            paths.push((role, path));
        }
    }
    paths
        .par_iter()
        .map(|(role, path)| {
            let mut source = Source::read(path, BYTES_MAX)?;
            let record = source.record(*role);
            let table = if is_parquet(config.format, path) {
                parquet::parse(path, std::mem::take(&mut source.bytes))?
            } else {
                csv::parse(&source, delimiter(config, path))?
            };
            Ok((record, table))
        })
        .collect::<Result<Vec<_>, Fault>>()
        .map(|pairs| pairs.into_iter().unzip())
}

/// Whether a file is to be read as Parquet.
fn is_parquet(format: TableFormat, path: &Path) -> bool {
    match format {
        TableFormat::Parquet => true,
        TableFormat::Csv => false,
        TableFormat::Auto => path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")),
    }
}

/// The separator: a tab for `.tsv` files unless the config says another than the comma.
fn delimiter(config: &TableData, path: &Path) -> char {
    let name = path.to_string_lossy().to_lowercase();
    let is_tsv = [".tsv", ".tsv.gz"]
        .iter()
        .any(|ending| name.ends_with(ending));
    if is_tsv && config.delimiter == ',' && config.format == TableFormat::Auto {
        '\t'
    } else {
        config.delimiter
    }
}

fn encode_all(
    tables: &[RawTable],
    preparation: &TablePreparation,
    config: &TableData,
) -> Result<Vec<Encoded>, Fault> {
    tables
        .par_iter()
        .map(|table| encode(table, preparation, &config.label, &config.missing))
        .collect()
}
