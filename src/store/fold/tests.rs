//! Tests of the fold.

use super::*;
use crate::run::{CheckpointInfo, StateCause};
use crate::store::{history, sample};
use proptest::prelude::*;

fn folded(dir: &RunDir) -> RunSummary {
    Fold::of(dir).unwrap().0.summary().unwrap().clone()
}

fn committed(step: u64) -> Event {
    Event::CheckpointCommitted(CheckpointInfo {
        step: Step::new(step),
        directory: format!("step-{step:08}"),
        bytes: 10,
        model_sha256: format!("hash {step}"),
        metric: None,
        blocked_seconds: 0.0,
        write_seconds: 0.0,
    })
}

#[test]
fn a_finished_run_is_summed_up() {
    let folder = tempfile::tempdir().unwrap();
    let summary = folded(&sample::finished_in(folder.path(), "a-00000001", 7));
    assert_eq!(summary.state, RunState::Completed);
    assert_eq!(summary.reason, "because of LengthReached");
    assert_eq!(summary.step, Step::new(7));
    assert_eq!(summary.steps_total, 100);
    assert_eq!(summary.attempts, Attempt::new(1));
    assert_eq!(summary.workers, 1);
    assert_eq!(summary.metrics["train"]["loss"].step, Step::new(7));
    assert_eq!(summary.entries, 12);
}

#[test]
fn the_last_group_says_how_many_workers_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let formed = |size| Event::GroupFormed {
        world_size: crate::run::WorldSize::new(size),
        slots: Vec::new(),
        step: None,
    };
    let events = [(1, formed(4)), (1, sample::began(0)), (1, formed(3))];
    let dir = sample::run_in(folder.path(), "a-00000001", &events);
    assert_eq!(folded(&dir).workers, 3);
}

#[test]
fn a_later_attempt_supersedes_what_came_after_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let improved = |step: u64, value| Event::Improved {
        step: Step::new(step),
        metric: "validation/loss".to_string(),
        value,
    };
    let mut events = vec![(1, sample::began(0))];
    events.extend((1..=10).map(|at| (1, sample::step(at, 0.0))));
    events.push((1, sample::evaluated(5, 0.5)));
    events.push((1, improved(5, 0.5)));
    events.push((1, committed(5)));
    events.push((1, sample::evaluated(10, 0.1)));
    events.push((1, improved(10, 0.1)));
    let before = folded(&sample::run_in(folder.path(), "a-00000001", &events));
    assert_eq!(before.step, Step::new(10));
    assert_eq!(
        before.metrics["valid"]["loss"].value.to_bits(),
        0.1f64.to_bits()
    );

    events.push((2, sample::began(5)));
    let dir = sample::run_in(folder.path(), "b-00000002", &events);
    let after = folded(&dir);
    assert_eq!(after.step, Step::new(5));
    assert_eq!(after.attempts, Attempt::new(2));
    assert_eq!(after.metrics["train"]["loss"].step, Step::new(5));
    assert_eq!(after.metrics["valid"]["loss"].step, Step::new(5));
    assert_eq!(after.best.unwrap().step, Step::new(5));
    assert_eq!(after.checkpoints.len(), 1);
    let mut steps = Vec::new();
    history(&dir, |row| steps.push(row.step.get())).unwrap();
    assert_eq!(steps.iter().max(), Some(&5));
}

#[test]
fn a_fold_that_was_overtaken_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let events = [
        (1, sample::began(0)),
        (1, sample::step(1, 0.0)),
        (1, sample::step(2, 0.0)),
        (2, sample::began(1)),
        (2, sample::step(2, 1.0)),
        (3, sample::began(2)),
    ];
    let dir = sample::run_in(folder.path(), "a-00000001", &events);
    let mut fold = Fold::default();
    let answers: Vec<Folded> = Entries::open(&dir)
        .unwrap()
        .map(|entry| fold.take(&entry.unwrap()))
        .collect();
    let superseded: Vec<usize> = (0..answers.len())
        .filter(|&at| answers[at] == Folded::Superseded)
        .collect();
    assert_eq!(superseded, [4], "only the attempt that goes back");
}

#[test]
fn checkpoints_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let events = [
        (1, committed(10)),
        (1, committed(20)),
        (1, committed(30)),
        (
            1,
            Event::CheckpointRemoved {
                step: Step::new(10),
            },
        ),
        (
            1,
            Event::CheckpointRejected {
                checkpoint: "step-00000030".to_string(),
                reason: "hash".to_string(),
            },
        ),
        (2, committed(20)),
        (
            2,
            sample::state(
                RunState::Running,
                RunState::Paused,
                StateCause::PauseReached,
            ),
        ),
    ];
    let summary = folded(&sample::run_in(folder.path(), "a-00000001", &events));
    let steps: Vec<u64> = summary
        .checkpoints
        .iter()
        .map(|info| info.step.get())
        .collect();
    assert_eq!(steps, [20]);
    assert_eq!(summary.state, RunState::Paused);
}

/// Attempts as (begin, end) pairs with begin within what is done so far.
fn attempts() -> impl Strategy<Value = Vec<(u64, u64)>> {
    proptest::collection::vec((0.0..=1.0f64, 0u64..6), 1..8).prop_map(|parts| {
        let mut done = 0;
        let mut attempts = Vec::new();
        for (share, length) in parts {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "small numbers"
            )]
            let begin = (share * done as f64) as u64;
            attempts.push((begin, begin + length));
            done = begin + length;
        }
        attempts
    })
}

proptest! {
    #[test]
    fn history_is_what_an_undisturbed_reader_would_keep(attempts in attempts()) {
        let folder = tempfile::tempdir().unwrap();
        let (mut events, mut expected) = (Vec::new(), BTreeMap::new());
        for (number, &(begin, end)) in (1u32..).zip(&attempts) {
            events.push((number, sample::began(begin)));
            expected.retain(|&step, _| step <= begin);
            for at in begin + 1..=end {
                events.push((number, sample::step(at, f64::from(number))));
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                expected.insert(at, at as f64 + f64::from(number));
            }
        }
        let dir = sample::run_in(folder.path(), "a-00000001", &events);
        let mut found = BTreeMap::new();
        history(&dir, |row| {
            if row.name == "loss" {
                found.insert(row.step.get(), row.value);
            }
        }).unwrap();
        prop_assert_eq!(&found, &expected);
        let summary = folded(&dir);
        prop_assert_eq!(summary.step.get(), attempts.last().unwrap().1);
        let last = summary.metrics.get("train").map(|names| names["loss"].clone());
        prop_assert_eq!(
            last.map(|point| (point.step.get(), point.value)),
            expected.last_key_value().map(|(&step, &value)| (step, value))
        );
    }
}
