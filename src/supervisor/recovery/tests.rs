//! Tests of the decisions.

use super::*;
use crate::run::{Epoch, FaultClass, Phases, StepReport};
use std::collections::BTreeMap;

const POLICY: Recovery = Recovery {
    max_restarts: 2,
    window_s: 100,
    hang_timeout_s: 30,
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn began(step: u64) -> Cause {
    Cause::Message(FromWorker::Event(Box::new(Event::TrainingBegan {
        step: Step::new(step),
        steps_total: 100,
        steps_per_epoch: 10,
        checkpoint: None,
        device: "cpu".to_string(),
    })))
}

fn finished(step: u64) -> Cause {
    Cause::Message(FromWorker::Event(Box::new(Event::StepFinished(
        StepReport {
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
        },
    ))))
}

fn done(outcome: Outcome) -> Cause {
    Cause::Message(FromWorker::Done(outcome))
}

fn gone(signal: i32) -> Cause {
    Cause::Gone(Ending::Signalled(signal))
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
                Action::Launch(attempt) => format!("launch {attempt}"),
                Action::Send(command) => format!("send {command:?}"),
                Action::Examine => "examine".to_string(),
                Action::Kill => "kill".to_string(),
                Action::Finish(finish) => format!("finish {}", finish.state),
            })
        })
        .collect()
}

/// A machine whose worker trains at step 5 of attempt 1.
fn training() -> Machine {
    let mut machine = Machine::new(POLICY, RunState::Queued, Attempt::new(1));
    assert_eq!(words(&machine.begin("test")), ["starting", "launch 1"]);
    machine.decide(Cause::Launched { pid: 7 }, at(0));
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
        Cause::Message(FromWorker::Failed(Box::new(Fault::training(
            "the loss is not finite",
        ))))
    };
    let left = |code| Cause::Gone(Ending::Exited(code));
    hold(vec![
        (
            "length reached",
            vec![done(Outcome::Completed), Cause::Closed(None), left(0)],
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
    let left = |code| Cause::Gone(Ending::Exited(code));
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
                Cause::Gone(Ending::Exited(0)),
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
                Cause::NotLaunched(Fault::machine("no processes left")),
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
        Cause::Launched { pid: 8 },
        began(3),
        gone(9),
        Cause::Launched { pid: 9 },
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
        machine.decide(Cause::Launched { pid: 1 }, at(second));
        machine.decide(began(0), at(second));
    }
}

#[test]
fn the_same_crash_in_the_same_place_ends_the_run() {
    let oom = || Cause::Gone(Ending::OutOfMemory("the machine ran out of memory"));
    let exit = |code| Cause::Gone(Ending::Exited(code));
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
        machine.decide(Cause::Launched { pid: 8 }, at(3));
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
    let mut machine = Machine::new(policy, RunState::Queued, Attempt::new(1));
    machine.begin("test");
    machine.decide(Cause::Launched { pid: 7 }, at(0));
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

#[test]
fn a_hung_worker_is_named_examined_killed_and_replaced() {
    let tick = || Cause::Tick {
        cpu_seconds: Some(0.0),
    };
    let mut machine = training();
    let mut said = Vec::new();
    for second in 2..60 {
        let actions = machine.decide(tick(), at(second));
        if !actions.is_empty() {
            assert_eq!(second, 31);
            let Some(Action::Record(_, Event::Warned { message })) = actions.first() else {
                panic!("{actions:?}");
            };
            assert!(
                message.contains("rank 0") && message.contains("step 5"),
                "{message}"
            );
        }
        said.extend(words(&actions));
    }
    assert_eq!(said, ["examine", "kill"]);
    said = words(&machine.decide(gone(9), at(61)));
    assert_eq!(said, ["exited, restarts", "starting", "launch 2"]);
    // Once more in the same place: it would hang for ever.
    machine.decide(Cause::Launched { pid: 8 }, at(62));
    machine.decide(began(5), at(63));
    for second in 64..100 {
        machine.decide(tick(), at(second));
    }
    said = words(&machine.decide(gone(9), at(100)));
    assert_eq!(said, ["exited", "Workers", "failed", "finish failed"]);
}

#[test]
fn a_supervisor_that_slept_does_not_blame_the_worker() {
    let mut machine = training();
    machine.decide(Cause::Tick { cpu_seconds: None }, at(2));
    let said = machine.decide(Cause::Tick { cpu_seconds: None }, at(2000));
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn a_worker_that_does_not_leave_is_made_to() {
    let mut machine = training();
    let mut said = run(&mut machine, vec![done(Outcome::Completed)]);
    for second in 3..30 {
        said.extend(words(
            &machine.decide(Cause::Tick { cpu_seconds: None }, at(second)),
        ));
        if said.len() == 1 {
            said.extend(words(&machine.decide(gone(9), at(second))));
            break;
        }
    }
    assert_eq!(said, ["kill", "exited", "completed", "finish completed"]);
}

#[test]
fn a_worker_that_talks_nonsense_is_replaced() {
    let mut machine = training();
    let causes = vec![Cause::Closed(Some("not understood".to_string())), gone(9)];
    let said = run(&mut machine, causes);
    assert_eq!(said, ["kill", "exited, restarts", "starting", "launch 2"]);
    let mut machine = training();
    let hello = Cause::Message(FromWorker::Hello {
        version: WIRE_VERSION + 1,
        pid: 7,
    });
    let said = run(&mut machine, vec![hello, gone(9)]);
    assert_eq!(
        said,
        ["kill", "exited", "Machine", "failed", "finish failed"]
    );
}

#[test]
fn a_pause_before_training_began_stays_a_pause() {
    let mut machine = Machine::new(POLICY, RunState::Paused, Attempt::new(2));
    assert_eq!(words(&machine.begin("test")), ["starting", "launch 2"]);
    machine.decide(Cause::Launched { pid: 7 }, at(0));
    let causes = vec![
        pause(),
        began(3),
        done(Outcome::Paused),
        Cause::Gone(Ending::Exited(0)),
    ];
    assert_eq!(
        run(&mut machine, causes),
        ["pausing", "send Pause", "exited", "paused", "finish paused"]
    );
}

#[test]
fn every_state_a_run_can_be_resumed_from_starts() {
    for state in [
        RunState::Queued,
        RunState::Paused,
        RunState::Failed,
        RunState::Cancelled,
        RunState::Completed,
        RunState::EarlyStopped,
    ] {
        let mut machine = Machine::new(POLICY, state, Attempt::new(2));
        assert_eq!(
            words(&machine.begin("test")),
            ["starting", "launch 2"],
            "{state}"
        );
    }
}
