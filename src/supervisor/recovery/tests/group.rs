//! Decisions about groups of workers.

use super::*;

fn up(slot: u32) -> Cause {
    Cause::Launched {
        slot: Rank::new(slot),
        pid: 100 + slot,
    }
}

/// Ready for a group, with the state of a step in memory or none.
fn waits(slot: u32, step: Option<u64>) -> Cause {
    let message = FromWorker::Ready {
        vector_len: 10,
        step: step.map(Step::new),
        address: None,
    };
    Cause::Message(Rank::new(slot), message)
}

fn lost(slot: u32) -> Cause {
    Cause::Gone(Rank::new(slot), Ending::Signalled(9))
}

fn word(slot: u32, message: FromWorker) -> Cause {
    Cause::Message(Rank::new(slot), message)
}

fn left(slot: u32) -> Cause {
    Cause::Gone(Rank::new(slot), Ending::Exited(0))
}

fn machine_of(policy: Recovery, size: u32) -> Machine {
    let mut machine = Machine::new(policy, RunState::Queued, Attempt::new(1), size, 8);
    machine.begin("test");
    for slot in 0..size {
        machine.decide(up(slot), at(0));
    }
    machine
}

/// Three workers that have finished five steps together.
fn trio() -> Machine {
    let mut machine = machine_of(POLICY, 3);
    for slot in [2, 0] {
        assert!(words(&machine.decide(waits(slot, None), at(1))).is_empty());
    }
    let formed = words(&machine.decide(waits(1, None), at(1)));
    assert_eq!(formed, ["form 0+1+2"]);
    machine.decide(began(0), at(1));
    machine.decide(finished(5), at(1));
    machine
}

#[test]
fn a_lost_worker_is_replaced_and_the_others_keep_their_memory() {
    let mut machine = trio();
    let said = words(&machine.decide(lost(1), at(2)));
    let expected = [
        "exited, restarts",
        "abort 1",
        "abort 1 at 2",
        "launch 1 at 1",
    ];
    assert_eq!(said, expected);
    assert_eq!(machine.state, RunState::Running);
    let rest = vec![waits(0, Some(5)), up(1), waits(2, Some(5)), waits(1, None)];
    assert_eq!(run(&mut machine, rest), ["form 0+1+2"]);
    let actions = machine.decide(finished(6), at(9));
    let recovered = actions.iter().find_map(|action| match action {
        Action::Record(_, Event::Recovered { step, cause, .. }) => Some((*step, cause.clone())),
        _ => None,
    });
    let (step, cause) = recovered.unwrap();
    assert_eq!(step, Step::new(6));
    assert!(
        cause.contains("rank 1") && cause.contains("SIGKILL"),
        "{cause}"
    );
    assert!(!words(&machine.decide(finished(7), at(9))).contains(&"recovered".to_string()));
}

#[test]
fn deaths_during_a_recovery_are_recovered_from_too() {
    let mut machine = trio();
    machine.policy.max_restarts = 100;
    let causes = vec![
        lost(1),
        waits(0, Some(5)),
        up(1),
        lost(1),
        lost(2),
        up(1),
        up(2),
        waits(1, None),
        waits(2, None),
    ];
    let expected = [
        "exited, restarts",
        "abort 1",
        "abort 1 at 2",
        "launch 1 at 1",
        "exited, restarts",
        "launch 1 at 1",
        "exited, restarts",
        "launch 1 at 2",
        "form 0+1+2",
    ];
    assert_eq!(run(&mut machine, causes), expected);
}

#[test]
fn when_nobody_is_left_the_run_goes_on_from_the_disk() {
    let mut machine = trio();
    machine.policy.max_restarts = 100;
    let causes = vec![lost(0), lost(1), lost(2)];
    let expected = [
        "exited, restarts",
        "abort 1 at 1",
        "abort 1 at 2",
        "launch 1",
        "exited, restarts",
        "launch 1 at 1",
        "exited, restarts",
        "starting",
        "launch 2 at 2",
    ];
    assert_eq!(run(&mut machine, causes), expected);
    assert_eq!(machine.attempt, Attempt::new(2));
}

