//! Why training stops before its end.

use crate::collective::CollectiveError;
use crate::run::Fault;

/// Why training stops before its end.
#[derive(Debug)]
pub(super) enum Halt {
    /// It failed; a new attempt would fail the same way, or a person has to look.
    Fault(Fault),
    /// The group of workers is no longer whole, or is to be another one. What training holds in
    /// memory is that of its last finished step.
    Regroup,
}

impl From<Fault> for Halt {
    fn from(fault: Fault) -> Self {
        Halt::Fault(fault)
    }
}

impl From<CollectiveError> for Halt {
    fn from(error: CollectiveError) -> Self {
        match error {
            // Whoever is missing is found out by the supervisor, which sees all processes.
            CollectiveError::Aborted
            | CollectiveError::TimedOut { .. }
            | CollectiveError::Closed { .. }
            | CollectiveError::Lost { .. } => Halt::Regroup,
            error @ CollectiveError::Library { .. } => Halt::Fault(error.into()),
            error => Halt::Fault(
                Fault::internal(format!("the workers do not understand each other: {error}"))
                    .advise(
                        "please report it; `trainer resume` continues from the newest checkpoint",
                    ),
            ),
        }
    }
}
