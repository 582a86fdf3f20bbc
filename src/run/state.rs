//! The states of a run and the transitions between them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// State of a run, as journaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Recorded, waits for device slots.
    Queued,
    /// Workers start, data and model are prepared.
    Starting,
    /// Trains.
    Running,
    /// Was asked to pause; writes its checkpoint.
    Pausing,
    /// Stopped with a checkpoint, on request or by an action; `trainer resume` continues.
    Paused,
    /// Reached its configured length.
    Completed,
    /// Ended by early stopping.
    EarlyStopped,
    /// Ended by a fault.
    Failed,
    /// Ended by `trainer stop`.
    Cancelled,
}

/// What moves a run from one state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateCause {
    /// Other runs have the devices.
    SlotsAwaited,
    /// The slots are there (or a resume begins).
    Started,
    /// The first step is about to run.
    TrainingBegan,
    /// A worker died and is being replaced.
    WorkerLost,
    /// Somebody, a signal or an action asked for a pause.
    PauseRequested,
    /// The checkpoint of a pause is written.
    PauseReached,
    /// The configured length is reached.
    LengthReached,
    /// Early stopping decided.
    StoppedEarly,
    /// A fault ended the run.
    FaultRaised,
    /// Somebody asked to stop.
    StopRequested,
    /// The supervisor is gone without a last word; found by the next command that looks.
    FoundDead,
}

/// A cause that makes no sense in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run that is {state} cannot take {cause:?}")]
pub struct StateError {
    /// State the run is in.
    pub state: RunState,
    /// What was said to have happened.
    pub cause: StateCause,
}

impl RunState {
    /// The state after `cause`.
    ///
    /// # Errors
    ///
    /// When the transition does not exist.
    pub fn next(self, cause: StateCause) -> Result<RunState, StateError> {
        use RunState as S;
        use StateCause as C;
        let next = match (self, cause) {
            // Any run can be started again: one that died without a word, a finished one that is
            // extended.
            (_, C::SlotsAwaited) => S::Queued,
            (_, C::Started) | (S::Starting | S::Running, C::WorkerLost) => S::Starting,
            (S::Starting, C::TrainingBegan) => S::Running,
            (S::Pausing, C::WorkerLost | C::TrainingBegan)
            | (S::Starting | S::Running | S::Pausing, C::PauseRequested) => S::Pausing,
            (S::Queued, C::PauseRequested)
            | (S::Starting | S::Running | S::Pausing, C::PauseReached) => S::Paused,
            (S::Starting | S::Running | S::Pausing, C::LengthReached) => S::Completed,
            (S::Starting | S::Running | S::Pausing, C::StoppedEarly) => S::EarlyStopped,
            (S::Queued | S::Starting | S::Running | S::Pausing, C::FaultRaised | C::FoundDead) => {
                S::Failed
            }
            (S::Queued | S::Starting | S::Running | S::Pausing | S::Paused, C::StopRequested) => {
                S::Cancelled
            }
            _ => return Err(StateError { state: self, cause }),
        };
        Ok(next)
    }

    /// Whether a supervisor should be alive in this state.
    #[must_use]
    pub fn is_live(self) -> bool {
        matches!(
            self,
            RunState::Queued | RunState::Starting | RunState::Running | RunState::Pausing
        )
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RunState::Queued => "queued",
            RunState::Starting => "starting",
            RunState::Running => "running",
            RunState::Pausing => "pausing",
            RunState::Paused => "paused",
            RunState::Completed => "completed",
            RunState::EarlyStopped => "early_stopped",
            RunState::Failed => "failed",
            RunState::Cancelled => "cancelled",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_its_usual_way() {
        let mut state = RunState::Queued;
        for (cause, expected) in [
            (StateCause::Started, RunState::Starting),
            (StateCause::TrainingBegan, RunState::Running),
            (StateCause::WorkerLost, RunState::Starting),
            (StateCause::TrainingBegan, RunState::Running),
            (StateCause::PauseRequested, RunState::Pausing),
            (StateCause::PauseReached, RunState::Paused),
            (StateCause::Started, RunState::Starting),
            (StateCause::TrainingBegan, RunState::Running),
            (StateCause::LengthReached, RunState::Completed),
        ] {
            state = state.next(cause).unwrap();
            assert_eq!(state, expected);
        }
    }

    #[test]
    fn ended_runs_take_only_a_start() {
        for state in [
            RunState::Completed,
            RunState::EarlyStopped,
            RunState::Failed,
        ] {
            assert!(state.next(StateCause::PauseRequested).is_err());
            assert!(state.next(StateCause::StopRequested).is_err());
            assert!(state.next(StateCause::LengthReached).is_err());
            assert_eq!(state.next(StateCause::Started), Ok(RunState::Starting));
        }
    }
}
