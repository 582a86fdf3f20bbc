//! N steps are k steps, a resume, and N - k steps: bit for bit.

use super::run::{Bench, Recorder, STEPS_PER_EPOCH, remembered};
use crate::checkpoint::{Snapshot, TrainState};
use crate::config::{Config, EarlyStopping, Every, Goal, Length, Optimizer};
use crate::run::wire::Outcome;
use crate::run::{Command, Event, Step};

/// Everything that a checkpoint says about the run, but when it was written.
#[track_caller]
fn assert_same(a: &Snapshot, b: &Snapshot) {
    assert_eq!(remembered(a), remembered(b));
    assert!(a.model == b.model, "weights differ");
    assert!(a.optimizer == b.optimizer, "optimizer state differs");
}

fn every_rule() -> Vec<Optimizer> {
    let learning_rate = 0.01;
    let betas = [0.9, 0.99];
    vec![
        Optimizer::Sgd {
            learning_rate: 0.1,
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.01,
        },
        Optimizer::Sgd {
            learning_rate: 0.1,
            momentum: 0.9,
            nesterov: true,
            weight_decay: 0.01,
        },
        Optimizer::Adam {
            learning_rate,
            betas,
            epsilon: 1e-8,
            weight_decay: 0.01,
        },
        Optimizer::Adamw {
            learning_rate,
            betas,
            epsilon: 1e-8,
            weight_decay: 0.01,
        },
        Optimizer::Lion {
            learning_rate,
            betas,
            weight_decay: 0.01,
        },
        Optimizer::Muon {
            learning_rate,
            momentum: 0.95,
            iterations: 5,
            weight_decay: 0.01,
        },
    ]
}

/// Trains whole, then with pauses at `pauses`, and compares the ends.
fn check(bench: &Bench, pauses: &[u64]) {
    let mut whole = Recorder::default();
    let ended = bench.train("whole", None, &mut whole).unwrap();
    let (mut losses, mut evaluations) = (Vec::new(), Vec::new());
    let mut from: Option<Snapshot> = None;
    for &pause in pauses {
        let mut part = Recorder::at(pause, Command::Pause);
        let outcome = bench.train("parts", from.take(), &mut part).unwrap();
        assert_eq!(outcome, Outcome::Paused);
        losses.extend(part.losses());
        evaluations.extend(part.evaluations());
        let newest = bench.newest("parts");
        assert_eq!(newest.step, Step::new(pause));
        assert!(!newest.state.ended);
        from = Some(newest);
    }
    let mut rest = Recorder::default();
    assert_eq!(bench.train("parts", from, &mut rest).unwrap(), ended);
    losses.extend(rest.losses());
    evaluations.extend(rest.evaluations());
    assert_eq!(losses, whole.losses());
    assert_eq!(evaluations, whole.evaluations());
    assert_same(&bench.newest("parts"), &bench.newest("whole"));
}

#[test]
fn every_optimizer_continues_exactly() {
    for rule in every_rule() {
        let bench = Bench::new(|config| {
            config.optimizer = rule;
            config.train.length = Length::Epochs(2);
        });
        check(&bench, &[3, 8]);
    }
}

#[test]
fn every_step_around_an_epoch_boundary_continues_exactly() {
    let last = STEPS_PER_EPOCH;
    for pause in [1, last - 1, last, last + 1, 2 * last - 1, 2 * last] {
        let bench = Bench::new(|config| {
            config.eval.every = Every::Steps(2);
            config.checkpoint.every = Every::Steps(3);
            config.train.prefetch = 3;
        });
        check(&bench, &[pause]);
    }
}

#[test]
fn pausing_at_every_step_changes_nothing() {
    let bench = Bench::new(|config| config.train.length = Length::Steps(7));
    check(&bench, &[1, 2, 3, 4, 5, 6]);
}

fn early(config: &mut Config, patience: u32) {
    config.eval.every = Every::Steps(2);
    config.train.length = Length::Epochs(20);
    config.train.early_stopping = Some(EarlyStopping {
        metric: "validation/loss".into(),
        goal: Goal::Min,
        patience,
        // So large that only the first evaluation is an improvement.
        min_delta: 100.0,
    });
}

