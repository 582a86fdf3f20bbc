//! Tests of the decisions, mostly with one worker.

use super::*;
use crate::run::wire::Outcome;
use crate::run::{Epoch, FaultClass, Phases, StepReport};
use std::collections::BTreeMap;

const POLICY: Recovery = Recovery {
    max_restarts: 2,
    window_s: 100,
    hang_timeout_s: 30,
    elastic: true,
    min_slots: 1,
};

const SLOT: Rank = Rank::new(0);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn said(event: Event) -> Cause {
    let event = FromWorker::Event {
        place: None,
        event: Box::new(event),
    };
    Cause::Message(SLOT, event)
}

fn launched(pid: u32) -> Cause {
    Cause::Launched { slot: SLOT, pid }
}

fn ready() -> Cause {
    let message = FromWorker::Ready {
        vector_len: 10,
        step: None,
        address: None,
    };
    Cause::Message(SLOT, message)
}

fn tick() -> Cause {
    let cpu_seconds = BTreeMap::from([(SLOT, 0.0)]);
    Cause::Tick { cpu_seconds }
}

fn quiet_tick() -> Cause {
    Cause::Tick {
        cpu_seconds: BTreeMap::new(),
    }
}

fn began(step: u64) -> Cause {
    said(Event::TrainingBegan {
        step: Step::new(step),
        steps_total: 100,
        steps_per_epoch: 10,
        checkpoint: None,
        device: "cpu".to_string(),
    })
}

fn finished(step: u64) -> Cause {
    said(Event::StepFinished(StepReport {
        step: Step::new(step),
        epoch: Epoch::new(0),
        samples: 1,
        tokens: 0,
        loss: 0.0,
        learning_rate: 0.0,
        gradient_norm: 0.0,
        seconds: 0.0,
        phases: Phases::default(),
        metrics: BTreeMap::new(),
    }))
}

fn done(outcome: Outcome) -> Cause {
    Cause::Message(SLOT, FromWorker::Done(outcome))
}

fn gone(signal: i32) -> Cause {
    Cause::Gone(SLOT, Ending::Signalled(signal))
}

fn pause() -> Cause {
    Cause::Asked(Command::Pause, "a test".to_string())
}

fn stop() -> Cause {
    Cause::Asked(Command::Stop, "a test".to_string())
}

fn interrupt() -> Cause {
    Cause::Signal("SIGINT".to_string())
}

/// The slot, where it is not the first.
fn of(slot: Rank) -> String {
    match slot.get() {
        0 => String::new(),
        slot => format!(" at {slot}"),
    }
}

/// Actions in short words, without what is merely passed on.
fn words(actions: &[Action]) -> Vec<String> {
    actions
        .iter()
        .filter_map(|action| {
            Some(match action {
                Action::Record(_, Event::StateChanged { to, .. }) => to.to_string(),
                Action::Record(_, Event::WorkerExited { restarts, .. }) => if *restarts {
                    "exited, restarts"
                } else {
                    "exited"
                }
                .to_string(),
                Action::Record(_, Event::FaultRaised { fault }) => format!("{:?}", fault.class),
                Action::Record(..) => return None,
                Action::Launch(attempt, slot) => format!("launch {attempt}{}", of(*slot)),
                Action::Send(slot, command) => format!("send {command:?}{}", of(*slot)),
                Action::Form { slots, .. } if slots.len() == 1 => return None,
                Action::Form { slots, .. } => {
                    let slots: Vec<String> = slots.iter().map(ToString::to_string).collect();
                    format!("form {}", slots.join("+"))
                }
                Action::Abort(slot, number) => format!("abort {number}{}", of(*slot)),
                Action::Release(slot) => format!("release{}", of(*slot)),
                Action::Examine(slot) => format!("examine{}", of(*slot)),
                Action::Kill(slot) => format!("kill{}", of(*slot)),
                Action::Finish(finish) => format!("finish {}", finish.state),
            })
        })
        .collect()
}

