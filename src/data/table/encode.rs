//! Cells become numbers and codes.

use std::collections::HashMap;

use rayon::prelude::*;

use super::prepare::{
    CategoricalColumn, LabelPreparation, NumericColumn, TablePreparation, no_number,
};
use super::raw::{Missing, RawColumn, RawTable};
use super::roles::find;
use crate::data::mix::BuildMix;
use crate::data::nearest::listed;
use crate::run::Fault;

/// A table ready for batches.
#[derive(Debug)]
pub(super) struct Encoded {
    /// Numeric cells, by column, then row.
    pub numeric: Vec<Vec<f32>>,
    /// Codes of categorical cells, by column, then row.
    pub categorical: Vec<Vec<i32>>,
    /// Label of each row.
    pub label: EncodedLabel,
    /// Cells by categorical column whose value the training rows do not have.
    pub unknown: Vec<usize>,
    /// Labels that were understood after a full stop at their end was dropped.
    pub dotted: usize,
}

/// Labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EncodedLabel {
    /// Class numbers.
    Classes(Vec<i32>),
    /// Standardised numbers.
    Values(Vec<f32>),
}

/// Encodes all rows of a table; its columns are found by name.
///
/// # Errors
///
/// Usage when a column is not there, damaged for a cell or label that does not fit, with its row.
pub(super) fn encode(
    table: &RawTable,
    preparation: &TablePreparation,
    label: &str,
    missing: &[String],
) -> Result<Encoded, Fault> {
    let missing = &Missing::new(missing);
    let (numeric, (categorical, labels)) = rayon::join(
        || {
            preparation
                .numeric
                .par_iter()
                .map(|column| numbers(table, column, missing))
                .collect::<Result<Vec<_>, Fault>>()
        },
        || {
            rayon::join(
                || {
                    preparation
                        .categorical
                        .par_iter()
                        .map(|column| codes(table, column, missing))
                        .collect::<Result<Vec<_>, Fault>>()
                },
                || labels(table, &preparation.label, label, missing),
            )
        },
    );
    let (label, dotted) = labels?;
    let (categorical, unknown) = categorical?.into_iter().unzip();
    Ok(Encoded {
        numeric: numeric?,
        categorical,
        label,
        unknown,
        dotted,
    })
}

fn numbers(table: &RawTable, column: &NumericColumn, missing: &Missing) -> Result<Vec<f32>, Fault> {
    let place = find(table, &column.name, "numeric")?;
    scaled(
        table,
        place,
        missing,
        column.shift,
        column.scale,
        Some(column.fill),
    )
}

/// Numbers of a column, shifted and scaled. Without `fill`, a missing cell is a fault.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn scaled(
    table: &RawTable,
    place: usize,
    missing: &Missing,
    shift: f64,
    scale: f64,
    fill: Option<f64>,
) -> Result<Vec<f32>, Fault> {
    let cells = &table.columns[place];
    (0..table.rows)
        .map(|row| {
            let number = match cells.cell(row).number(missing) {
                Ok(Some(number)) => number,
                Ok(None) => fill.ok_or_else(|| no_label(table, row))?,
                Err(text) => return Err(no_number(table, place, row, &text)),
            };
            let value = ((number - shift) / scale) as f32;
            if value.is_finite() {
                Ok(value)
            } else {
                Err(Fault::damaged(format!(
                    "{} holds {number:e} in column `{}`, which is too large for 32-bit numbers",
                    table.row_name(row),
                    table.names[place]
                ))
                .advise("correct the cell or rescale the column"))
            }
        })
        .collect()
}

fn codes(
    table: &RawTable,
    column: &CategoricalColumn,
    missing: &Missing,
) -> Result<(Vec<i32>, usize), Fault> {
    let cells = &table.columns[find(table, &column.name, "categorical")?];
    let known = numbered(&column.values, 1);
    let mut unknown = 0;
    let codes = (0..table.rows)
        .map(|row| {
            let Some(value) = cells.cell(row).category(missing) else {
                return 0;
            };
            known.get(value.as_ref()).copied().unwrap_or_else(|| {
                unknown += 1;
                0
            })
        })
        .collect();
    Ok((codes, unknown))
}

/// Number of each name, from `first` on.
fn numbered(names: &[String], first: i32) -> HashMap<&str, i32, BuildMix> {
    names.iter().map(String::as_str).zip(first..).collect()
}

fn labels(
    table: &RawTable,
    label: &LabelPreparation,
    name: &str,
    missing: &Missing,
) -> Result<(EncodedLabel, usize), Fault> {
    let place = find(table, name, "label")?;
    match label {
        LabelPreparation::Value { mean, std } => {
            let values = scaled(table, place, missing, *mean, *std, None)?;
            Ok((EncodedLabel::Values(values), 0))
        }
        LabelPreparation::Classes(names) => {
            let (classes, dotted) = classes(table, &table.columns[place], names, missing)?;
            Ok((EncodedLabel::Classes(classes), dotted))
        }
    }
}

fn classes(
    table: &RawTable,
    cells: &RawColumn,
    names: &[String],
    missing: &Missing,
) -> Result<(Vec<i32>, usize), Fault> {
    let known = numbered(names, 0);
    let mut dotted = 0;
    let classes = (0..table.rows)
        .map(|row| {
            let value = cells
                .cell(row)
                .category(missing)
                .ok_or_else(|| no_label(table, row))?;
            if let Some(&class) = known.get(value.as_ref()) {
                return Ok(class);
            }
            // The UCI Adult test file ends its labels with a full stop.
            if let Some(&class) = value.strip_suffix('.').and_then(|stem| known.get(stem)) {
                dotted += 1;
                return Ok(class);
            }
            Err(no_class(table, row, &value, names))
        })
        .collect::<Result<Vec<_>, Fault>>()?;
    Ok((classes, dotted))
}

fn no_label(table: &RawTable, row: usize) -> Fault {
    Fault::damaged(format!("{} has no label", table.row_name(row)))
        .advise("give it one or remove the row")
}

fn no_class(table: &RawTable, row: usize, value: &str, names: &[String]) -> Fault {
    let shown: String = value.chars().take(40).collect();
    Fault::damaged(format!(
        "{} has label `{shown}`, which is no class of the training file: {}",
        table.row_name(row),
        listed(names)
    ))
    .advise("correct or remove the row, or add training rows of that class")
}
