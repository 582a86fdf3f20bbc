//! The summary of the data as text.

use std::fmt::Write as _;

use crate::run::{DataSummary, PartSummary};

/// Widest line.
const WIDTH: usize = 100;

/// Most facts, classes and warnings that are shown; the record has all of them.
const FACTS_MAX: usize = 12;
const CLASSES_MAX: usize = 12;
const WARNINGS_MAX: usize = 8;

/// The summary on one screen, without colour, each line at most 100 characters wide.
#[must_use]
pub fn render_summary(summary: &DataSummary) -> String {
    let mut text = String::new();
    let fingerprint = summary
        .fingerprint
        .get(..12)
        .unwrap_or(&summary.fingerprint);
    line(
        &mut text,
        &format!(
            "data: {}, fingerprint {fingerprint}, prepared in {:.0} ms",
            summary.kind,
            summary.seconds * 1000.0
        ),
    );
    for part in &summary.parts {
        line(
            &mut text,
            &format!(
                "  {:<6} {:>10} samples{}",
                part.split,
                part.samples,
                classes(part)
            ),
        );
    }
    let labels = summary
        .facts
        .iter()
        .take(FACTS_MAX)
        .map(|(label, _)| label.chars().count());
    let wide = labels.max().unwrap_or(0);
    for (label, value) in summary.facts.iter().take(FACTS_MAX) {
        line(&mut text, &format!("  {label:<wide$}  {value}"));
    }
    rest(&mut text, summary.facts.len(), FACTS_MAX, "facts");
    for warning in summary.warnings.iter().take(WARNINGS_MAX) {
        line(&mut text, &format!("  warning: {warning}"));
    }
    rest(&mut text, summary.warnings.len(), WARNINGS_MAX, "warnings");
    text
}

fn classes(part: &PartSummary) -> String {
    let mut text = String::new();
    for (place, class) in part.classes.iter().take(CLASSES_MAX).enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{} {}: {}",
            if place == 0 { "  " } else { "," },
            class.class,
            class.count
        );
    }
    if part.classes.len() > CLASSES_MAX {
        let _ = write!(
            text,
            " and {} more classes",
            part.classes.len() - CLASSES_MAX
        );
    }
    text
}

fn rest(text: &mut String, count: usize, shown: usize, what: &str) {
    if count > shown {
        line(text, &format!("  and {} more {what}", count - shown));
    }
}

/// Adds a line, cut to the width. Control characters of names and cells do not reach a terminal.
fn line(text: &mut String, content: &str) {
    let clean = content
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c });
    if content.chars().count() <= WIDTH {
        text.extend(clean);
    } else {
        text.extend(clean.take(WIDTH - 1));
        text.push('…');
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::ClassCount;

    #[test]
    fn a_large_summary_fits_a_screen() {
        let many = |n: usize| (0..n).map(|i| i.to_string());
        let part = PartSummary {
            split: "train".into(),
            samples: 1000,
            classes: many(100)
                .map(|class| ClassCount { class, count: 10 })
                .collect(),
        };
        let summary = DataSummary {
            kind: "images".into(),
            fingerprint: "0123456789abcdef".into(),
            parts: vec![part.clone(), part],
            facts: many(50).map(|n| (n, "x".repeat(300))).collect(),
            warnings: many(50).map(|n| format!("odd\u{1b}[31m {n}")).collect(),
            seconds: 0.0123,
        };
        let text = render_summary(&summary);
        assert!(text.lines().count() <= 25, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(text.contains("and 88 more classes") || text.contains('…'));
        assert!(text.contains("and 42 more warnings"));
        assert!(!text.contains('\u{1b}'));
    }
}
