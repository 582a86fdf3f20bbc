//! `trainer metrics`: the recorded values, one per line.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::run::Step;
use crate::store::{self, MetricQuery, MetricRow};

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

/// Prints the values that were asked for, in order of step.
pub(super) fn metrics(args: &Metrics, runs_dir: &Path, out: &mut dyn Write) -> CommandResult {
    let run = select::find(runs_dir, &args.name.run)?;
    let query = MetricQuery {
        split: args.split.clone(),
        name: args.metric.clone(),
        from: args.from.map(Step::new),
    };
    let rows = store::metrics(&run, &query).map_err(crate::run::Fault::from)?;
    let rows = rows
        .iter()
        .filter(|row| args.to.is_none_or(|to| row.step.get() <= to));
    if !args.json {
        writeln!(out, "step\tsplit\tname\tvalue")?;
    }
    for row in rows {
        print(row, args.json, out)?;
    }
    Ok(Outcome::Done)
}

fn print(row: &MetricRow, as_json: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let MetricRow {
        step,
        split,
        name,
        value,
    } = row;
    if as_json {
        let row = MetricJson {
            step: step.get(),
            split,
            name,
            value: *value,
        };
        return json::line(&row, out);
    }
    writeln!(out, "{step}\t{split}\t{name}\t{value}")
}
