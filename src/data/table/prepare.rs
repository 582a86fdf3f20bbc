//! Means, deviations, vocabularies and classes, computed on the training rows alone.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::raw::{Missing, RawColumn, RawTable};
use super::roles::{Roles, look};
use crate::config::{TableData, Task};
use crate::data::mix::BuildMix;
use crate::data::source::file_name;
use crate::data::split::Selection;
use crate::run::Fault;

/// Most classes of a table's label; more are numbers or names, not classes.
const CLASSES_MAX: usize = 1000;

/// Most different integers that `task = "auto"` takes as classes.
const INTEGER_CLASSES_MAX: usize = 20;

/// Most values of a categorical column.
const CATEGORIES_MAX: usize = 1 << 16;

/// Values from which an inferred categorical column may be an identifier.
const IDENTIFIER_MIN: usize = 1000;

/// A numeric column: `x` becomes `(x - shift) / scale`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::data) struct NumericColumn {
    /// Name.
    pub name: String,
    /// What stands in for a missing cell: the mean.
    pub fill: f64,
    /// Subtracted.
    pub shift: f64,
    /// Divided by; never 0.
    pub scale: f64,
}

/// A categorical column. Code 0 is unknown or missing, code `i + 1` is `values[i]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::data) struct CategoricalColumn {
    /// Name.
    pub name: String,
    /// Values of the training rows, sorted.
    pub values: Vec<String>,
}

/// The label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::data) enum LabelPreparation {
    /// One of these, sorted; numbers sort as numbers.
    Classes(Vec<String>),
    /// A number, standardised.
    Value {
        /// Mean.
        mean: f64,
        /// Standard deviation; never 0.
        std: f64,
    },
}

/// What tables are encoded with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::data) struct TablePreparation {
    /// Numeric columns, in the training file's order.
    pub numeric: Vec<NumericColumn>,
    /// Categorical columns, in the training file's order.
    pub categorical: Vec<CategoricalColumn>,
    /// The label.
    pub label: LabelPreparation,
}

/// What preparing found beside the preparation itself.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Missing cells in the training rows by column, where there are any.
    pub missing: Vec<(String, usize)>,
    /// What looks wrong.
    pub warnings: Vec<String>,
}

/// Computes the preparation.
///
/// # Errors
///
/// Damaged for cells that are not what their column is, usage for too many values or classes.
pub(super) fn prepare(
    config: &TableData,
    table: &RawTable,
    train: &Selection,
    roles: &Roles,
) -> Result<(TablePreparation, Findings), Fault> {
    let mut findings = Findings {
        warnings: roles.warnings.clone(),
        ..Findings::default()
    };
    let missing = &Missing::new(&config.missing);
    let (numeric, vocabularies) = rayon::join(
        || {
            let places = roles.numeric.par_iter();
            places
                .map(|&place| Moments::of(missing, table, train, place))
                .collect::<Result<Vec<_>, _>>()
        },
        || {
            let places = roles.categorical.par_iter();
            places
                .map(|&place| Vocabulary::of(&table.columns[place], train, missing))
                .collect::<Vec<_>>()
        },
    );
    let mut prepared = TablePreparation {
        numeric: Vec::new(),
        categorical: Vec::new(),
        label: label(config, table, train, roles.label, &mut findings)?,
    };
    for (&place, moments) in roles.numeric.iter().zip(numeric?) {
        let name = &table.names[place];
        findings.column(name, moments.missing, moments.is_constant());
        prepared
            .numeric
            .push(moments.column(name, config.standardize));
    }
    for (&place, vocabulary) in roles.categorical.iter().zip(vocabularies) {
        let name = &table.names[place];
        let rows = train.len();
        let column = findings.vocabulary(name, vocabulary, rows, roles.categorical_inferred)?;
        prepared.categorical.extend(column);
    }
    if prepared.numeric.is_empty() && prepared.categorical.is_empty() {
        return Err(Fault::usage(format!(
            "no column of {} is left to learn from: all look like identifiers",
            file_name(&table.path)
        )));
    }
    Ok((prepared, findings))
}

