//! Which column is what: declared, or inferred from the training rows.

use rayon::prelude::*;

use super::raw::{Cell, Missing, RawColumn, RawTable};
use crate::config::{Columns, TableData};
use crate::data::nearest::{listed, nearest};
use crate::data::source::file_name;
use crate::data::split::Selection;
use crate::run::Fault;

/// Share of numbers from which a column with some text in it deserves a warning.
const MOSTLY: f64 = 0.9;

/// Texts after which a column without any number needs no further look.
const TEXTS_ENOUGH: usize = 64;

/// Columns by role, as places in the table.
#[derive(Debug, Default)]
pub(super) struct Roles {
    /// What is predicted.
    pub label: usize,
    /// Read as numbers.
    pub numeric: Vec<usize>,
    /// Read as categories.
    pub categorical: Vec<usize>,
    /// Whether the categorical columns were inferred, so that identifiers may be dropped.
    pub categorical_inferred: bool,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// Finds the role of every column.
///
/// # Errors
///
/// Usage for names that are no column, two roles for one column, and tables without an input.
pub(super) fn assign(
    config: &TableData,
    table: &RawTable,
    train: &Selection,
) -> Result<Roles, Fault> {
    let mut taken: Vec<Option<&str>> = vec![None; table.names.len()];
    let mut take = |name: &str, key: &'static str| -> Result<usize, Fault> {
        let place = find(table, name, key)?;
        match taken.get_mut(place) {
            Some(slot @ None) => *slot = Some(key),
            Some(Some(other)) => {
                return Err(Fault::usage(format!(
                    "column `{name}` is named in data.{key} and in data.{other}"
                ))
                .advise("name it in one of them"));
            }
            None => {}
        }
        Ok(place)
    };
    let mut roles = Roles {
        label: take(&config.label, "label")?,
        categorical_inferred: config.categorical == Columns::Auto,
        ..Roles::default()
    };
    for name in &config.ignore {
        take(name, "ignore")?;
    }
    for (columns, key, list) in [
        (&config.numeric, "numeric", &mut roles.numeric),
        (&config.categorical, "categorical", &mut roles.categorical),
    ] {
        if let Columns::Named(names) = columns {
            for name in names {
                list.push(take(name, key)?);
            }
        }
    }
    for &place in roles
        .numeric
        .iter()
        .chain(&roles.categorical)
        .chain([&roles.label])
    {
        if let Some(RawColumn::Unusable(kind)) = table.columns.get(place) {
            return Err(Fault::usage(format!(
                "column `{}` of {} is {kind}, which cannot be used",
                table.names[place],
                file_name(&table.path)
            ))
            .advise("name it in data.ignore"));
        }
    }
    let rest: Vec<usize> = (0..table.names.len())
        .filter(|&place| taken[place].is_none())
        .collect();
    infer(config, table, train, &rest, &mut roles);
    if roles.numeric.is_empty() && roles.categorical.is_empty() {
        return Err(Fault::usage(format!(
            "no column of {} is left to learn from",
            file_name(&table.path)
        ))
        .advise("look at data.numeric, data.categorical and data.ignore"));
    }
    roles.numeric.sort_unstable();
    roles.categorical.sort_unstable();
    Ok(roles)
}

/// The place of a column by name.
pub(super) fn find(table: &RawTable, name: &str, key: &str) -> Result<usize, Fault> {
    table.position(name).ok_or_else(|| {
        let fault = Fault::usage(format!(
            "{} has no column `{name}` (data.{key})",
            table.path.display()
        ));
        match nearest(name, table.names.iter().map(String::as_str)) {
            Some(found) => fault.advise(format!("did you mean `{found}`?")),
            None => fault.advise(format!("its columns are {}", listed(&table.names))),
        }
    })
}

/// What the training rows of a column look like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Look {
    /// Cells that are numbers, finite or not.
    pub numbers: usize,
    /// Other cells that are not missing.
    pub texts: usize,
    /// Row of the first of them.
    pub first_text: Option<usize>,
    /// Whether there are truth values.
    pub flags: bool,
}

/// Looks at the selected rows of a column.
pub(super) fn look(column: &RawColumn, rows: &Selection, missing: &Missing) -> Look {
    let mut look = Look::default();
    for row in rows.iter() {
        let cell = column.cell(row);
        match cell.number(missing) {
            Ok(None) => {}
            Ok(Some(_)) => look.numbers += 1,
            // `inf` is meant as a number; reading it will say that it cannot be used.
            Err(text) if text.parse::<f64>().is_ok() => look.numbers += 1,
            Err(_) => {
                look.texts += 1;
                look.first_text.get_or_insert(row);
            }
        }
        look.flags |= matches!(cell, Cell::Flag(_));
        if look.texts >= TEXTS_ENOUGH && look.numbers == 0 {
            break;
        }
    }
    look
}

/// Gives the columns that nobody named a role, where the config leaves room for it.
fn infer(
    config: &TableData,
    table: &RawTable,
    train: &Selection,
    rest: &[usize],
    roles: &mut Roles,
) {
    let auto_numeric = config.numeric == Columns::Auto;
    let auto_categorical = config.categorical == Columns::Auto;
    if !auto_numeric && !auto_categorical {
        return;
    }
    let missing = Missing::new(&config.missing);
    let looks: Vec<Look> = rest
        .par_iter()
        .map(|&place| look(&table.columns[place], train, &missing))
        .collect();
    for (&place, look) in rest.iter().zip(looks) {
        let name = &table.names[place];
        if let RawColumn::Unusable(kind) = &table.columns[place] {
            roles
                .warnings
                .push(format!("column `{name}` is left out: it is {kind}"));
        } else if look.numbers + look.texts == 0 {
            roles.warnings.push(format!(
                "column `{name}` is left out: it has no value in the training rows"
            ));
        } else if look.texts == 0 && auto_numeric && !look.flags {
            roles.numeric.push(place);
        } else if auto_categorical {
            roles.categorical.push(place);
            roles.warnings.extend(mostly_numbers(table, place, look));
        } else {
            roles.warnings.push(format!(
                "column `{name}` is left out: it holds text and is not named in data.categorical"
            ));
        }
    }
}

/// A warning for a column that would be numeric without a few odd cells.
#[expect(clippy::cast_precision_loss, reason = "counts of rows")]
fn mostly_numbers(table: &RawTable, place: usize, look: Look) -> Option<String> {
    let row = look.first_text?;
    let share = look.numbers as f64 / (look.numbers + look.texts) as f64;
    (share >= MOSTLY).then(|| {
        format!(
            "column `{}` is taken as categorical although {:.1} % of its cells are numbers; {} holds text",
            table.names[place],
            share * 100.0,
            table.row_name(row)
        )
    })
}
