//! Workers that hang, talk nonsense or do not leave, and runs that start in any state.

use super::*;

#[test]
fn a_hung_worker_is_named_examined_killed_and_replaced() {
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
    machine.decide(launched(8), at(62));
    machine.decide(ready(), at(62));
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
    machine.decide(quiet_tick(), at(2));
    let said = machine.decide(quiet_tick(), at(2000));
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn a_worker_that_does_not_leave_is_made_to() {
    let mut machine = training();
    let mut said = run(&mut machine, vec![done(Outcome::Completed)]);
    for second in 3..30 {
        said.extend(words(&machine.decide(quiet_tick(), at(second))));
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
    let causes = vec![
        Cause::Closed(SLOT, Some("not understood".to_string())),
        gone(9),
    ];
    let said = run(&mut machine, causes);
    assert_eq!(said, ["kill", "exited, restarts", "starting", "launch 2"]);
    let mut machine = training();
    let hello = Cause::Message(
        SLOT,
        FromWorker::Hello {
            version: WIRE_VERSION + 1,
            pid: 7,
        },
    );
    let said = run(&mut machine, vec![hello, gone(9)]);
    assert_eq!(
        said,
        ["kill", "exited", "Machine", "failed", "finish failed"]
    );
}

#[test]
fn a_pause_before_training_began_stays_a_pause() {
    let mut machine = Machine::new(POLICY, RunState::Paused, Attempt::new(2), 1, 8);
    assert_eq!(words(&machine.begin("test")), ["starting", "launch 2"]);
    machine.decide(launched(7), at(0));
    let causes = vec![
        pause(),
        ready(),
        began(3),
        done(Outcome::Paused),
        Cause::Gone(SLOT, Ending::Exited(0)),
    ];
    assert_eq!(
        run(&mut machine, causes),
        ["pausing", "send Pause", "exited", "paused", "finish paused"],
        "said once somebody can hear it"
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
        let mut machine = Machine::new(POLICY, state, Attempt::new(2), 1, 8);
        assert_eq!(
            words(&machine.begin("test")),
            ["starting", "launch 2"],
            "{state}"
        );
    }
}

#[test]
fn a_run_in_the_queue_can_leave_it() {
    let queued = || {
        let mut machine = Machine::new(POLICY, RunState::Paused, Attempt::new(2), 2, 8);
        let news = Event::SlotsAwaited {
            wants: "2 devices".to_string(),
            behind: Vec::new(),
            holders: vec!["other".to_string()],
        };
        let said = words(&machine.decide(Cause::Queued(news), at(0)));
        assert_eq!(said, ["queued"]);
        machine
    };
    assert_eq!(
        run(&mut queued(), vec![pause()]),
        ["paused", "finish paused"]
    );
    assert_eq!(
        run(&mut queued(), vec![stop()]),
        ["cancelled", "finish cancelled"]
    );
    assert_eq!(
        run(&mut queued(), vec![interrupt()]),
        ["paused", "finish paused"]
    );
    let mut machine = queued();
    machine.staff(1);
    assert_eq!(words(&machine.begin("test")), ["starting", "launch 2"]);
}

#[test]
fn a_worker_that_ran_out_of_memory_says_how_much_it_had() {
    let mut machine = training();
    let measured = Event::MemoryMeasured {
        rank: SLOT,
        peak_bytes: 3_140_000_000,
    };
    machine.decide(said(measured), at(2));
    let ending = Ending::OutOfMemory("the machine ran out of memory".to_string());
    let actions = machine.decide(Cause::Gone(SLOT, ending), at(3));
    let reasons = actions.iter().find_map(|action| match action {
        Action::Record(_, Event::StateChanged { reason, .. }) => Some(reason.clone()),
        _ => None,
    });
    let reason = reasons.unwrap();
    assert!(
        reason.contains("3.1 GB") && reason.contains("out of memory"),
        "{reason}"
    );
}
