//! What validation has to say about a table.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use rayon::prelude::*;

use super::encode::{Encoded, EncodedLabel};
use super::prepare::{Findings, LabelPreparation, TablePreparation};
use super::raw::{Cell, RawColumn, RawTable};
use crate::config::TableData;
use crate::data::batch::Part;
use crate::data::dataset::Report;
use crate::data::mix::{BuildMix, Mix};
use crate::data::nearest::listed;
use crate::data::split::PartSamples;
use crate::run::{ClassCount, PartSummary};

/// Looks at parts, classes, unknown categories and rows that are in two parts.
pub(super) fn report(
    config: &TableData,
    tables: &[RawTable],
    encoded: &[Encoded],
    parts: &[PartSamples],
    preparation: &TablePreparation,
    findings: Findings,
) -> Report {
    let mut report = Report {
        warnings: findings.warnings,
        ..Report::default()
    };
    for part in parts {
        report.parts.push(PartSummary {
            split: part.part.split().to_string(),
            samples: part.samples.len() as u64,
            classes: class_counts(part, &encoded[part.source], &preparation.label),
        });
    }
    columns(
        &mut report,
        config,
        &tables[0],
        preparation,
        &findings.missing,
    );
    let absent: Vec<String> = report
        .parts
        .first()
        .map(|train| {
            let empty = train.classes.iter().filter(|class| class.count == 0);
            empty.map(|class| class.class.clone()).collect()
        })
        .unwrap_or_default();
    if !absent.is_empty() {
        report
            .warnings
            .push(format!("no training row has class {}", listed(&absent)));
    }
    let held_out: Vec<&PartSamples> = parts
        .iter()
        .filter(|part| part.part != Part::Train)
        .collect();
    let Some(train) = parts.first().filter(|_| !held_out.is_empty()) else {
        return report;
    };
    let used = preparation.numeric.len() + preparation.categorical.len() + 1;
    let known = Known::of(tables, encoded, train, used);
    for part in held_out {
        let table = &encoded[part.source];
        if part.source > 0 {
            unknown(&mut report, part, table, preparation);
        }
        if part.source > 0 && table.dotted > 0 {
            report.warnings.push(format!(
                "{} labels of {} end in a full stop, which was dropped",
                table.dotted,
                tables[part.source].path.display()
            ));
        }
        report.warnings.extend(known.warning(tables, encoded, part));
    }
    report
}

fn class_counts(part: &PartSamples, table: &Encoded, label: &LabelPreparation) -> Vec<ClassCount> {
    let (LabelPreparation::Classes(names), EncodedLabel::Classes(labels)) = (label, &table.label)
    else {
        return Vec::new();
    };
    let mut counts = vec![0u64; names.len()];
    for row in part.samples.iter() {
        let class = usize::try_from(labels[row]).ok();
        if let Some(count) = class.and_then(|class| counts.get_mut(class)) {
            *count += 1;
        }
    }
    names
        .iter()
        .zip(counts)
        .map(|(class, count)| ClassCount {
            class: class.clone(),
            count,
        })
        .collect()
}

fn columns(
    report: &mut Report,
    config: &TableData,
    table: &RawTable,
    preparation: &TablePreparation,
    missing: &[(String, usize)],
) {
    match &preparation.label {
        LabelPreparation::Classes(names) => {
            report.fact(
                "label",
                format!("{}, {} classes", config.label, names.len()),
            );
        }
        LabelPreparation::Value { mean, std } => report.fact(
            "label",
            format!(
                "{}, a number, mean {mean:.6}, deviation {std:.6}",
                config.label
            ),
        ),
    }
    let numeric: Vec<&str> = preparation
        .numeric
        .iter()
        .map(|c| c.name.as_str())
        .collect();
    if !numeric.is_empty() {
        let how = if config.standardize {
            ", standardised"
        } else {
            ""
        };
        report.fact(
            &format!("numeric ({}{how})", numeric.len()),
            numeric.join(", "),
        );
    }
    let categorical: Vec<String> = preparation
        .categorical
        .iter()
        .map(|column| format!("{} {}", column.name, column.values.len()))
        .collect();
    if !categorical.is_empty() {
        report.fact(
            &format!("categorical ({}, with values)", categorical.len()),
            categorical.join(", "),
        );
    }
    left_out(report, config, table, preparation);
    if !missing.is_empty() {
        let listed: Vec<String> = missing
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        report.fact("missing in train", listed.join(", "));
    }
}

