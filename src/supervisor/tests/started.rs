//! Runs from their start.

use super::super::{control, follow};
use super::*;

#[test]
fn a_run_is_recorded_from_first_to_last() {
    let folder = tempfile::tempdir().unwrap();
    let config = config();
    let finished = start(folder.path(), &config, vec![completing(0, 30)]);
    assert_eq!(finished.state, RunState::Completed);
    assert_eq!(finished.fault, None);
    let dir = &finished.dir;
    let name = dir.root().file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("toy-") && name.len() == "toy-".len() + 8,
        "{name}"
    );
    let entries = entries(dir);
    assert!(
        entries
            .iter()
            .enumerate()
            .all(|(at, entry)| entry.seq == at as u64)
    );
    assert!(matches!(&entries[0].event, Event::RunCreated { name: found, .. } if found == name));
    let started = entries.iter().find_map(|entry| match &entry.event {
        Event::AttemptStarted { environment, .. } => Some(environment.as_ref().clone()),
        _ => None,
    });
    assert!(!started.unwrap().hostname.is_empty());
    assert_eq!(
        states(dir),
        [RunState::Starting, RunState::Running, RunState::Completed]
    );
    assert_eq!(
        std::fs::read_to_string(dir.config_source()).unwrap(),
        "the source"
    );
    assert_eq!(
        std::fs::read_to_string(dir.config()).unwrap(),
        config.to_toml()
    );
    let (summary, source) = store::summary_from(dir).unwrap();
    assert_eq!(
        (summary.step, source),
        (Step::new(30), store::Source::Cache)
    );
    assert!(!is_alive(dir));
    assert!(!dir.control_socket().exists());
    let rows = store::metrics(dir, &store::MetricQuery::default()).unwrap();
    assert_eq!(rows.iter().filter(|row| row.name == "loss").count(), 30);
}

#[test]
fn a_dead_worker_is_replaced_and_the_summary_follows() {
    let folder = tempfile::tempdir().unwrap();
    let finished = start(
        folder.path(),
        &config(),
        vec![dying(0, 20), dying(10, 25), completing(20, 40)],
    );
    assert_eq!(finished.state, RunState::Completed);
    let summary = store::summary(&finished.dir).unwrap();
    assert_eq!(summary.attempts, Attempt::new(3));
    let rows = store::metrics(&finished.dir, &store::MetricQuery::default()).unwrap();
    let steps: Vec<u64> = rows
        .iter()
        .filter(|row| row.name == "loss")
        .map(|row| row.step.get())
        .collect();
    assert_eq!(steps, (1..=40).collect::<Vec<_>>());
    let attempts = entries(&finished.dir)
        .iter()
        .filter(|entry| matches!(entry.event, Event::AttemptStarted { .. }))
        .map(|entry| entry.attempt.get())
        .max();
    assert_eq!(attempts, Some(3));
}

#[test]
fn a_fault_of_the_worker_decides_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let script: Script = Box::new(|_, mut talk| {
        talk.train(0, 3);
        let fault = Fault::training("the loss is not finite").at(Step::new(4));
        talk.say(&FromWorker::Failed(Box::new(fault)));
        Ending::Exited(4)
    });
    let finished = start(folder.path(), &config(), vec![script]);
    assert_eq!(finished.state, RunState::Failed);
    let fault = finished.fault.unwrap();
    assert_eq!(fault.class, FaultClass::Training);
    assert_eq!(fault.rank.map(crate::run::Rank::get), Some(0));
    assert_eq!(
        store::summary(&finished.dir).unwrap().reason,
        "the loss is not finite"
    );
}

