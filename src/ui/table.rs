//! Tables and pages for queries: aligned, as wide as the terminal, harmless.

use std::io::{self, Write};
use std::path::Path;

use super::human::{
    ago, bytes, count, cut, duration, moment, number, precise, printable, short_hash, width,
};
use super::style::{Style, Tone};
use crate::run::{RunState, RunSummary, Step};
use crate::store::MetricRow;

/// Spaces between columns.
const GAP: usize = 2;

/// No column is cut to fewer cells than this.
const COLUMN_MIN: usize = 8;

/// Rows of text cells in aligned columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    header: Option<Vec<String>>,
    rows: Vec<Vec<(Tone, String)>>,
    /// Columns whose cells end, rather than start, at the same place.
    right: Vec<usize>,
    columns_max: Option<usize>,
    style: Option<Style>,
}

impl Table {
    /// A table with a header row; without names it has none.
    #[must_use]
    pub fn new(header: &[&str]) -> Self {
        let names = header.iter().map(ToString::to_string).collect();
        Self {
            header: (!header.is_empty()).then_some(names),
            ..Self::default()
        }
    }

    /// With these columns aligned at their right end.
    #[must_use]
    pub fn right(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    /// No wider than this, if anything: the widest columns are cut. Without a terminal nothing is.
    #[must_use]
    pub fn fit(mut self, columns: Option<usize>) -> Self {
        self.columns_max = columns;
        self
    }

    /// With or without colours.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.style = Some(style);
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.toned_row(cells.into_iter().map(|cell| (Tone::Normal, cell)).collect());
    }

    /// Adds a row of cells with a meaning each.
    pub fn toned_row(&mut self, cells: Vec<(Tone, String)>) {
        let cells = cells
            .into_iter()
            .map(|(tone, cell)| (tone, printable(&cell)));
        self.rows.push(cells.collect());
    }

    /// Prints all rows, each after `indent` spaces.
    ///
    /// # Errors
    ///
    /// When the output cannot be written.
    pub fn print(&self, indent: usize, out: &mut dyn Write) -> io::Result<()> {
        let widths = self.widths(indent);
        if let Some(header) = &self.header {
            let cells = header.iter().map(|name| (Tone::Strong, name.as_str()));
            self.line(indent, &widths, cells, out)?;
        }
        for row in &self.rows {
            let cells = row.iter().map(|(tone, cell)| (*tone, cell.as_str()));
            self.line(indent, &widths, cells, out)?;
        }
        Ok(())
    }

    fn line<'a>(
        &self,
        indent: usize,
        widths: &[usize],
        cells: impl Iterator<Item = (Tone, &'a str)>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let style = self.style.unwrap_or(Style::PLAIN);
        let mut line = " ".repeat(indent);
        let mut gap = 0;
        for (column, ((tone, cell), &columns)) in cells.zip(widths).enumerate() {
            let cell = cut(cell, columns);
            let fill = columns - width(&cell);
            let (before, after) = if self.right.contains(&column) {
                (fill, 0)
            } else {
                (0, fill)
            };
            line.push_str(&" ".repeat(gap + before));
            line.push_str(&style.paint(tone, &cell));
            gap = after + GAP;
        }
        writeln!(out, "{}", line.trim_end())
    }

    fn widths(&self, indent: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = Vec::new();
        let header = self.header.iter().map(|names| {
            let texts: Vec<&str> = names.iter().map(String::as_str).collect();
            texts
        });
        let rows = self
            .rows
            .iter()
            .map(|row| row.iter().map(|(_, cell)| cell.as_str()).collect());
        for row in header.chain(rows) {
            widths.resize(widths.len().max(row.len()), 0);
            for (columns, cell) in widths.iter_mut().zip(row) {
                *columns = (*columns).max(width(cell));
            }
        }
        let gaps = widths.len().saturating_sub(1) * GAP;
        let room = self
            .columns_max
            .map_or(usize::MAX, |max| max.saturating_sub(indent + gaps));
        // Cut where it hurts least: column by column the widest.
        let mut total: usize = widths.iter().sum();
        while total > room {
            let Some(widest) = widths.iter_mut().max().filter(|w| **w > COLUMN_MIN) else {
                break;
            };
            *widest -= 1;
            total -= 1;
        }
        widths
    }
}

