//! `trainer show`: one run on one page.

use std::io::{self, Write};
use std::path::Path;

use super::args::Query;
use super::json::{self, CheckpointJson, RunJson};
use super::outcome::{CommandResult, Outcome};
use super::select::Standing;
use super::table::{self, Table};
use super::{checkpoints, ls};

/// Prints a run. Only JSON says whether checkpoints verify: that takes as long as reading them.
pub(super) fn show(args: &Query, runs_dir: &Path, out: &mut dyn Write) -> CommandResult {
    let standing = Standing::find(runs_dir, &args.name.run)?;
    let found = checkpoints::look(&standing, args.json)?;
    if args.json {
        json::pretty(&RunJson::full(&standing, found), out)?;
    } else {
        print(&standing, &found, out)?;
    }
    Ok(Outcome::Done)
}

fn print(standing: &Standing, found: &[CheckpointJson], out: &mut dyn Write) -> io::Result<()> {
    let summary = &standing.summary;
    writeln!(
        out,
        "{}: {}",
        table::printable(&summary.name),
        summary.state
    )?;
    let mut facts = Table::default();
    let mut fact = |label: &str, value: String| facts.row(&[label.to_string(), value]);
    fact("reason", summary.reason.clone());
    fact("id", summary.id.to_string());
    fact("directory", standing.run.root().display().to_string());
    fact("created", table::moment(summary.created_ms));
    fact("updated", table::moment(summary.updated_ms));
    fact("step", ls::progress(summary));
    fact("attempts", summary.attempts.to_string());
    if let Some(best) = &summary.best {
        let value = table::number(best.value);
        fact(
            "best",
            format!("{} {value} at step {}", best.metric, best.step),
        );
    }
    fact("parameters", table::count(summary.parameters));
    fact("peak memory", table::bytes(summary.peak_bytes));
    fact("config", summary.config_sha256.clone());
    fact("data", summary.data_fingerprint.clone());
    facts.print(2, out)?;
    if !summary.metrics.is_empty() {
        writeln!(out, "\nlast metrics")?;
        let mut rows = Table::new(&["SPLIT", "NAME", "STEP", "VALUE"]).right(&[2]);
        for (split, values) in &summary.metrics {
            for (name, at) in values {
                rows.row(&[
                    split.clone(),
                    name.clone(),
                    at.step.to_string(),
                    table::number(at.value),
                ]);
            }
        }
        rows.print(2, out)?;
    }
    if !found.is_empty() {
        writeln!(out, "\ncheckpoints")?;
        checkpoints::print(found, 2, out)?;
    }
    Ok(())
}
