//! Why a call failed.

use std::io;

use super::Kind;
use super::call::Call;
use crate::run::{Fault, Rank, WorldSize};

/// Why a call failed.
///
/// `TooLong` up to `WrongReduction` refuse the arguments: nobody was told of the call, and the group is as
/// before. All others are final.
#[derive(Debug, thiserror::Error)]
pub enum CollectiveError {
    /// A message or vector is longer than the limit, in bytes or floats.
    #[error("a {kind} of {length} is longer than the limit of {limit}")]
    TooLong {
        /// Call.
        kind: Kind,
        /// Bytes, or floats of a sum.
        length: u64,
        /// Most that is possible.
        limit: u64,
    },
    /// More node buffers than there are.
    #[error("{count} node buffers are needed, {limit} were set up")]
    TooMany {
        /// Needed.
        count: usize,
        /// Existing.
        limit: usize,
    },
    /// A rank outside the group.
    #[error("there is no rank {rank} in a group of {world}")]
    NoSuchRank {
        /// Named rank.
        rank: Rank,
        /// Size of the group.
        world: WorldSize,
    },
    /// A message to oneself.
    #[error("rank {rank} cannot exchange messages with itself")]
    Alone {
        /// This rank.
        rank: Rank,
    },
    /// A reduction that was planned for another number of ranks.
    #[error("a sum for {ranks} ranks is asked of a group of {world}")]
    WrongReduction {
        /// Ranks in the reduction.
        ranks: WorldSize,
        /// Ranks in the group.
        world: WorldSize,
    },
    /// [`super::Handle::abort`] was called, or an earlier call failed.
    #[error("the group of workers was aborted")]
    Aborted,
    /// Some ranks did nothing for as long as the time limit.
    #[error("collective {number} ({kind}): no sign of rank {} within the time limit", names(.missing))]
    TimedOut {
        /// Number of the collective.
        number: u64,
        /// Its kind.
        kind: Kind,
        /// Who is missing.
        missing: Vec<Rank>,
    },
    /// A rank left the group.
    #[error("collective {number} ({kind}): rank {rank} has left")]
    Closed {
        /// Who left.
        rank: Rank,
        /// Number of the collective.
        number: u64,
        /// Its kind.
        kind: Kind,
    },
    /// Ranks made different calls.
    #[error("ranks disagree: rank {rank} calls {theirs}, this rank calls {mine}")]
    Mismatch {
        /// The other rank.
        rank: Rank,
        /// Its call.
        theirs: String,
        /// Ours.
        mine: String,
    },
    /// The shared memory is not what it should be.
    #[error("the shared memory of the group cannot be used: {reason}")]
    Segment {
        /// What is wrong.
        reason: String,
    },
    /// Another process answers for a rank, but not as a member of this run.
    #[error("rank {rank} is refused: {reason}")]
    Handshake {
        /// Whom it stands for.
        rank: Rank,
        /// What is wrong.
        reason: String,
    },
    /// NCCL or the CUDA driver is missing or refused something.
    #[error("NCCL cannot {doing}: {reason}")]
    Library {
        /// What was being done.
        doing: &'static str,
        /// In its words.
        reason: String,
    },
    /// NCCL can no longer reach another rank.
    #[error("NCCL has lost another rank: {reason}")]
    Lost {
        /// In its words.
        reason: String,
    },
    /// The operating system refused something.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl CollectiveError {
    pub(super) fn mismatch(rank: Rank, theirs: &Call, mine: &Call) -> Self {
        Self::Mismatch {
            rank,
            theirs: theirs.to_string(),
            mine: mine.to_string(),
        }
    }

    pub(super) fn segment(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Segment { reason }
    }

    /// For `map_err`: names what was being done.
    pub(super) fn io<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> Self {
        move |source| Self::Io {
            doing,
            source: source.into(),
        }
    }
}

/// What the library says is about this machine or its GPUs: another attempt would end the same way.
impl From<CollectiveError> for Fault {
    fn from(error: CollectiveError) -> Self {
        let fault = Fault::machine(error.to_string());
        match error {
            CollectiveError::Library { .. } => fault.advise(
                "install NCCL (`libnccl.so.2`) and the NVIDIA driver, see `nvidia-smi` and, with \
                 NCCL_DEBUG=WARN, the log of the worker; `resources.transport = \"auto\"` does without NCCL",
            ),
            _ => fault,
        }
    }
}

/// "1", "1 and 2", "1, 2 and 3".
fn names(ranks: &[Rank]) -> String {
    let names: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ranks_are_named() {
        let error = CollectiveError::TimedOut {
            number: 7,
            kind: Kind::Sum,
            missing: [1, 2, 5].map(Rank::new).to_vec(),
        };
        assert_eq!(
            error.to_string(),
            "collective 7 (sum): no sign of rank 1, 2 and 5 within the time limit"
        );
    }
}
