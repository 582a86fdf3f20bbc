//! Small journals for tests.

use std::collections::BTreeMap;
use std::path::Path;

use super::{DIRECTORY_FORMAT, JOURNAL_FORMAT, Journal};
use crate::run::{
    Attempt, Epoch, Event, Phases, RunDir, RunId, RunIdentity, RunState, StateCause, Step,
    StepReport,
};

/// The first event of a run.
pub(crate) fn created(name: &str) -> Event {
    Event::RunCreated {
        format: JOURNAL_FORMAT,
        id: RunId::new(),
        name: name.to_string(),
        config_sha256: "c0ffee".to_string(),
    }
}

/// A step whose values all depend on the step and `salt`.
pub(crate) fn step(step: u64, salt: f64) -> Event {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let at = step as f64;
    Event::StepFinished(StepReport {
        step: Step::new(step),
        epoch: Epoch::new(0),
        samples: 32,
        tokens: 0,
        loss: at + salt,
        learning_rate: 0.1,
        gradient_norm: 1.0 / at,
        seconds: 0.005,
        phases: Phases::default(),
        metrics: BTreeMap::from([("accuracy".to_string(), 0.5 + salt)]),
    })
}

/// An evaluation.
pub(crate) fn evaluated(step: u64, loss: f64) -> Event {
    Event::Evaluated {
        step: Step::new(step),
        epoch: Epoch::new(0),
        split: "valid".to_string(),
        samples: 10,
        seconds: 0.1,
        metrics: BTreeMap::from([("loss".to_string(), loss)]),
    }
}

/// The beginning of training in an attempt.
pub(crate) fn began(step: u64) -> Event {
    Event::TrainingBegan {
        step: Step::new(step),
        steps_total: 100,
        steps_per_epoch: 10,
        checkpoint: None,
        device: "cpu".to_string(),
    }
}

/// A change of state.
pub(crate) fn state(from: RunState, to: RunState, cause: StateCause) -> Event {
    Event::StateChanged {
        from,
        to,
        cause,
        reason: format!("because of {cause:?}"),
    }
}

/// A run directory with a journal of `events`, each with its attempt.
pub(crate) fn run_in(folder: &Path, name: &str, events: &[(u32, Event)]) -> RunDir {
    let dir = RunDir::new(folder.join(name));
    std::fs::create_dir_all(dir.root()).unwrap();
    let identity = RunIdentity {
        format: DIRECTORY_FORMAT,
        id: RunId::new(),
        name: name.to_string(),
        created_ms: super::journal::now_ms(),
    };
    std::fs::write(dir.identity(), serde_json::to_vec(&identity).unwrap()).unwrap();
    let mut journal = Journal::create(&dir).unwrap();
    journal.append(created(name), Attempt::new(1)).unwrap();
    for (attempt, event) in events {
        journal
            .append(event.clone(), Attempt::new(*attempt))
            .unwrap();
    }
    assert_eq!(journal.flush(), Vec::<String>::new());
    dir
}

/// A finished run of `steps` steps.
pub(crate) fn finished_in(folder: &Path, name: &str, steps: u64) -> RunDir {
    let mut events = vec![
        (
            1,
            state(RunState::Queued, RunState::Starting, StateCause::Started),
        ),
        (1, began(0)),
        (
            1,
            state(
                RunState::Starting,
                RunState::Running,
                StateCause::TrainingBegan,
            ),
        ),
    ];
    events.extend((1..=steps).map(|at| (1, step(at, 0.0))));
    events.push((
        1,
        state(
            RunState::Running,
            RunState::Completed,
            StateCause::LengthReached,
        ),
    ));
    run_in(folder, name, &events)
}