/// A machine whose worker trains at step 5 of attempt 1.
fn training() -> Machine {
    let mut machine = Machine::new(POLICY, RunState::Queued, Attempt::new(1), 1, 8);
    assert_eq!(words(&machine.begin("test")), ["starting", "launch 1"]);
    machine.decide(launched(7), at(0));
    machine.decide(ready(), at(0));
    assert_eq!(words(&machine.decide(began(0), at(1))), ["running"]);
    for step in 1..=5 {
        assert!(words(&machine.decide(finished(step), at(1))).is_empty());
    }
    machine
}

/// Runs causes, one per second from second 2 on, and returns all words.
fn run(machine: &mut Machine, causes: Vec<Cause>) -> Vec<String> {
    let mut said = Vec::new();
    for (second, cause) in (2..).zip(causes) {
        said.extend(words(&machine.decide(cause, at(second))));
    }
    said
}

/// Each list of causes with what is done about them.
type Case<'a> = (&'a str, Vec<Cause>, Vec<&'a str>);

fn hold(cases: Vec<Case<'_>>) {
    for (name, causes, expected) in cases {
        assert_eq!(run(&mut training(), causes), expected, "{name}");
    }
}

#[test]
fn every_way_to_end_ends_as_it_should() {
    let failed = || {
        Cause::Message(
            SLOT,
            FromWorker::Failed(Box::new(Fault::training("the loss is not finite"))),
        )
    };
    let left = |code| Cause::Gone(SLOT, Ending::Exited(code));
    hold(vec![
        (
            "length reached",
            vec![done(Outcome::Completed), Cause::Closed(SLOT, None), left(0)],
            vec!["exited", "completed", "finish completed"],
        ),
        (
            "early stopping",
            vec![done(Outcome::EarlyStopped), left(0)],
            vec!["exited", "early_stopped", "finish early_stopped"],
        ),
        (
            "training fails",
            vec![failed(), left(4)],
            vec!["exited", "Training", "failed", "finish failed"],
        ),
        (
            "pause",
            vec![pause(), done(Outcome::Paused), left(0)],
            vec!["pausing", "send Pause", "exited", "paused", "finish paused"],
        ),
        (
            "pause asked twice",
            vec![pause(), pause(), done(Outcome::Paused), left(0)],
            vec!["pausing", "send Pause", "exited", "paused", "finish paused"],
        ),
        (
            "stop",
            vec![stop(), done(Outcome::Stopped), left(0)],
            vec!["send Stop", "exited", "cancelled", "finish cancelled"],
        ),
    ]);
}

#[test]
fn a_second_wish_is_understood() {
    let left = |code| Cause::Gone(SLOT, Ending::Exited(code));
    hold(vec![
        (
            "stop after pause, worker pauses first",
            vec![pause(), stop(), done(Outcome::Paused), left(0)],
            vec![
                "pausing",
                "send Pause",
                "send Stop",
                "exited",
                "cancelled",
                "finish cancelled",
            ],
        ),
        (
            "pause after stop changes nothing",
            vec![stop(), pause(), done(Outcome::Stopped), left(0)],
            vec!["send Stop", "exited", "cancelled", "finish cancelled"],
        ),
        (
            "asked to pause, but the end comes first",
            vec![pause(), done(Outcome::Completed), left(0)],
            vec![
                "pausing",
                "send Pause",
                "exited",
                "completed",
                "finish completed",
            ],
        ),
    ]);
}