impl Findings {
    /// A categorical column, unless it is taken for an identifier.
    fn vocabulary(
        &mut self,
        name: &str,
        vocabulary: Vocabulary,
        rows: usize,
        is_inferred: bool,
    ) -> Result<Option<CategoricalColumn>, Fault> {
        let count = vocabulary.values.len();
        if is_inferred && count > IDENTIFIER_MIN && count * 2 > rows {
            self.warnings.push(format!(
                "column `{name}` is left out: {count} different values in {rows} rows look like an identifier"
            ));
            return Ok(None);
        }
        if count > CATEGORIES_MAX {
            return Err(Fault::usage(format!(
                "categorical column `{name}` has {count} different values, more than {CATEGORIES_MAX}"
            ))
            .advise("name it in data.ignore or data.numeric"));
        }
        self.column(
            name,
            vocabulary.missing,
            count < 2 && vocabulary.missing == 0,
        );
        Ok(Some(CategoricalColumn {
            name: name.to_string(),
            values: vocabulary.values,
        }))
    }

    /// Notes what is odd about a column.
    fn column(&mut self, name: &str, missing: usize, constant: bool) {
        if missing > 0 {
            self.missing.push((name.to_string(), missing));
        }
        if constant {
            self.warnings.push(format!(
                "column `{name}` has one value in all training rows"
            ));
        }
    }
}

/// First moments of a numeric column over the training rows.
struct Moments {
    mean: f64,
    std: f64,
    min: f64,
    max: f64,
    missing: usize,
}

impl Moments {
    /// Two passes in row order: the same bits for any number of threads.
    fn of(
        missing: &Missing,
        table: &RawTable,
        train: &Selection,
        place: usize,
    ) -> Result<Self, Fault> {
        let mut values = Vec::with_capacity(train.len());
        for row in train.iter() {
            match table.columns[place].cell(row).number(missing) {
                Ok(value) => values.extend(value),
                Err(text) => return Err(no_number(table, place, row, &text)),
            }
        }
        if values.is_empty() {
            return Err(Fault::damaged(format!(
                "numeric column `{}` of {} has no value in the training rows",
                table.names[place],
                file_name(&table.path)
            ))
            .advise("name it in data.ignore"));
        }
        let missing = train.len() - values.len();
        Ok(Self::of_values(&values, missing))
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of rows")]
    fn of_values(values: &[f64], missing: usize) -> Self {
        let count = values.len() as f64;
        // Divided before it is summed: cells near the end of the range do not overflow.
        let mean = values.iter().map(|value| value / count).sum::<f64>();
        let variance = values
            .iter()
            .map(|value| (value - mean) * ((value - mean) / count))
            .sum::<f64>();
        Self {
            mean,
            std: variance.sqrt(),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            missing,
        }
    }

    #[expect(
        clippy::float_cmp,
        reason = "the same cell throughout is the same bits"
    )]
    fn is_constant(&self) -> bool {
        self.min == self.max
    }

    /// A scale that can be divided by.
    fn scale(&self) -> f64 {
        if self.is_constant() || !(self.std.is_normal()) {
            1.0
        } else {
            self.std
        }
    }

    fn column(&self, name: &str, standardize: bool) -> NumericColumn {
        let (shift, scale) = if standardize {
            (self.mean, self.scale())
        } else {
            (0.0, 1.0)
        };
        NumericColumn {
            name: name.to_string(),
            fill: self.mean,
            shift,
            scale,
        }
    }
}

/// A cell of a numeric column that is no finite number.
pub(super) fn no_number(table: &RawTable, place: usize, row: usize, text: &str) -> Fault {
    let shown: String = text.chars().take(40).collect();
    let what = if text.parse::<f64>().is_ok() {
        "is not finite"
    } else {
        "is no number"
    };
    Fault::damaged(format!(
        "{} holds `{shown}` in column `{}`, which {what}",
        table.row_name(row),
        table.names[place]
    ))
    .advise("correct the cell, add its text to data.missing, or name the column in data.categorical or data.ignore")
}

/// Different values of a column.
struct Vocabulary {
    values: Vec<String>,
    missing: usize,
}

