//! What supervisor and agents say to each other.

use serde::{Deserialize, Serialize};

use crate::run::wire::{FromWorker, Job, ToWorker};
use crate::supervisor::ending::Ending;

/// Version of these messages. Different versions do not talk.
pub(super) const CLUSTER_VERSION: u32 = 1;

/// Number of a worker process among all that a supervisor has started on other hosts.
pub(super) type WorkerId = u64;

/// Supervisor to agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToAgent {
    /// Start a worker.
    Launch(WorkerId, Box<Job>),
    /// Pass this on to a worker.
    Tell(WorkerId, Box<ToWorker>),
    /// Write down what a worker's threads do.
    Examine(WorkerId),
    /// End a worker at once.
    Kill(WorkerId),
    /// The run is over for this session; with the exit code. Last message.
    End(u8),
    /// The agent cannot be one of the run's, and why. Last message.
    Refused(String),
    /// A sign of life.
    Ping,
}

/// Agent to supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromAgent {
    /// First message.
    Hello {
        /// [`CLUSTER_VERSION`] of the agent.
        version: u32,
        /// Number of its host.
        node: u32,
        /// Name of its host.
        hostname: String,
    },
    /// A worker runs, with this process id.
    Launched(WorkerId, u32),
    /// A worker could not be started.
    NotLaunched(WorkerId, String),
    /// A worker says something.
    Said(WorkerId, Box<FromWorker>),
    /// A worker closed its channel, or garbled it.
    Closed(WorkerId),
    /// A worker process is gone.
    Gone(WorkerId, Ending),
    /// A signal asks the run to leave.
    Signalled(String),
    /// A sign of life.
    Ping,
}
