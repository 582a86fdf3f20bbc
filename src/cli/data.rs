//! `trainer data inspect`: the data as a run would see them, on one screen.

use std::io::{self, Write};

use serde::Serialize;

use crate::data::Dataset;
use crate::run::{DataSummary, PartSummary};
use crate::ui::{Table, Tone, count, printable};

use super::args::{ConfigFile, DataCommand};
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

/// Reads, splits and validates, as a run does before its first step; writes nothing.
pub(super) fn data(command: &DataCommand, out: &mut dyn Write) -> CommandResult {
    let DataCommand::Inspect(file) = command;
    inspect(file, out)
}

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