impl Vocabulary {
    fn of(column: &RawColumn, rows: &Selection, missing: &Missing) -> Self {
        let mut seen: HashSet<Cow<'_, str>, BuildMix> = HashSet::default();
        let mut absent = 0;
        for row in rows.iter() {
            match column.cell(row).category(missing) {
                Some(value) => {
                    if !seen.contains(value.as_ref()) {
                        seen.insert(value);
                    }
                }
                None => absent += 1,
            }
        }
        let mut values: Vec<String> = seen.into_iter().map(Cow::into_owned).collect();
        values.sort_unstable();
        Self {
            values,
            missing: absent,
        }
    }
}

/// What the label is. Classes are those of the whole training file: a class whose few rows were all
/// held out is still a class, and gets a warning.
fn label(
    config: &TableData,
    table: &RawTable,
    train: &Selection,
    place: usize,
    findings: &mut Findings,
) -> Result<LabelPreparation, Fault> {
    let column = &table.columns[place];
    let missing = &Missing::new(&config.missing);
    let all = Selection::All(table.rows);
    let is_class = match config.task {
        Task::Classification => true,
        Task::Regression => false,
        Task::Auto => {
            let look = look(column, train, missing);
            look.texts > 0 || look.flags || few_integers(column, train, missing)
        }
    };
    if !is_class {
        let moments = Moments::of(missing, table, train, place)?;
        if moments.is_constant() {
            findings
                .warnings
                .push("the label has one value in all training rows".into());
        }
        return Ok(LabelPreparation::Value {
            mean: moments.mean,
            std: moments.scale(),
        });
    }
    let mut names = Vocabulary::of(column, &all, missing).values;
    if names.is_empty() {
        return Err(Fault::damaged(format!(
            "label column `{}` of {} has no value",
            config.label,
            file_name(&table.path)
        )));
    }
    if names.len() > CLASSES_MAX {
        return Err(Fault::usage(format!(
            "label column `{}` has {} different values, more than {CLASSES_MAX} classes",
            config.label,
            names.len()
        ))
        .advise("set data.task to \"regression\" if it is a number, or choose another label"));
    }
    names.sort_by(|a, b| by_number(a, b));
    if names.len() == 1 {
        findings
            .warnings
            .push(format!("the label has one class only, `{}`", names[0]));
    }
    for name in &names {
        if names
            .iter()
            .any(|other| other.strip_suffix('.') == Some(name))
        {
            findings.warnings.push(format!(
                "classes `{name}` and `{name}.` differ by a full stop only"
            ));
        }
    }
    Ok(LabelPreparation::Classes(names))
}

/// Whether all numbers are integers, and few different ones.
fn few_integers(column: &RawColumn, rows: &Selection, missing: &Missing) -> bool {
    let mut seen: HashSet<u64, BuildMix> = HashSet::default();
    for row in rows.iter() {
        match column.cell(row).number(missing) {
            Ok(None) => {}
            Ok(Some(number)) if number.fract() == 0.0 => {
                seen.insert(number.to_bits());
                if seen.len() > INTEGER_CLASSES_MAX {
                    return false;
                }
            }
            _ => return false,
        }
    }
    true
}

/// Numbers before text, and in their own order.
pub(in crate::data) fn by_number(a: &str, b: &str) -> Ordering {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(x), Ok(y)) => x.total_cmp(&y).then_with(|| a.cmp(b)),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_agree_with_the_formula_and_large_numbers_do_not_overflow() {
        let moments = Moments::of_values(&[1.0, 2.0, 3.0, 4.0], 0);
        assert!((moments.mean - 2.5).abs() < 1e-15);
        assert!((moments.std - 1.25f64.sqrt()).abs() < 1e-15);
        assert!(Moments::of_values(&[1e308; 10], 0).mean.is_finite());
        assert!(Moments::of_values(&[0.1; 3], 0).is_constant());
        assert!((Moments::of_values(&[0.1; 3], 0).scale() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn classes_sort_as_numbers_where_they_are() {
        let mut names = vec!["10", "9", "b", "a", "-1"];
        names.sort_by(|a, b| by_number(a, b));
        assert_eq!(names, ["-1", "9", "10", "a", "b"]);
    }
}