#[test]
fn early_stopping_remembers_across_a_pause() {
    for pause in [3, 4, 7] {
        let bench = Bench::new(|config| early(config, 3));
        check(&bench, &[pause]);
        let end: TrainState = bench.newest("parts").state;
        // The evaluation at step 2 sets the best; those at 4, 6 and 8 do not improve on it.
        assert_eq!(end.step, Step::new(8));
        assert!(end.ended);
        let memory = end.early_stopping.unwrap();
        assert_eq!((memory.best_step, memory.bad), (Step::new(2), 3));
    }
}

#[test]
fn a_finished_run_stays_finished_until_it_is_extended() {
    let mut bench = Bench::new(|config| early(config, 3));
    let mut first = Recorder::default();
    assert_eq!(
        bench.train("a", None, &mut first).unwrap(),
        Outcome::EarlyStopped
    );
    let mut again = Recorder::default();
    let outcome = bench
        .train("a", Some(bench.newest("a")), &mut again)
        .unwrap();
    assert_eq!(outcome, Outcome::EarlyStopped);
    assert!(again.steps().is_empty() && again.evaluations().is_empty());

    early(&mut bench.config, 5);
    let mut more = Recorder::default();
    let outcome = bench
        .train("a", Some(bench.newest("a")), &mut more)
        .unwrap();
    assert_eq!(outcome, Outcome::EarlyStopped);
    assert_eq!(more.steps(), [9, 10, 11, 12]);
}

#[test]
fn an_extended_run_is_the_longer_run() {
    // A constant rate: the others depend on the length of the whole.
    let constant = |config: &mut Config, steps| {
        config.train.length = Length::Steps(steps);
        config.schedule = crate::config::Schedule::Constant {
            warmup: Length::Steps(2),
        };
    };
    let long = Bench::new(|config| constant(config, 11));
    long.train("long", None, &mut Recorder::default()).unwrap();
    let mut short = Bench::new(|config| constant(config, 6));
    let outcome = short
        .train("short", None, &mut Recorder::default())
        .unwrap();
    assert_eq!(outcome, Outcome::Completed);
    let end = short.newest("short");
    assert!(end.state.ended);
    // The data lie in other folders; their fingerprint is of the content.
    constant(&mut short.config, 11);
    let mut rest = Recorder::default();
    short.train("short", Some(end), &mut rest).unwrap();
    assert_eq!(rest.steps(), [7, 8, 9, 10, 11]);
    assert!(short.newest("short").model == long.newest("long").model);
}

#[test]
fn other_data_are_refused() {
    let bench = Bench::new(|_| ());
    bench
        .train("a", None, &mut Recorder::at(2, Command::Pause))
        .unwrap();
    let mut snapshot = bench.newest("a");
    snapshot.state.data_fingerprint = "other".into();
    let mut recorder = Recorder::default();
    let fault = bench
        .train("a", Some(snapshot.clone()), &mut recorder)
        .unwrap_err();
    assert_eq!(fault.class, crate::run::FaultClass::Damaged);
    assert!(fault.message.contains("other"), "{}", fault.message);
    // With a changed config it is allowed, and said.
    snapshot.state.config_sha256 = "older".into();
    bench.train("a", Some(snapshot), &mut recorder).unwrap();
    let warned = |event: &_| matches!(event, crate::run::Event::Warned { .. });
    assert_eq!(
        recorder.events.iter().filter(|event| warned(event)).count(),
        1
    );
}

/// The supervisor may be killed when the checkpoint is on the disk and its step not yet in the journal.
#[test]
fn what_was_told_of_the_checkpointed_step_is_told_again() {
    let bench = Bench::new(|_| ());
    let mut first = Recorder::at(STEPS_PER_EPOCH, Command::Pause);
    bench.train("a", None, &mut first).unwrap();
    let told = |event: &Event| matches!(event, Event::StepFinished(_) | Event::Evaluated { .. });
    let expected: Vec<Event> = first
        .events
        .iter()
        .rev()
        .filter(|e| told(e))
        .take(2)
        .cloned()
        .collect();
    let mut rest = Recorder::default();
    bench
        .train("a", Some(bench.newest("a")), &mut rest)
        .unwrap();
    let again: Vec<Event> = rest
        .repeated
        .iter()
        .rev()
        .filter(|e| told(e))
        .cloned()
        .collect();
    assert_eq!(again, expected);
}
