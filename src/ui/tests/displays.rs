//! Each display over the same runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use super::super::{Json, Plain, Progress, Style};
use super::sample::{
    BEGIN_MS, EPOCH, STEPS, Script, Sink, bad_run, existing_origin, good_run, new_origin,
};
use super::terminal::Terminal;
use crate::run::{Attempt, Entry, Event, Reader, RunState, StateCause};

/// Lets a terminal display follow a run; its clock is the time of the events.
struct Watched {
    sink: Sink,
    columns: Arc<AtomicU16>,
    now_ms: Arc<AtomicU64>,
    display: Progress,
}

impl Watched {
    fn new(columns: u16, style: Style, origin: super::super::Origin) -> Self {
        let sink = Sink::default();
        let columns = Arc::new(AtomicU16::new(columns));
        let now_ms = Arc::new(AtomicU64::new(BEGIN_MS));
        let (width, clock) = (Arc::clone(&columns), Arc::clone(&now_ms));
        let size = move || (width.load(Ordering::Relaxed), 24);
        let display = Progress::new(Box::new(sink.clone()), size, style, origin)
            .at(move || clock.load(Ordering::Relaxed));
        Self {
            sink,
            columns,
            now_ms,
            display,
        }
    }

    fn follow(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.now_ms.store(entry.time_ms, Ordering::Relaxed);
            self.display.take(entry);
        }
    }

    fn screen(&self) -> Terminal {
        let columns = usize::from(self.columns.load(Ordering::Relaxed));
        Terminal::showing(columns, &self.sink.text())
    }
}

fn plain(entries: &[Entry], origin: super::super::Origin) -> String {
    let sink = Sink::default();
    let mut display = Plain::new(Box::new(sink.clone()), origin);
    for entry in entries {
        display.take(entry);
        display.tick();
    }
    sink.text()
}

/// The events of a resumed run, which begin after those of its record.
fn resumed() -> Vec<Entry> {
    let mut script = Script::new();
    script.attempt = Attempt::new(2);
    script.now_ms += 3_600_000;
    script.began(80, Some("step-00000080"));
    script.steps(80, 100, 250).checkpoint(100);
    script.ends(
        RunState::Paused,
        StateCause::PauseReached,
        "paused on request",
    );
    script.entries
}

#[test]
fn plain_lines_of_a_good_run() {
    insta::assert_snapshot!(plain(&good_run(), new_origin()));
}

#[test]
fn plain_lines_of_a_bad_run() {
    insta::assert_snapshot!(plain(&bad_run(), new_origin()));
}

#[test]
fn plain_lines_of_a_resumed_run() {
    insta::assert_snapshot!(plain(&resumed(), existing_origin()));
}

#[test]
fn plain_lines_are_harmless_and_few() {
    let mut script = Script::new();
    script.start();
    script.began(0, None);
    // Ten minutes of very short steps.
    for step in 0..120_000u64 {
        script.steps(step % (STEPS - 1), step % (STEPS - 1) + 1, 5);
    }
    let text = plain(&script.entries, new_origin());
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    let progress = text.lines().filter(|line| line.contains("loss")).count();
    // Steps that start over are the exception: the last step of a run is always shown.
    assert!((60..70).contains(&progress), "{progress} lines");
}

#[test]
fn json_lines_of_a_run() {
    let sink = Sink::default();
    let mut display = Json::new(Box::new(sink.clone()), new_origin());
    let entries = good_run();
    for entry in &entries {
        display.take(entry);
    }
    let text = sink.text();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), entries.len());
    let first = text.lines().next().unwrap();
    insta::assert_snapshot!(first);
    for (line, entry) in text.lines().zip(&entries).skip(1) {
        assert_eq!(&serde_json::from_str::<Entry>(line).unwrap(), entry);
    }
}

#[test]
fn the_first_json_line_of_a_resumed_run_names_it_too() {
    let sink = Sink::default();
    let mut display = Json::new(Box::new(sink.clone()), existing_origin());
    for entry in &resumed() {
        display.take(entry);
    }
    let text = sink.text();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["name"], "digits-1a2b3c4d");
    assert_eq!(first["id"], "01939d5e-7c1a-7f00-8000-00001a2b3c4d");
    assert_eq!(first["directory"], "elsewhere/digits-1a2b3c4d");
    assert_eq!(first["format"], 1);
    assert_eq!(first["event"]["training_began"]["step"], 80);
    assert!(!text.lines().nth(1).unwrap().contains("directory\":\"else"));
}