#[test]
fn signals_and_deaths_end_as_they_should() {
    hold(vec![
        (
            "one signal",
            vec![
                interrupt(),
                done(Outcome::Paused),
                Cause::Gone(SLOT, Ending::Exited(0)),
            ],
            vec!["pausing", "send Pause", "exited", "paused", "finish paused"],
        ),
        (
            "two signals",
            vec![interrupt(), interrupt(), interrupt(), gone(9)],
            vec![
                "pausing",
                "send Pause",
                "kill",
                "exited",
                "paused",
                "finish paused",
            ],
        ),
        (
            "a stop, then two signals",
            vec![stop(), interrupt(), interrupt(), gone(9)],
            vec![
                "send Stop",
                "kill",
                "exited",
                "cancelled",
                "finish cancelled",
            ],
        ),
        (
            "the worker dies while it pauses",
            vec![pause(), gone(11)],
            vec!["pausing", "send Pause", "exited", "paused", "finish paused"],
        ),
        (
            "a checkpoint on request",
            vec![Cause::Asked(Command::Checkpoint, "a test".to_string())],
            vec!["send Checkpoint"],
        ),
        (
            "no process to be had",
            vec![
                gone(9),
                Cause::NotLaunched(SLOT, Fault::machine("no processes left")),
            ],
            vec![
                "exited, restarts",
                "starting",
                "launch 2",
                "Machine",
                "failed",
                "finish failed",
            ],
        ),
    ]);
}

#[test]
fn a_death_is_recovered_from_within_the_limit() {
    let mut machine = training();
    let causes = vec![
        gone(9),
        launched(8),
        ready(),
        began(3),
        gone(9),
        launched(9),
        ready(),
        began(3),
        gone(9),
    ];
    let expected = [
        "exited, restarts",
        "starting",
        "launch 2",
        "running",
        "exited, restarts",
        "starting",
        "launch 3",
        "running",
        "exited",
        "Workers",
        "failed",
        "finish failed",
    ];
    assert_eq!(run(&mut machine, causes), expected);
}

#[test]
fn old_deaths_are_forgotten() {
    let mut machine = training();
    for (death, second) in (2..20).zip((2..).step_by(60)) {
        let said = words(&machine.decide(gone(9), at(second)));
        assert_eq!(
            said.last(),
            Some(&format!("launch {death}")),
            "at {second} s"
        );
        machine.decide(launched(1), at(second));
        machine.decide(ready(), at(second));
        machine.decide(began(0), at(second));
    }
}

#[test]
fn the_same_crash_in_the_same_place_ends_the_run() {
    let oom = || {
        Cause::Gone(
            SLOT,
            Ending::OutOfMemory("the machine ran out of memory".to_string()),
        )
    };
    let exit = |code| Cause::Gone(SLOT, Ending::Exited(code));
    for (first, step, second, ends) in [
        (gone(11), 5, gone(11), true),
        (exit(1), 5, exit(1), true),
        (oom(), 5, oom(), true),
        // Elsewhere, or in another way, or by somebody's hand: worth another try.
        (gone(11), 4, gone(11), false),
        (gone(11), 5, gone(6), false),
        (gone(9), 5, gone(9), false),
        (gone(15), 5, gone(15), false),
    ] {
        let mut machine = training();
        let name = format!("{first:?} then {second:?} at {step}");
        machine.decide(first, at(2));
        machine.decide(launched(8), at(3));
        machine.decide(ready(), at(3));
        machine.decide(began(0), at(4));
        machine.decide(finished(step), at(5));
        let said = words(&machine.decide(second, at(6)));
        assert_eq!(
            said.contains(&"finish failed".to_string()),
            ends,
            "{name}: {said:?}"
        );
    }
}

#[test]
fn a_run_that_may_not_restart_fails_at_the_first_death() {
    let policy = Recovery {
        max_restarts: 0,
        ..POLICY
    };
    let mut machine = Machine::new(policy, RunState::Queued, Attempt::new(1), 1, 8);
    machine.begin("test");
    machine.decide(launched(7), at(0));
    let said = machine.decide(gone(9), at(1));
    let Some(Action::Finish(finish)) = said.last() else {
        panic!("{said:?}");
    };
    let fault = finish.fault.as_ref().unwrap();
    assert_eq!(fault.class, FaultClass::Workers);
    assert!(
        fault
            .message
            .contains("signal 9 (SIGKILL) before the first step"),
        "{fault:?}"
    );
    assert!(!fault.advice.is_empty());
}

#[path = "tests/group.rs"]
mod group;
#[path = "tests/trouble.rs"]
mod trouble;
