//! Tables and pages at several widths.

use std::path::Path;

use proptest::prelude::*;

use super::super::human::width;
use super::super::{CheckpointRow, RunRow, Style, Table, checkpoints, metrics, run, runs};
use super::sample::{BEGIN_MS, paused_summary};
use crate::run::{RunState, RunSummary, Step};
use crate::store::MetricRow;

fn text(print: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    print(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn three() -> Vec<RunSummary> {
    let paused = paused_summary();
    let running = RunSummary {
        name: "größere-Daten-mit-langem-Namen-00ff00ff".into(),
        state: RunState::Running,
        best: None,
        updated_ms: BEGIN_MS + 3_600_000,
        step: Step::new(119),
        ..paused.clone()
    };
    let failed = RunSummary {
        name: "東京-\u{1b}[31m12345678".into(),
        state: RunState::Failed,
        steps_total: 0,
        step: Step::new(0),
        ..paused.clone()
    };
    vec![paused, running, failed]
}

fn rows() -> Vec<CheckpointRow> {
    let row = CheckpointRow {
        step: Step::new(40),
        path: "runs/digits-1a2b3c4d/checkpoints/step-00000040".into(),
        bytes: Some(421_000),
        metric: Some(0.05),
        model_sha256: Some("ab".repeat(32)),
        verified: Some(true),
        problem: None,
    };
    let unread = CheckpointRow {
        step: Step::new(80),
        metric: None,
        verified: None,
        path: "runs/digits-1a2b3c4d/checkpoints/step-00000080".into(),
        ..row.clone()
    };
    let damaged = CheckpointRow {
        step: Step::new(120),
        bytes: None,
        metric: None,
        model_sha256: None,
        verified: Some(false),
        problem: Some("checkpoint step-00000120 is damaged: MANIFEST.json: it is missing".into()),
        path: "runs/digits-1a2b3c4d/checkpoints/step-00000120".into(),
    };
    vec![row, unread, damaged]
}

#[test]
fn a_list_of_runs() {
    let summaries = three();
    let list: Vec<RunRow<'_>> = summaries
        .iter()
        .map(|summary| RunRow {
            summary,
            alive: summary.state.is_live(),
        })
        .collect();
    let now_ms = BEGIN_MS + 2 * 86_400_000;
    for columns in [None, Some(80), Some(50), Some(20)] {
        let text = text(|out| runs(&list, now_ms, columns, Style::PLAIN, out));
        insta::assert_snapshot!(format!("runs_{}", columns.unwrap_or(0)), text);
    }
    let empty = text(|out| runs(&[], now_ms, None, Style::PLAIN, out));
    assert_eq!(empty.lines().count(), 1);
}

#[test]
fn one_run_on_a_page() {
    let summary = paused_summary();
    let row = RunRow {
        summary: &summary,
        alive: false,
    };
    let directory = Path::new("runs/digits-1a2b3c4d");
    for columns in [None, Some(60)] {
        let text = text(|out| run(row, directory, &rows(), columns, Style::PLAIN, out));
        insta::assert_snapshot!(format!("run_{}", columns.unwrap_or(0)), text);
    }
}

#[test]
fn a_list_of_checkpoints() {
    let plain = text(|out| checkpoints(&rows(), Some(100), Style::PLAIN, out));
    insta::assert_snapshot!(plain);
    let colored = text(|out| checkpoints(&rows(), Some(100), Style::COLOR, out));
    assert!(colored.contains("\u{1b}[32mverified"));
    assert!(colored.contains("\u{1b}[31mdamaged"));
}

#[test]
fn metrics_keep_every_digit() {
    let rows = [
        MetricRow {
            step: Step::new(1),
            split: "train".into(),
            name: "loss".into(),
            value: 0.1 + 0.2,
        },
        MetricRow {
            step: Step::new(10),
            split: "valid".into(),
            name: "a\tb".into(),
            value: 1e-300,
        },
    ];
    let text = text(|out| metrics(&rows, out));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("step\tsplit\tname\tvalue"));
    assert_eq!(lines.next(), Some("1\ttrain\tloss\t0.30000000000000004"));
    let last: Vec<&str> = lines.next().unwrap().split('\t').collect();
    assert_eq!(last[..3], ["10", "valid", "a b"]);
    assert_eq!(
        last[3].parse::<f64>().unwrap().to_bits(),
        1e-300f64.to_bits()
    );
}

#[test]
fn columns_are_aligned_by_what_is_seen() {
    let mut table = Table::new(&["NAME", "STEP"]).right(&[1]);
    table.row(vec!["größe".into(), "7".into()]);
    table.row(vec!["a\u{1b}[2J".into(), "1234".into()]);
    table.row(vec!["東京".into()]);
    assert_eq!(
        text(|out| table.print(1, out)),
        " NAME   STEP\n größe     7\n a\u{fffd}[2J  1234\n 東京\n"
    );
}

proptest! {
    #[test]
    fn lines_are_as_wide_as_they_may_be(
        cells in prop::collection::vec(prop::collection::vec(any::<String>(), 0..6), 0..6),
        columns in 0usize..100, color in any::<bool>()
    ) {
        let mut table = Table::new(&["A", "B"]).right(&[1]).fit(Some(columns));
        if color {
            table = table.style(Style::PLAIN);
        }
        let most = cells.iter().map(Vec::len).max().unwrap_or(0).max(2);
        for row in cells {
            table.row(row);
        }
        let text = text(|out| table.print(0, out));
        // Eight cells a column and the gaps is what a table takes however narrow the terminal.
        let least = most * 10;
        for line in text.lines() {
            prop_assert!(!line.chars().any(char::is_control));
            prop_assert!(width(line) <= columns.max(least), "{line:?}");
        }
    }
}
