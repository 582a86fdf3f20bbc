//! What the workers of a run do together: sum vectors, exchange bytes, wait for each other.
//!
//! [`Collective`] has one implementation for each way to reach the others: [`Solo`] for a worker that is
//! alone, [`Shm`] for workers of one host over shared memory, [`Tcp`] between hosts, and [`Nccl`], which
//! sums through GPUs and uses one of the others for all else. A sum has the same bits with each of them and
//! with any number of ranks, because the order of its additions follows from the number of shards alone
//! ([`crate::plan::Reduction`]), unless [`crate::config::SumOrder::Fast`] gives that up.
//!
//! All ranks make the same calls in the same order. A rank that calls something else, or with other
//! sizes, is named in an error on every rank; nobody waits forever and nothing garbled is returned. A call
//! that failed leaves the group broken: nothing is retried here, membership never changes, and later calls
//! fail at once. Finding out why a rank is missing and starting a new group is the supervisor's business.

mod call;
mod error;
mod nccl;
mod shm;
mod solo;
mod status;
mod tcp;
mod vectors;

pub use call::Kind;
pub use error::CollectiveError;
pub use nccl::{Nccl, nccl_is_here};
pub use shm::{Segment, Shm};
pub use solo::Solo;
pub use status::{Handle, Position};
pub use tcp::{Listener, Membership, Tcp};

use crate::plan::Reduction;
use crate::run::{Rank, WorldSize};

/// Longest message of one rank in [`Collective::gather`], in bytes.
pub const GATHER_BYTES_MAX: u64 = 64 << 20;

/// Longest message in [`Collective::broadcast`], in bytes.
pub const BROADCAST_BYTES_MAX: u64 = 64 << 30;

/// Longest message of [`Collective::send`], in bytes.
pub const MESSAGE_BYTES_MAX: u64 = 4 << 30;

/// Largest group.
pub const WORLD_SIZE_MAX: u32 = 64;

/// A rank's membership in a group of workers.
///
/// Each method but those that ask about the membership is a call that all ranks make together, except [`send`](Self::send) and
/// [`recv`](Self::recv), which two ranks make. Errors: see [`CollectiveError`]; all are final but those
/// that refuse the arguments.
pub trait Collective: Send {
    /// What this membership can do.
    fn limits(&self) -> &Limits;

    /// This worker.
    fn rank(&self) -> Rank {
        self.limits().rank
    }

    /// Number of workers in the group.
    fn world_size(&self) -> WorldSize {
        self.limits().world
    }

    /// Longest vector that can be summed, in floats.
    fn vector_len(&self) -> usize {
        self.limits().vector_len
    }

    /// Most node buffers of one rank.
    fn nodes_max(&self) -> usize {
        self.limits().nodes_max
    }

    /// For other threads: to abort, and to see where this rank is.
    fn handle(&self) -> Handle;

    /// This rank's places for `count` node sums of `len` floats each, in the order of its nodes.
    ///
    /// They lie where [`sum`](Self::sum) reads them and hold what was last written there; a sum does not
    /// change them. At first they hold zeros.
    ///
    /// # Errors
    ///
    /// When there are fewer or shorter places, or the group is broken.
    fn node_buffers(
        &mut self,
        count: usize,
        len: usize,
    ) -> Result<Vec<&mut [f32]>, CollectiveError>;

    /// The sum of all ranks' node buffers, of the first `len` floats of each, in canonical order.
    ///
    /// Each rank's first `reduction.nodes_of(rank).len()` buffers count.
    ///
    /// # Errors
    ///
    /// See [`CollectiveError`].
    fn sum(&mut self, reduction: &Reduction, len: usize) -> Result<&[f32], CollectiveError>;

    /// The messages of all ranks, by rank, each of any length up to [`GATHER_BYTES_MAX`].
    ///
    /// # Errors
    ///
    /// See [`CollectiveError`].
    fn gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError>;

    /// Gives everybody the bytes of `root`, at most [`BROADCAST_BYTES_MAX`]; what others had is replaced.
    ///
    /// # Errors
    ///
    /// See [`CollectiveError`]. The bytes of ranks other than `root` are then of no use.
    fn broadcast(&mut self, root: Rank, bytes: &mut Vec<u8>) -> Result<(), CollectiveError>;

    /// Returns when all ranks have called it.
    ///
    /// # Errors
    ///
    /// See [`CollectiveError`].
    fn barrier(&mut self) -> Result<(), CollectiveError>;

    /// Sends a message of at most [`MESSAGE_BYTES_MAX`] to another rank, which must receive it before its
    /// next collective.
    ///
    /// May wait for the receiver: two ranks that both send long messages before they receive wait for each
    /// other until the time limit.
    ///
    /// # Errors
    ///
    /// See [`CollectiveError`].
    fn send(&mut self, to: Rank, bytes: &[u8]) -> Result<(), CollectiveError>;

    /// Receives the next message that `from` sent to this rank.
    ///
    /// # Errors
    ///
    /// See [`CollectiveError`].
    fn recv(&mut self, from: Rank) -> Result<Vec<u8>, CollectiveError>;
}

/// What a membership can do, to check arguments against before anybody is told of a call.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    rank: Rank,
    world: WorldSize,
    vector_len: usize,
    nodes_max: usize,
}

impl Limits {
    fn check_vector(&self, count: usize, len: usize) -> Result<(), CollectiveError> {
        check_length(Kind::Sum, len as u64, self.vector_len as u64)?;
        if count > self.nodes_max {
            return Err(CollectiveError::TooMany {
                count,
                limit: self.nodes_max,
            });
        }
        Ok(())
    }

    fn check_sum(&self, reduction: &Reduction, len: usize) -> Result<(), CollectiveError> {
        if reduction.world_size() != self.world {
            return Err(CollectiveError::WrongReduction {
                ranks: reduction.world_size(),
                world: self.world,
            });
        }
        self.check_vector(reduction.nodes_of(self.rank).len(), len)
    }

    fn check_rank(&self, rank: Rank) -> Result<(), CollectiveError> {
        if rank.get() >= self.world.get() {
            return Err(CollectiveError::NoSuchRank {
                rank,
                world: self.world,
            });
        }
        Ok(())
    }

    /// A partner of a message: any rank but this one.
    fn check_peer(&self, peer: Rank) -> Result<(), CollectiveError> {
        self.check_rank(peer)?;
        if peer == self.rank {
            return Err(CollectiveError::Alone { rank: peer });
        }
        Ok(())
    }

    fn ranks(&self) -> impl Iterator<Item = Rank> + Clone + use<> {
        (0..self.world.get()).map(Rank::new)
    }
}

fn check_length(kind: Kind, length: u64, limit: u64) -> Result<(), CollectiveError> {
    if length > limit {
        return Err(CollectiveError::TooLong {
            kind,
            length,
            limit,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
