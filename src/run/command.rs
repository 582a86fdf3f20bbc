//! What a run can be asked to do, by its supervisor or from another process.

use serde::{Deserialize, Serialize};

use super::{Entry, RunSummary};

/// Supervisor to worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Write a checkpoint at the next step boundary and end as paused.
    Pause,
    /// Write a checkpoint at the next step boundary and end as cancelled.
    Stop,
    /// Write a checkpoint at the next step boundary and go on.
    Checkpoint,
}

/// Another process to the supervisor, through the control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlRequest {
    /// See [`Command::Pause`].
    Pause,
    /// See [`Command::Stop`].
    Stop,
    /// See [`Command::Checkpoint`]; answered when the checkpoint is committed.
    Checkpoint,
    /// Go on with this number of workers; the result does not depend on it.
    Resize(u32),
    /// The run's summary as the supervisor sees it.
    Status,
    /// Every journal entry from now on, until the connection closes.
    Follow,
}

/// The supervisor's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlReply {
    /// Done, or under way.
    Accepted,
    /// Not done, and why.
    Refused(String),
    /// Answer to `Status`.
    Status(Box<RunSummary>),
    /// One entry of a `Follow`.
    Entry(Box<Entry>),
    /// The reader was too slow: this many entries were left out.
    Skipped(u64),
}
