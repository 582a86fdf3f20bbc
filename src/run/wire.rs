//! How messages travel between the processes of a run: a length and a JSON text, bounded.
//!
//! Supervisor and worker are always the same executable, so the version only guards against a
//! binary that was replaced while a run was alive.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Attempt, Command, Event, Fault, Place, Rank, Seat, Step, Token, WorldSize};

/// Version of the messages below. Different versions do not talk.
pub const WIRE_VERSION: u32 = 2;

/// Largest frame, in bytes. A layer list of a very deep model is the largest message known.
pub const FRAME_BYTES_MAX: u32 = 16 << 20;

/// What a worker does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Reads and prepares data, builds the model, loads a checkpoint.
    Preparing,
    /// Waits for the others of its group.
    Waiting,
    /// Trains.
    Stepping,
    /// Evaluates.
    Evaluating,
    /// Waits for a checkpoint to reach the disk.
    Saving,
}

/// How a worker's training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The configured length is reached.
    Completed,
    /// Early stopping.
    EarlyStopped,
    /// Paused on request, checkpoint written.
    Paused,
    /// Stopped on request, checkpoint written.
    Stopped,
    /// The group goes on without this worker.
    Released,
}

/// Where a worker stands in the sequence of things that its group does together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Collectives begun in this group.
    pub number: u64,
    /// What the last one is.
    pub kind: String,
    /// Whether it waits in it for others.
    pub waiting: bool,
}

/// Worker to supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWorker {
    /// First message.
    Hello {
        /// [`WIRE_VERSION`] of the worker.
        version: u32,
        /// Its process id.
        pid: u32,
    },
    /// Data and model are there, or the group came apart: it can be one of a group.
    Ready {
        /// Numbers of a vector that a group sums in a step.
        vector_len: u64,
        /// Finished steps of the state in memory, if there is one.
        step: Option<Step>,
        /// Where it waits for the others of the next group, if not in shared memory.
        address: Option<SocketAddr>,
    },
    /// The workers of the group hold the same state; the first one says so.
    Agreed,
    /// Something happened.
    Event {
        /// Where it stands among those that all workers know.
        place: Option<Place>,
        /// What.
        event: Box<Event>,
    },
    /// Sign of life, at least once a second.
    Heartbeat {
        /// Finished steps.
        step: Step,
        /// What it does.
        phase: Phase,
        /// Where it stands in its group, while it is in one.
        position: Option<Position>,
    },
    /// Training ended well. Last message.
    Done(Outcome),
    /// Training failed. Last message.
    Failed(Box<Fault>),
}

/// Supervisor to worker, after the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// To the first worker of a group: what is asked of the run.
    Command(Command),
    /// Train as one of this group.
    Form(Formation),
    /// Leave the group of this number, keep the state in memory, and say [`FromWorker::Ready`].
    Abort(u64),
    /// End: the group goes on without this worker.
    Leave,
}

/// A group, as one of its workers is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formation {
    /// Number of the group within this session, from 1.
    pub number: u64,
    /// This worker's place in it.
    pub seat: Seat,
    /// Numbers of the longest vector that is summed.
    pub vector_len: u64,
    /// Most partial sums of one worker.
    pub nodes_max: u64,
    /// Shared memory of a group on one host; none for one worker.
    pub segment: Option<PathBuf>,
    /// Where each rank waits, of a group that talks over a network; else empty.
    pub peers: Vec<SocketAddr>,
    /// Longest time that a worker waits for the others, in milliseconds.
    pub timeout_ms: u64,
}

/// Supervisor to worker: what to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`WIRE_VERSION`] of the supervisor.
    pub version: u32,
    /// Resolved config as TOML.
    pub config: String,
    /// Its SHA-256; the worker recomputes it.
    pub config_sha256: String,
    /// Run directory.
    pub run_dir: PathBuf,
    /// Number of this worker process: its rank, unless a group was formed without some of the others.
    pub rank: Rank,
    /// Workers in the group.
    pub world_size: WorldSize,
    /// Attempt.
    pub attempt: Attempt,
    /// Directory name of the checkpoint to continue from.
    pub checkpoint: Option<String>,
    /// Compute threads.
    pub threads: u32,
    /// Device of this worker, where devices are shared out among runs.
    pub device: Option<String>,
    /// How the workers reach each other; none where they share memory.
    pub network: Option<Network>,
}

/// Where a worker can be reached by those of other hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Address of its host.
    pub address: IpAddr,
    /// What all workers know. Travels only within a host; an agent adds its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
}

/// A frame that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other side is gone.
    #[error("the connection closed")]
    Closed,
    /// Reading or writing failed.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// A frame is longer than [`FRAME_BYTES_MAX`].
    #[error("a message of {0} bytes is over the limit of {FRAME_BYTES_MAX}")]
    TooLong(u64),
    /// A frame does not hold the expected message.
    #[error("a message is not understood: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Writes one frame.
///
/// # Errors
///
/// When the message is too long or the connection fails.
pub fn send<T: Serialize>(out: &mut impl Write, message: &T) -> Result<(), WireError> {
    // One buffer and one write: frames of several threads must not interleave.
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - 4;
    let length = u32::try_from(length)
        .ok()
        .filter(|&n| n <= FRAME_BYTES_MAX)
        .ok_or(WireError::TooLong(length as u64))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    out.write_all(&frame)?;
    Ok(out.flush()?)
}

/// Reads one frame.
///
/// # Errors
///
/// [`WireError::Closed`] at a clean end between frames, the others as they say.
pub fn receive<T: DeserializeOwned>(input: &mut impl Read) -> Result<T, WireError> {
    let mut length = [0; 4];
    if let Err(error) = input.read_exact(&mut length) {
        return Err(match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => WireError::Closed,
            _ => WireError::Io(error),
        });
    }
    let length = u32::from_le_bytes(length);
    if length > FRAME_BYTES_MAX {
        return Err(WireError::TooLong(u64::from(length)));
    }
    let mut frame = vec![0; length as usize];
    input.read_exact(&mut frame)?;
    Ok(serde_json::from_slice(&frame)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_survives_the_way() {
        let mut pipe = Vec::new();
        let message = FromWorker::Heartbeat {
            step: Step::new(3),
            phase: Phase::Stepping,
            position: None,
        };
        send(&mut pipe, &message).unwrap();
        send(&mut pipe, &FromWorker::Done(Outcome::Paused)).unwrap();
        let mut input = pipe.as_slice();
        assert_eq!(receive::<FromWorker>(&mut input).unwrap(), message);
        assert_eq!(
            receive::<FromWorker>(&mut input).unwrap(),
            FromWorker::Done(Outcome::Paused)
        );
        assert!(matches!(
            receive::<FromWorker>(&mut input),
            Err(WireError::Closed)
        ));
    }

    #[test]
    fn hostile_frames_are_refused() {
        let huge = u32::MAX.to_le_bytes();
        assert!(matches!(
            receive::<FromWorker>(&mut huge.as_slice()),
            Err(WireError::TooLong(_))
        ));
        let cut = [9, 0, 0, 0, b'{'];
        assert!(matches!(
            receive::<FromWorker>(&mut cut.as_slice()),
            Err(WireError::Io(_))
        ));
        let junk = [2, 0, 0, 0, b'{', b'}'];
        assert!(matches!(
            receive::<FromWorker>(&mut junk.as_slice()),
            Err(WireError::Malformed(_))
        ));
    }
}
