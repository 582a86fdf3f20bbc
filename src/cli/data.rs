//! `trainer data inspect`: the data as a run would see them, on one screen. `trainer data bench`: how
//! fast they become batches.

use std::io::{self, Write};

use serde::Serialize;

use crate::bench::{self, Loading};
use crate::data::Dataset;
use crate::run::{DataSummary, PartSummary};
use crate::ui::{Table, Tone, count, printable};

use super::args::{ConfigFile, DataBench, DataCommand};
use super::json::{self, FORMAT};
use super::load::load;
use super::outcome::{CommandResult, Outcome};
use super::screen::Screen;

/// Most classes that are listed for a part; the rest is counted.
const CLASSES_SHOWN: usize = 12;

#[derive(Serialize)]
struct DataJson<'a> {
    format: u32,
    kind: &'a str,
    fingerprint: &'a str,
    parts: &'a [PartSummary],
    facts: &'a [(String, String)],
    warnings: &'a [String],
    seconds: f64,
}

#[derive(Serialize)]
struct LoadingJson<'a> {
    format: u32,
    kind: &'a str,
    samples: u64,
    open_seconds: f64,
    batches: u64,
    delivered: u64,
    seconds: f64,
    core_seconds: f64,
    samples_per_s: f64,
    samples_per_core_s: f64,
}

/// Looks at data in one way or another.
pub(super) fn data(command: &DataCommand, out: &mut dyn Write) -> CommandResult {
    match command {
        DataCommand::Inspect(file) => inspect(file, out),
        DataCommand::Bench(args) => measure(args, out),
    }
}

/// Takes batches as fast as they come.
fn measure(args: &DataBench, out: &mut dyn Write) -> CommandResult {
    let config = load(&args.file.config, &args.file.set.set)?.config;
    let found = bench::loading(&config, args.seconds)?;
    if args.file.json {
        let shown = LoadingJson {
            format: FORMAT,
            kind: &found.kind,
            samples: found.samples,
            open_seconds: found.open_seconds,
            batches: found.batches,
            delivered: found.delivered,
            seconds: found.seconds,
            core_seconds: found.core_seconds,
            samples_per_s: found.samples_per_s(),
            samples_per_core_s: found.samples_per_core_s(),
        };
        json::pretty(&shown, out)?;
    } else {
        print_loading(&found, out)?;
    }
    Ok(Outcome::Done)
}

fn print_loading(found: &Loading, out: &mut dyn Write) -> io::Result<()> {
    let screen = Screen::stdout();
    let mut facts = Table::new(&[]).fit(screen.columns).style(screen.style);
    let mut fact = |label: &str, value: String| {
        facts.toned_row(vec![
            (Tone::Faint, label.to_string()),
            (Tone::Normal, value),
        ]);
    };
    let (samples, opened) = (count(found.samples), found.open_seconds);
    fact("data", format!("{}, {samples} samples", found.kind));
    fact("opened in", format!("{opened:.3} s"));
    let (delivered, seconds) = (count(found.delivered), found.seconds);
    let batches = count(found.batches);
    fact(
        "delivered",
        format!("{delivered} samples in {batches} batches in {seconds:.1} s"),
    );
    fact("samples", format!("{:.0} a second", found.samples_per_s()));
    let per_core = found.samples_per_core_s();
    let cores = found.core_seconds / seconds;
    fact(
        "per core",
        format!("{per_core:.0} a second, on {cores:.1} cores"),
    );
    facts.print(0, out)
}

/// Reads, splits and validates, as a run does before its first step; writes nothing.
fn inspect(file: &ConfigFile, out: &mut dyn Write) -> CommandResult {
    let config = load(&file.config, &file.set.set)?.config;
    let dataset = Dataset::open(&config.data, config.seed, None)?;
    let summary = dataset.summary();
    if file.json {
        let shown = DataJson {
            format: FORMAT,
            kind: &summary.kind,
            fingerprint: &summary.fingerprint,
            parts: &summary.parts,
            facts: &summary.facts,
            warnings: &summary.warnings,
            seconds: summary.seconds,
        };
        json::pretty(&shown, out)?;
    } else {
        print(summary, out)?;
    }
    Ok(Outcome::Done)
}

fn print(summary: &DataSummary, out: &mut dyn Write) -> io::Result<()> {
    let screen = Screen::stdout();
    let mut facts = Table::new(&[]).fit(screen.columns).style(screen.style);
    let mut fact = |label: &str, value: String| {
        facts.toned_row(vec![
            (Tone::Faint, label.to_string()),
            (Tone::Normal, value),
        ]);
    };
    fact("kind", summary.kind.clone());
    fact("fingerprint", summary.fingerprint.clone());
    for part in &summary.parts {
        fact(&part.split, part_in_words(part));
    }
    for (label, value) in &summary.facts {
        fact(label, value.clone());
    }
    facts.print(0, out)?;
    for warning in &summary.warnings {
        let text = format!("warning: {}", printable(warning));
        writeln!(out, "{}", screen.style.paint(Tone::Warning, &text))?;
    }
    Ok(())
}

fn part_in_words(part: &PartSummary) -> String {
    let mut text = format!("{} samples", count(part.samples));
    let shown: Vec<String> = part
        .classes
        .iter()
        .take(CLASSES_SHOWN)
        .map(|class| format!("{} {}", class.class, count(class.count)))
        .collect();
    if !shown.is_empty() {
        text.push_str(": ");
        text.push_str(&shown.join(", "));
    }
    if part.classes.len() > CLASSES_SHOWN {
        text.push_str(", …");
    }
    text
}
