//! The vocabulary of a run: what it is called, which state it is in, what happened, what is asked of
//! it, what went wrong, and how all that travels between processes.
//!
//! Refuses to: start a process, open a store, or know a tensor.

mod command;
mod count;
mod dir;
mod environment;
mod event;
mod fault;
mod id;
mod reader;
mod state;
mod summary;
mod token;
pub mod wire;

pub use command::{Command, ControlReply, ControlRequest};
pub use count::{Attempt, Epoch, Rank, SampleId, Seat, ShardId, Step, WorldSize};
pub use dir::{RunDir, RunIdentity};
pub use environment::{Environment, Gpu};
pub use event::{
    CheckpointInfo, ClassCount, DataSummary, Entry, Event, LayerSummary, PartSummary, Phases,
    Place, RecoveryTiming, SPLIT_TEST, SPLIT_TRAIN, SPLIT_VALIDATION, StepReport,
};
pub use fault::{Fault, FaultClass};
pub use id::RunId;
pub use reader::Reader;
pub use state::{RunState, StateCause, StateError};
pub use summary::{Best, MetricPoint, RunSummary};
pub use token::{PROOF_BYTES, Token, random_bytes};

/// Name of the hidden command that a supervisor starts its workers with.
pub const WORKER_COMMAND: &str = "__worker";
