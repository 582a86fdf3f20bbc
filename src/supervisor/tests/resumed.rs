//! Runs that go on.

use super::super::control;
use super::*;

#[test]
fn a_paused_run_goes_on_and_a_complete_one_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let finished = thread::scope(|scope| {
        let run = scope.spawn(|| start(folder.path(), &config(), vec![obedient(5)]));
        let dir = run_in(folder.path());
        wait_for(|| control(&dir, ControlRequest::Stop).ok());
        run.join().unwrap()
    });
    assert_eq!(finished.state, RunState::Cancelled);
    let resumed = resume(&finished.dir, vec![completing(5, 9)]).unwrap();
    assert_eq!(resumed.state, RunState::Completed);
    let summary = store::summary(&finished.dir).unwrap();
    assert_eq!(
        (summary.attempts, summary.step),
        (Attempt::new(2), Step::new(9))
    );
    let before = entries(&finished.dir).len();
    let again = resume(&finished.dir, vec![]).unwrap();
    assert_eq!(again.state, RunState::Completed);
    assert_eq!(entries(&finished.dir).len(), before);
}

#[test]
fn a_supervisor_without_a_last_word_is_noted_on_resume() {
    let folder = tempfile::tempdir().unwrap();
    let finished = start(folder.path(), &config(), vec![completing(0, 5)]);
    let dir = finished.dir;
    // As after a kill: the journal ends in the middle of a line of the running state.
    let text = std::fs::read_to_string(dir.journal()).unwrap();
    let cut = text.find("step_finished").unwrap() + 20;
    std::fs::write(dir.journal(), &text[..cut]).unwrap();
    let resumed = resume(&dir, vec![completing(0, 5)]).unwrap();
    assert_eq!(resumed.state, RunState::Completed);
    let causes: Vec<StateCause> = entries(&dir)
        .iter()
        .filter_map(|entry| match entry.event {
            Event::StateChanged { cause, .. } => Some(cause),
            _ => None,
        })
        .collect();
    assert_eq!(
        causes,
        [
            StateCause::Started,
            StateCause::TrainingBegan,
            StateCause::FoundDead,
            StateCause::Started,
            StateCause::TrainingBegan,
            StateCause::LengthReached
        ]
    );
    let warned = entries(&dir).iter().any(
        |entry| matches!(&entry.event, Event::Warned { message } if message.contains("cut or garbled")),
    );
    assert!(warned);
}

#[test]
fn a_changed_config_needs_permission() {
    let folder = tempfile::tempdir().unwrap();
    let own = config();
    let finished = start(folder.path(), &own, vec![completing(0, 5)]);
    let mut other = own.clone();
    other.train.length = crate::config::Length::Epochs(2);
    let mut request = Resume {
        dir: &finished.dir,
        checkpoint: None,
        config: Some((&other, "the new source")),
        allow_config_change: false,
        slots: None,
        cluster: None,
    };
    let before = std::fs::read(finished.dir.journal()).unwrap();
    let refused = resume_with(request, &mut [], &mut Threads::default()).unwrap_err();
    assert_eq!(refused.class, FaultClass::Usage);
    assert!(refused.message.contains("epochs"), "{refused}");
    assert_eq!(std::fs::read(finished.dir.journal()).unwrap(), before);
    request.allow_config_change = true;
    let mut threads = Threads::new(vec![completing(5, 10)]);
    let resumed = resume_with(request, &mut [], &mut threads).unwrap();
    assert_eq!(resumed.state, RunState::Completed);
    let job = threads.jobs.lock().unwrap()[0].clone();
    assert_eq!(job.config_sha256, other.sha256());
    assert_eq!(
        std::fs::read_to_string(finished.dir.config()).unwrap(),
        other.to_toml()
    );
    let summary = store::summary(&finished.dir).unwrap();
    assert_eq!(summary.config_sha256, other.sha256());
    // The changed config is the run's own from now on.
    assert_eq!(
        resume(&finished.dir, vec![]).unwrap().state,
        RunState::Completed
    );
}

#[test]
fn a_tampered_config_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let finished = start(folder.path(), &config(), vec![completing(0, 5)]);
    let text = std::fs::read_to_string(finished.dir.config()).unwrap();
    std::fs::write(
        finished.dir.config(),
        text.replacen("seed = ", "seed = 1", 1),
    )
    .unwrap();
    let refused = resume(&finished.dir, vec![]).unwrap_err();
    assert_eq!(refused.class, FaultClass::Damaged);
}

#[test]
fn a_checkpoint_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let finished = start(folder.path(), &config(), vec![completing(0, 5)]);
    let request = Resume {
        dir: &finished.dir,
        checkpoint: Some("step-00000003"),
        config: None,
        allow_config_change: false,
        slots: None,
        cluster: None,
    };
    let refused = resume_with(request, &mut [], &mut Threads::default()).unwrap_err();
    assert_eq!(refused.class, FaultClass::Usage);
}