#[test]
fn a_terminal_in_the_middle_of_a_run() {
    let entries = good_run();
    let middle = entries
        .iter()
        .position(|entry| {
            matches!(&entry.event, Event::StepFinished(report) if report.step.get() == EPOCH + 15)
        })
        .unwrap();
    for columns in [20, 40, 80, 120] {
        let mut watched = Watched::new(columns, Style::PLAIN, new_origin());
        watched.follow(&entries[..=middle]);
        insta::assert_snapshot!(format!("middle_{columns}"), watched.screen().contents());
    }
}

#[test]
fn a_terminal_at_the_end_of_a_run() {
    for (name, entries) in [("good", good_run()), ("bad", bad_run())] {
        let mut watched = Watched::new(80, Style::PLAIN, new_origin());
        watched.follow(&entries);
        watched.display.tick();
        insta::assert_snapshot!(format!("end_{name}"), watched.screen().contents());
    }
    let mut watched = Watched::new(80, Style::PLAIN, existing_origin());
    watched.follow(&resumed());
    insta::assert_snapshot!("end_resumed", watched.screen().contents());
}

#[test]
fn an_alarm_stays_until_a_checkpoint_is_written() {
    let mut script = Script::new();
    script.start().steps(0, 60, 250).trouble();
    script.began(40, Some("step-00000040")).steps(40, 90, 250);
    let mut watched = Watched::new(80, Style::PLAIN, new_origin());
    watched.follow(&script.entries);
    let shown = watched.screen().contents();
    assert!(
        shown
            .lines()
            .last()
            .unwrap()
            .contains("checkpoint of step 60 failed")
    );
    script.checkpoint(90);
    watched.follow(script.entries.last_chunk::<1>().unwrap());
    let shown = watched.screen().contents();
    assert!(
        shown
            .lines()
            .last()
            .unwrap()
            .contains("checkpoint  step 90")
    );
    assert!(!shown.lines().last().unwrap().contains("failed"));
}

#[test]
fn silence_is_shown() {
    let mut script = Script::new();
    script.start().steps(0, 10, 250);
    let mut watched = Watched::new(80, Style::PLAIN, new_origin());
    watched.follow(&script.entries);
    assert!(!watched.screen().contents().contains("no event"));
    watched.now_ms.fetch_add(75_000, Ordering::Relaxed);
    watched.display.tick();
    assert!(
        watched
            .screen()
            .contents()
            .contains("no event for 1 min 15 s")
    );
}

#[test]
fn colours_come_and_go_as_asked() {
    let drawn = |style| {
        let mut watched = Watched::new(80, style, new_origin());
        watched.follow(&bad_run());
        watched.sink.text()
    };
    let colors = |text: &str| text.matches("\u{1b}[31m").count();
    assert!(colors(&drawn(Style::COLOR)) >= 3);
    assert!(!drawn(Style::PLAIN).contains('m') || colors(&drawn(Style::PLAIN)) == 0);
    // Colours do not change what is read.
    let shown = |style| {
        let mut watched = Watched::new(80, style, new_origin());
        watched.follow(&bad_run());
        watched.screen().contents()
    };
    assert_eq!(shown(Style::COLOR), shown(Style::PLAIN));
}

#[test]
fn a_terminal_that_shrinks_is_not_overrun() {
    let mut watched = Watched::new(100, Style::PLAIN, new_origin());
    let mut script = Script::new();
    script.start().steps(0, 30, 250);
    watched.follow(&script.entries);
    for columns in [20, 5, 1, 60] {
        watched.columns.store(columns, Ordering::Relaxed);
        watched.display.tick();
    }
    let shown = watched.screen().contents();
    assert!(shown.contains("step 30/120"), "{shown}");
}

#[test]
fn short_steps_are_not_all_drawn() {
    let mut script = Script::new();
    script.start().steps(0, 100, 5);
    let mut watched = Watched::new(80, Style::PLAIN, new_origin());
    watched.follow(&script.entries[..8]);
    let before = watched.sink.text().len();
    watched.follow(&script.entries[8..]);
    let drawn = watched.sink.text().len() - before;
    // Half a second of steps: at most six drawings of four lines.
    assert!(drawn < 6 * 4 * 90, "{drawn} bytes");
}

#[test]
fn output_that_closes_stops_nothing() {
    for bytes in [0, 1, 700] {
        let mut readers: [Box<dyn Reader>; 3] = [
            Box::new(Plain::new(Box::new(Sink::closing(bytes)), new_origin())),
            Box::new(Json::new(Box::new(Sink::closing(bytes)), new_origin())),
            Box::new(Progress::new(
                Box::new(Sink::closing(bytes)),
                || (80, 24),
                Style::COLOR,
                new_origin(),
            )),
        ];
        for entry in good_run().iter().chain(&bad_run()) {
            for reader in &mut readers {
                reader.take(entry);
                reader.tick();
            }
        }
    }
}