/// Columns of the training file that have no role.
fn left_out(
    report: &mut Report,
    config: &TableData,
    table: &RawTable,
    preparation: &TablePreparation,
) {
    let numeric = preparation
        .numeric
        .iter()
        .map(|column| column.name.as_str());
    let categorical = preparation
        .categorical
        .iter()
        .map(|column| column.name.as_str());
    let used: HashSet<&str> = numeric
        .chain(categorical)
        .chain([config.label.as_str()])
        .collect();
    let left: Vec<&str> = table
        .names
        .iter()
        .map(String::as_str)
        .filter(|name| !used.contains(name))
        .collect();
    if !left.is_empty() {
        report.fact("not used", left.join(", "));
    }
}

fn unknown(
    report: &mut Report,
    part: &PartSamples,
    table: &Encoded,
    preparation: &TablePreparation,
) {
    let listed: Vec<String> = preparation
        .categorical
        .iter()
        .zip(&table.unknown)
        .filter(|&(_, &count)| count > 0)
        .map(|(column, count)| format!("{} {count}", column.name))
        .collect();
    if !listed.is_empty() {
        report.fact(
            &format!("unknown in {}", part.part.split()),
            listed.join(", "),
        );
    }
}

/// Hashes of the training rows, for finding them again.
struct Known {
    /// Of what the model sees, label included.
    encoded: HashSet<u64, BuildMix>,
    /// Of all cells as they stand; empty when the model sees all columns.
    raw: HashSet<u64, BuildMix>,
}

impl Known {
    fn of(tables: &[RawTable], encoded: &[Encoded], train: &PartSamples, used: usize) -> Self {
        let table = &tables[train.source];
        let rows: Vec<usize> = train.samples.iter().collect();
        let seen = |row: &usize| encoded_hash(&encoded[train.source], *row);
        let places: Vec<usize> = (0..table.columns.len()).collect();
        let raw = if used < places.len() {
            let whole = |row: &usize| raw_hash(table, &places, *row);
            rows.par_iter().map(whole).collect::<Vec<u64>>()
        } else {
            Vec::new()
        };
        Self {
            encoded: rows
                .par_iter()
                .map(seen)
                .collect::<Vec<u64>>()
                .into_iter()
                .collect(),
            raw: raw.into_iter().collect(),
        }
    }

    /// Rows of a held-out part that the model cannot tell from a training row; and how many of
    /// these are the same in the columns that are not used, too.
    #[expect(clippy::cast_precision_loss, reason = "counts of rows")]
    fn warning(
        &self,
        tables: &[RawTable],
        encoded: &[Encoded],
        part: &PartSamples,
    ) -> Option<String> {
        let (table, rows) = (&tables[part.source], part.samples.len());
        let same: Vec<usize> = part
            .samples
            .iter()
            .filter(|&row| {
                self.encoded
                    .contains(&encoded_hash(&encoded[part.source], row))
            })
            .collect();
        if same.is_empty() {
            return None;
        }
        // The training file's columns, where this file has them.
        let places: Option<Vec<usize>> = tables[0]
            .names
            .iter()
            .map(|name| table.position(name))
            .collect();
        let twins = match places {
            Some(places) if !self.raw.is_empty() => {
                let is_twin = |row: &&usize| self.raw.contains(&raw_hash(table, &places, **row));
                let count = same.iter().filter(is_twin).count();
                format!("; {count} of them also in the columns not used")
            }
            _ => String::new(),
        };
        Some(format!(
            "{} of {rows} rows in {} ({:.2} %) are in train too, label included{twins}",
            same.len(),
            part.part.split(),
            100.0 * same.len() as f64 / rows as f64
        ))
    }
}

fn encoded_hash(table: &Encoded, row: usize) -> u64 {
    let mut mix = Mix::default();
    for column in &table.numeric {
        mix.write_u32(column[row].to_bits());
    }
    for column in &table.categorical {
        mix.write_i32(column[row]);
    }
    match &table.label {
        EncodedLabel::Classes(labels) => mix.write_i32(labels[row]),
        EncodedLabel::Values(labels) => mix.write_u32(labels[row].to_bits()),
    }
    mix.finish()
}

fn raw_hash(table: &RawTable, columns: &[usize], row: usize) -> u64 {
    let mut mix = Mix::default();
    for &place in columns {
        match table
            .columns
            .get(place)
            .map_or(Cell::Null, |column: &RawColumn| column.cell(row))
        {
            Cell::Null => mix.write_u8(0),
            Cell::Text(text) => text.hash(&mut mix),
            Cell::Number(number) => mix.write_u64(number.to_bits()),
            Cell::Flag(flag) => mix.write_u8(1 + u8::from(flag)),
        }
    }
    mix.finish()
}