/// A run in a list.
#[derive(Clone, Copy, Debug)]
pub struct RunRow<'a> {
    /// Its record, with the state that an onlooker should see.
    pub summary: &'a RunSummary,
    /// Whether a supervisor works on it.
    pub alive: bool,
}

/// Prints a list of runs.
///
/// # Errors
///
/// When the output cannot be written.
pub fn runs(
    rows: &[RunRow<'_>],
    now_ms: u64,
    columns: Option<usize>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut table = Table::new(&["NAME", "STATE", "PROGRESS", "BEST", "UPDATED"])
        .fit(columns)
        .style(style);
    for RunRow { summary, .. } in rows {
        let best = summary.best.as_ref().map_or_else(
            || "-".into(),
            |best| format!("{} {}", best.metric, number(best.value)),
        );
        table.toned_row(vec![
            (Tone::Normal, summary.name.clone()),
            (tone(summary.state), summary.state.to_string()),
            (Tone::Normal, progress(summary)),
            (Tone::Normal, best),
            (Tone::Faint, ago(summary.updated_ms, now_ms)),
        ]);
    }
    table.print(0, out)
}

/// Prints a run on one page.
///
/// # Errors
///
/// When the output cannot be written.
pub fn run(
    row: RunRow<'_>,
    directory: &Path,
    checkpoints_of_run: &[CheckpointRow],
    columns: Option<usize>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let RunRow { summary, alive } = row;
    let state = style.paint(tone(summary.state), &summary.state.to_string());
    let name = style.paint(Tone::Strong, &printable(&summary.name));
    writeln!(out, "{name}  {state}")?;
    facts(summary, directory, alive, columns, style).print(2, out)?;
    if !summary.metrics.is_empty() {
        writeln!(out, "\n{}", style.paint(Tone::Strong, "last metrics"))?;
        last_metrics(summary, columns, style).print(2, out)?;
    }
    if !checkpoints_of_run.is_empty() {
        writeln!(out, "\n{}", style.paint(Tone::Strong, "checkpoints"))?;
        checkpoint_table(checkpoints_of_run, columns, style).print(2, out)?;
    }
    Ok(())
}

fn facts(
    summary: &RunSummary,
    directory: &Path,
    alive: bool,
    columns: Option<usize>,
    style: Style,
) -> Table {
    let mut table = Table::new(&[]).fit(columns).style(style);
    let mut fact = |label: &str, value: String| {
        if !value.is_empty() {
            table.toned_row(vec![(Tone::Faint, label.into()), (Tone::Normal, value)]);
        }
    };
    fact("reason", summary.reason.clone());
    fact("id", summary.id.to_string());
    fact("directory", directory.display().to_string());
    fact(
        "supervisor",
        if alive { "alive" } else { "not running" }.into(),
    );
    fact("created", moment(summary.created_ms));
    let lasted = summary.updated_ms.saturating_sub(summary.created_ms);
    let lasted = duration(precise(lasted) / 1000.0);
    fact(
        "updated",
        format!("{} (after {lasted})", moment(summary.updated_ms)),
    );
    fact("progress", progress(summary));
    fact("attempts", summary.attempts.to_string());
    if summary.workers > 0 {
        fact("workers", summary.workers.to_string());
    }
    if let Some(best) = &summary.best {
        let value = number(best.value);
        fact(
            "best",
            format!("{} {value} at step {}", best.metric, best.step),
        );
    }
    if summary.parameters > 0 {
        fact("parameters", count(summary.parameters));
    }
    if summary.peak_bytes > 0 {
        fact("peak memory", bytes(summary.peak_bytes));
    }
    fact("config", short_hash(&summary.config_sha256).into());
    fact("data", short_hash(&summary.data_fingerprint).into());
    table
}

fn last_metrics(summary: &RunSummary, columns: Option<usize>, style: Style) -> Table {
    let mut table = Table::new(&["SPLIT", "NAME", "VALUE", "STEP"])
        .right(&[3])
        .fit(columns)
        .style(style);
    for (split, values) in &summary.metrics {
        for (name, point) in values {
            table.row(vec![
                split.clone(),
                name.clone(),
                number(point.value),
                point.step.to_string(),
            ]);
        }
    }
    table
}

/// Prints recorded values, a line each, separated by tabs: every digit, for other programs too.
///
/// # Errors
///
/// When the output cannot be written.
pub fn metrics<'a>(
    rows: impl IntoIterator<Item = &'a MetricRow>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "step\tsplit\tname\tvalue")?;
    for row in rows {
        let (split, name) = (printable(&row.split), printable(&row.name));
        writeln!(out, "{}\t{split}\t{name}\t{}", row.step, row.value)?;
    }
    Ok(())
}