#[test]
fn a_group_that_fell_apart_by_itself_is_formed_again() {
    let mut machine = trio();
    let causes = vec![waits(1, Some(5)), waits(0, Some(5)), waits(2, Some(6))];
    assert_eq!(
        run(&mut machine, causes),
        ["abort 1", "abort 1 at 2", "form 0+1+2"]
    );
}

#[test]
fn workers_come_and_go_on_request() {
    let mut machine = trio();
    let more = |size| Cause::Resize(size, "a test".to_string());
    let causes = vec![
        more(4),
        up(3),
        finished(6),
        waits(3, None),
        waits(0, Some(6)),
        waits(1, Some(6)),
        waits(2, Some(6)),
    ];
    let expected = [
        "launch 1 at 3",
        "abort 1",
        "abort 1 at 1",
        "abort 1 at 2",
        "form 0+1+2+3",
    ];
    assert_eq!(run(&mut machine, causes), expected);
    let causes = vec![
        more(2),
        waits(0, Some(6)),
        waits(1, Some(6)),
        waits(2, Some(6)),
        waits(3, Some(6)),
        word(2, FromWorker::Done(Outcome::Released)),
        word(3, FromWorker::Done(Outcome::Released)),
        left(2),
        left(3),
    ];
    let expected = [
        "abort 2",
        "abort 2 at 1",
        "abort 2 at 2",
        "abort 2 at 3",
        "release at 2",
        "release at 3",
        "form 0+1",
        "exited",
        "exited",
    ];
    assert_eq!(run(&mut machine, causes), expected);
    assert_eq!(machine.state, RunState::Running);
}

#[test]
fn a_worker_that_cannot_be_replaced_is_done_without() {
    let refused = || Cause::NotLaunched(Rank::new(1), Fault::machine("no processes left"));
    let mut machine = trio();
    let causes = vec![lost(1), waits(0, Some(5)), waits(2, Some(5)), refused()];
    let said = run(&mut machine, causes);
    assert_eq!(said.last().unwrap(), "form 0+2");
    // Not below what the config asks for.
    let policy = Recovery {
        min_slots: 3,
        ..POLICY
    };
    let mut machine = machine_of(policy, 3);
    for slot in 0..3 {
        machine.decide(waits(slot, None), at(1));
    }
    let causes = vec![lost(1), refused(), lost(0), lost(2)];
    let said = run(&mut machine, causes);
    assert_eq!(said.last().unwrap(), "finish failed", "{said:?}");
    assert!(said.contains(&"kill".to_string()) && said.contains(&"kill at 2".to_string()));
}

#[test]
fn one_that_hangs_is_examined_with_the_others_and_killed() {
    let mut machine = trio();
    let beat = |slot, waiting| {
        let position = crate::run::wire::Position {
            number: 7,
            kind: "sum".to_string(),
            waiting,
        };
        let message = FromWorker::Heartbeat {
            step: Step::new(5),
            phase: Phase::Stepping,
            position: Some(position),
        };
        word(slot, message)
    };
    let mut said = Vec::new();
    for second in 2..60 {
        machine.decide(beat(0, true), at(second));
        machine.decide(beat(2, true), at(second));
        let actions = words(&machine.decide(tick(), at(second)));
        if !actions.is_empty() {
            assert_eq!(second, 31);
        }
        said.extend(actions);
    }
    assert_eq!(
        said,
        ["examine at 1", "examine", "examine at 2", "kill at 1"]
    );
    let said = words(&machine.decide(lost(1), at(60)));
    assert_eq!(
        said,
        [
            "exited, restarts",
            "abort 1",
            "abort 1 at 2",
            "launch 1 at 1"
        ]
    );
}