#[test]
fn a_run_is_controlled_from_outside_and_cannot_be_resumed_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    // Longer than a socket's path may be.
    let deep = folder.path().join("d".repeat(150));
    thread::scope(|scope| {
        let run = scope.spawn(|| start(&deep, &config(), vec![obedient(5)]));
        let dir = run_in(&deep);
        let summary = wait_for(|| match control(&dir, ControlRequest::Status) {
            Ok(ControlReply::Status(summary)) if summary.step == Step::new(5) => Some(summary),
            _ => None,
        });
        assert_eq!(summary.state, RunState::Running);
        assert!(is_alive(&dir));
        let refused = resume(&dir, vec![]).unwrap_err();
        assert_eq!(refused.class, FaultClass::Usage);
        assert!(refused.message.contains("alive"), "{refused}");
        let reply = control(&dir, ControlRequest::Checkpoint).unwrap();
        assert_eq!(reply, ControlReply::Accepted);
        assert_eq!(store::summary(&dir).unwrap().checkpoints.len(), 1);
        assert_eq!(
            control(&dir, ControlRequest::Pause).unwrap(),
            ControlReply::Accepted
        );
        let finished = run.join().unwrap();
        assert_eq!(finished.state, RunState::Paused);
        assert!(
            finished.reason.contains("trainer pause"),
            "{}",
            finished.reason
        );
        let fault = control(&dir, ControlRequest::Pause).unwrap_err();
        assert!(fault.message.contains("not alive"), "{fault}");
    });
}

#[test]
fn no_worker_to_be_had_is_a_fault_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let finished = start(folder.path(), &config(), vec![]);
    assert_eq!(finished.state, RunState::Failed);
    assert_eq!(finished.fault.unwrap().class, FaultClass::Machine);
    assert!(!is_alive(&finished.dir));
}

#[test]
fn followers_see_every_entry_and_one_that_does_not_read_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (go, wait) = std::sync::mpsc::channel();
    let script: Script = Box::new(move |_, mut talk| {
        let _ = wait.recv();
        talk.train(0, 3000);
        talk.done(Outcome::Completed)
    });
    thread::scope(|scope| {
        let run = scope.spawn(|| start(folder.path(), &config(), vec![script]));
        let dir = run_in(folder.path());
        let stuck = wait_for(|| follow(&dir).ok());
        let reading = follow(&dir).unwrap();
        // Both are followers before the training begins.
        wait_for(|| control(&dir, ControlRequest::Status).ok());
        let reader = scope.spawn(move || {
            let (mut seen, mut skipped) = (Vec::new(), 0);
            for reply in reading {
                match reply {
                    ControlReply::Entry(entry) => seen.push(entry.seq),
                    ControlReply::Skipped(count) => skipped += count,
                    other => panic!("{other:?}"),
                }
            }
            (seen, skipped)
        });
        go.send(()).unwrap();
        assert_eq!(run.join().unwrap().state, RunState::Completed);
        let (seen, skipped) = reader.join().unwrap();
        assert!(
            seen.is_sorted() && seen.len() as u64 + skipped > 3000,
            "{} {skipped}",
            seen.len()
        );
        drop(stuck);
    });
}

/// Collects what displays get.
struct Collect(Arc<Mutex<Vec<u64>>>);

impl Reader for Collect {
    fn take(&mut self, entry: &Entry) {
        self.0.lock().unwrap().push(entry.seq);
    }
}

#[test]
fn displays_get_what_the_journal_has() {
    let folder = tempfile::tempdir().unwrap();
    let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
    let mut readers: Vec<Box<dyn Reader + Send>> = vec![Box::new(Collect(Arc::clone(&seen)))];
    let config = config();
    let new = NewRun {
        config: &config,
        source: "",
        runs_dir: folder.path(),
        cluster: None,
    };
    let mut threads = Threads::new(vec![completing(0, 500)]);
    let crew = Crew::of(&config, None, None).unwrap();
    let finished = start_with(new, &crew, &mut readers, &mut threads).unwrap();
    let journaled: Vec<u64> = entries(&finished.dir)
        .iter()
        .map(|entry| entry.seq)
        .collect();
    assert_eq!(*seen.lock().unwrap(), journaled);
}