/// A checkpoint in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointRow {
    /// Its step.
    pub step: Step,
    /// Path of its folder.
    pub path: String,
    /// Bytes of its files, if its manifest can be read.
    pub bytes: Option<u64>,
    /// Value of the metric that `best` goes by.
    pub metric: Option<f64>,
    /// SHA-256 of the model, if its manifest can be read.
    pub model_sha256: Option<String>,
    /// Whether it verified; `None` when nobody looked.
    pub verified: Option<bool>,
    /// What is wrong with it.
    pub problem: Option<String>,
}

/// Prints a list of checkpoints; what is wrong with them follows below.
///
/// # Errors
///
/// When the output cannot be written.
pub fn checkpoints(
    rows: &[CheckpointRow],
    columns: Option<usize>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    checkpoint_table(rows, columns, style).print(0, out)?;
    for row in rows {
        if let Some(problem) = &row.problem {
            writeln!(out, "{}", style.paint(Tone::Bad, &printable(problem)))?;
        }
    }
    Ok(())
}

fn checkpoint_table(rows: &[CheckpointRow], columns: Option<usize>, style: Style) -> Table {
    let mut table = Table::new(&["STEP", "SIZE", "METRIC", "MODEL", "STATE", "PATH"])
        .right(&[0, 1])
        .fit(columns)
        .style(style);
    for row in rows {
        let (tone, state) = match (row.verified, &row.problem) {
            (Some(false), _) | (_, Some(_)) => (Tone::Bad, "damaged"),
            (Some(true), None) => (Tone::Good, "verified"),
            (None, None) => (Tone::Faint, "not read"),
        };
        let unknown = || "?".to_string();
        let hash = row.model_sha256.as_deref().map(short_hash);
        table.toned_row(vec![
            (Tone::Normal, row.step.to_string()),
            (Tone::Normal, row.bytes.map_or_else(unknown, bytes)),
            (Tone::Normal, row.metric.map_or_else(|| "-".into(), number)),
            (Tone::Faint, hash.map_or_else(unknown, Into::into)),
            (tone, state.into()),
            (Tone::Normal, row.path.clone()),
        ]);
    }
    table
}

/// Finished steps, of how many when that is known.
fn progress(summary: &RunSummary) -> String {
    match summary.steps_total {
        0 => format!("step {}", summary.step),
        total => {
            let share = precise(summary.step.get()) / precise(total) * 100.0;
            let percent = share.floor().min(100.0);
            format!("{}/{total} ({percent} %)", summary.step)
        }
    }
}

fn tone(state: RunState) -> Tone {
    match state {
        RunState::Completed | RunState::EarlyStopped => Tone::Good,
        RunState::Failed => Tone::Bad,
        RunState::Paused | RunState::Pausing | RunState::Cancelled => Tone::Warning,
        RunState::Queued | RunState::Starting | RunState::Running => Tone::Strong,
    }
}
