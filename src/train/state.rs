//! What training holds in memory between two steps.

use serde::{Deserialize, Serialize};

use super::learner::Learner;
use super::watch::MetricWatch;
use crate::checkpoint::{STATE_VERSION, Snapshot, TrainState};
use crate::config::Config;
use crate::plan::Timetable;
use crate::run::{Event, Fault, Place, Step};

/// How much of what belongs to a step boundary is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Boundary {
    /// Nothing yet.
    Open {
        /// Whether an evaluation is due by the config, not only because training ends.
        scheduled: bool,
    },
    /// The validation, if one was due.
    Validated,
    /// All of it.
    Done,
}

/// Events that all workers know alike and the first one reports. They are kept until it is certain
/// that it has, so that another can say them in its place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    /// Events of this boundary so far.
    count: u32,
    recent: Vec<(Place, Event)>,
}

impl Told {
    /// Notes an event at the boundary after `step`.
    pub(super) fn note(&mut self, step: Step, event: Event) -> Place {
        let place = Place {
            step,
            index: self.count,
        };
        self.count += 1;
        self.recent.push((place, event));
        place
    }

    /// The first worker has come to the end of the next step: all it had to say is said.
    pub(super) fn settle(&mut self) {
        self.count = 0;
        self.recent.clear();
    }

    /// What may not have been said.
    pub(super) fn recent(&self) -> Vec<(Place, Event)> {
        self.recent.clone()
    }
}

/// What training holds in memory between two steps. The workers of a group hold the same.
pub(super) struct State {
    pub(super) learner: Learner,
    pub(super) watch: MetricWatch,
    /// Finished steps.
    pub(super) step: Step,
    pub(super) boundary: Boundary,
    pub(super) told: Told,
}

/// How far a state has come; the later one is the larger.
pub(super) type Progress = (Step, Boundary);

/// What a snapshot says beside the state.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) config_sha256: &'a str,
    pub(super) data_fingerprint: &'a str,
    pub(super) timetable: &'a Timetable,
}

/// The parts of a state that are in no checkpoint.
#[derive(Serialize, Deserialize)]
struct Passing {
    boundary: Boundary,
    told: Told,
}

impl State {
    /// How far it has come.
    pub(super) fn progress(&self) -> Progress {
        (self.step, self.boundary)
    }

    /// A copy on the host. `ended` says whether training has reached its end.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(super) fn snapshot(&self, about: About<'_>, ended: bool) -> Result<Snapshot, Fault> {
        Ok(Snapshot {
            step: self.step,
            model: self.learner.model_bytes()?,
            optimizer: self.learner.optimizer_bytes()?,
            state: TrainState {
                version: STATE_VERSION,
                step: self.step,
                epoch: about.timetable.epoch(self.step),
                samples_seen: about.timetable.samples_seen(self.step),
                config_sha256: about.config_sha256.to_string(),
                data_fingerprint: about.data_fingerprint.to_string(),
                early_stopping: self.watch.memory.clone(),
                best: self.watch.best.clone(),
                last_metrics: self.watch.last_metrics.clone(),
                ended,
                told: self
                    .told
                    .recent
                    .iter()
                    .map(|(_, event)| finite(event))
                    .collect(),
            },
            metric: self.watch.checkpoint_metric(),
        })
    }

    /// Takes over what a checkpoint holds.
    ///
    /// # Errors
    ///
    /// When it is of another model.
    pub(super) fn restore(&mut self, config: &Config, snapshot: &Snapshot) -> Result<(), Fault> {
        self.learner.restore(config, snapshot)?;
        self.watch.restore(&snapshot.state);
        self.step = snapshot.step;
        self.boundary = Boundary::Done;
        self.told = Told::default();
        Ok(())
    }

    /// All of it as bytes, for another worker.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(super) fn pack(&self, about: About<'_>) -> Result<Vec<u8>, Fault> {
        let passing = Passing {
            boundary: self.boundary,
            told: self.told.clone(),
        };
        let mut bytes = serde_json::to_vec(&passing).map_err(|error| broken(&error))?;
        let length = bytes.len() as u64;
        bytes.extend(self.snapshot(about, false)?.pack()?);
        bytes.extend_from_slice(&length.to_le_bytes());
        Ok(bytes)
    }

    /// Becomes what [`State::pack`] of another worker gave.
    ///
    /// # Errors
    ///
    /// When the bytes are not whole or of another model.
    pub(super) fn adopt(&mut self, config: &Config, bytes: &[u8]) -> Result<(), Fault> {
        let (bytes, length) = bytes
            .split_last_chunk()
            .ok_or_else(|| broken(&"it is empty"))?;
        let (passing, snapshot) = usize::try_from(u64::from_le_bytes(*length))
            .ok()
            .and_then(|length| bytes.split_at_checked(length))
            .ok_or_else(|| broken(&"its parts do not fit"))?;
        let passing: Passing = serde_json::from_slice(passing).map_err(|error| broken(&error))?;
        self.restore(config, &Snapshot::unpack(snapshot)?)?;
        self.boundary = passing.boundary;
        self.told = passing.told;
        Ok(())
    }
}

/// Without values that are no numbers, for which JSON has no word.
fn finite(event: &Event) -> Event {
    let mut event = event.clone();
    if let Event::Evaluated { metrics, .. } = &mut event {
        metrics.retain(|_, value| value.is_finite());
    }
    event
}

fn broken(what: &dyn std::fmt::Display) -> Fault {
    Fault::internal(format!(
        "the state of another worker cannot be taken over: {what}"
    ))
}
