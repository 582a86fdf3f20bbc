//! `trainer metrics`: the recorded values, one per line.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::run::{Fault, Step};
use crate::store::{self, MetricQuery, MetricRow};
use crate::ui;

use super::args::Metrics;
use super::outcome::{CommandResult, Outcome};
use super::{json, select};

#[derive(Serialize)]
struct MetricJson<'a> {
    step: u64,
    split: &'a str,
    name: &'a str,
    value: f64,
}

impl<'a> MetricJson<'a> {
    fn new(row: &'a MetricRow) -> Self {
        Self {
            step: row.step.get(),
            split: &row.split,
            name: &row.name,
            value: row.value,
        }
    }
}

/// Prints the values that were asked for, in order of step.
pub(super) fn metrics(args: &Metrics, runs_dir: &Path, out: &mut dyn Write) -> CommandResult {
    let run = select::find(runs_dir, &args.name.run)?;
    let query = MetricQuery {
        split: args.split.clone(),
        name: args.metric.clone(),
        from: args.from.map(Step::new),
    };
    let rows = store::metrics(&run, &query).map_err(Fault::from)?;
    let rows = rows
        .iter()
        .filter(|row| args.to.is_none_or(|to| row.step.get() <= to));
    if args.json {
        for row in rows {
            json::line(&MetricJson::new(row), out)?;
        }
    } else {
        ui::metrics(rows, out)?;
    }
    Ok(Outcome::Done)
}