#[test]
fn all_end_together() {
    let mut machine = trio();
    let done = |slot| word(slot, FromWorker::Done(Outcome::Completed));
    let causes = vec![done(1), done(0), left(1), done(2), left(0), left(2)];
    let expected = [
        "exited",
        "exited",
        "exited",
        "completed",
        "finish completed",
    ];
    assert_eq!(run(&mut machine, causes), expected);
    // One that was lost behind the others' end is not missed.
    let mut machine = trio();
    let causes = vec![lost(2), up(2), done(0), left(0), done(1), left(1), left(2)];
    let said = run(&mut machine, causes);
    assert_eq!(
        said[4..],
        [
            "exited",
            "kill at 2",
            "exited",
            "kill at 2",
            "exited",
            "completed",
            "finish completed"
        ]
    );
    // A fault of one ends all.
    let mut machine = trio();
    let fault = Box::new(Fault::training("the loss is not finite"));
    let causes = vec![
        word(1, FromWorker::Failed(fault)),
        left(1),
        lost(0),
        lost(2),
    ];
    let said = run(&mut machine, causes);
    let expected = [
        "exited",
        "kill",
        "kill at 2",
        "exited",
        "exited",
        "Training",
        "failed",
        "finish failed",
    ];
    assert_eq!(said, expected);
}

#[test]
fn what_was_asked_is_asked_again_after_a_recovery() {
    let mut machine = trio();
    let causes = vec![
        pause(),
        lost(0),
        waits(1, Some(5)),
        waits(2, Some(5)),
        up(0),
        waits(0, None),
    ];
    let said = run(&mut machine, causes);
    assert_eq!(said[..2], ["pausing", "send Pause"]);
    assert_eq!(said[said.len() - 2..], ["form 0+1+2", "send Pause"]);
}

#[test]
fn what_is_told_twice_is_recorded_once() {
    let mut machine = trio();
    let told = |index| {
        let event = FromWorker::Event {
            place: Some(Place {
                step: Step::new(6),
                index,
            }),
            event: Box::new(Event::Warned {
                message: index.to_string(),
            }),
        };
        word(0, event)
    };
    let recorded = [0, 1, 0, 1, 2].map(|index| machine.decide(told(index), at(2)).len());
    assert_eq!(recorded, [1, 1, 0, 0, 1]);
}

/// What a machine that sums in an order warns of when its three workers become `size`.
fn warnings(order: SumOrder, size: u32) -> Vec<String> {
    let mut machine = trio();
    machine.order = order;
    let mut actions = machine.decide(Cause::Resize(size, "a test".to_string()), at(2));
    let added = (3..size).flat_map(|slot| [up(slot), waits(slot, None)]);
    let causes: Vec<Cause> = added
        .chain((0..3).map(|slot| waits(slot, Some(5))))
        .collect();
    for cause in causes {
        actions.extend(machine.decide(cause, at(3)));
    }
    let warned = actions.into_iter().filter_map(|action| match action {
        Action::Record(_, Event::Warned { message }) => Some(message),
        _ => None,
    });
    warned.collect()
}

#[test]
fn another_number_of_workers_is_warned_of_where_it_changes_the_result() {
    for (size, text) in [(2, "2 after 3"), (4, "4 after 3")] {
        let warned = warnings(SumOrder::Fast, size);
        assert!(warned.len() == 1 && warned[0].contains(text), "{warned:?}");
        assert!(warnings(SumOrder::Canonical, size).is_empty());
    }
    assert!(warnings(SumOrder::Fast, 3).is_empty());
}

#[test]
fn a_single_worker_is_a_group_to_tell_of_after_several() {
    let formed = |world| {
        let mut machine = Machine::new(POLICY, RunState::Paused, Attempt::new(2), 1, 8);
        machine.world = world;
        machine.begin("test");
        machine.decide(up(0), at(0));
        let actions = machine.decide(waits(0, None), at(1));
        actions
            .iter()
            .any(|action| matches!(action, Action::Record(_, Event::GroupFormed { .. })))
    };
    assert!(formed(Some(WorldSize::new(4))));
    assert!(!formed(Some(WorldSize::new(1))) && !formed(None));
}
