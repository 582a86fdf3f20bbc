//! A group of one: nothing is shared, nothing is waited for.

use std::sync::Arc;

use super::status::Status;
use super::vectors::Vectors;
use super::{
    BROADCAST_BYTES_MAX, Collective, CollectiveError, GATHER_BYTES_MAX, Handle, Kind, Limits,
    check_length,
};
use crate::plan::Reduction;
use crate::run::{Rank, WorldSize};

/// The only worker of a group.
#[derive(Debug)]
pub struct Solo {
    limits: Limits,
    vectors: Vectors,
    status: Arc<Status>,
}

impl Solo {
    /// A group of one for vectors of at most `vector_len` floats and `nodes_max` node buffers. Memory is
    /// taken when it is first asked for.
    #[must_use]
    pub fn new(vector_len: usize, nodes_max: usize) -> Self {
        let world = WorldSize::new(1);
        Self {
            limits: Limits {
                rank: Rank::new(0),
                world,
                vector_len,
                nodes_max,
            },
            vectors: Vectors::default(),
            status: Status::new(world),
        }
    }

    fn begin(&self, kind: Kind) -> Result<(), CollectiveError> {
        self.status.enter(self.status.next(), kind).map(|_| ())
    }
}

impl Collective for Solo {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn handle(&self) -> Handle {
        Handle::new(&self.status)
    }

    fn node_buffers(
        &mut self,
        count: usize,
        len: usize,
    ) -> Result<Vec<&mut [f32]>, CollectiveError> {
        self.status.check()?;
        self.limits.check_vector(count, len)?;
        Ok(self.vectors.nodes_mut(count, len))
    }

    fn sum(&mut self, reduction: &Reduction, len: usize) -> Result<&[f32], CollectiveError> {
        self.limits.check_sum(reduction, len)?;
        self.begin(Kind::Sum)?;
        // The whole tree is this rank's only node: its buffer is the result. A sum over no shards has
        // none and is zero.
        let mut nodes = self.vectors.nodes_mut(1, len);
        if reduction.shards() == 0 {
            nodes[0].fill(0.0);
        }
        Ok(nodes.remove(0))
    }

    fn gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError> {
        check_length(Kind::Gather, mine.len() as u64, GATHER_BYTES_MAX)?;
        self.begin(Kind::Gather)?;
        Ok(vec![mine.to_vec()])
    }

    fn broadcast(&mut self, root: Rank, bytes: &mut Vec<u8>) -> Result<(), CollectiveError> {
        self.limits.check_rank(root)?;
        check_length(Kind::Broadcast, bytes.len() as u64, BROADCAST_BYTES_MAX)?;
        self.begin(Kind::Broadcast)
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.begin(Kind::Barrier)
    }

    fn send(&mut self, to: Rank, _bytes: &[u8]) -> Result<(), CollectiveError> {
        self.limits.check_peer(to)
    }

    fn recv(&mut self, from: Rank) -> Result<Vec<u8>, CollectiveError> {
        self.limits.check_peer(from)?;
        // Not reached: a group of one has no other rank.
        Err(CollectiveError::Aborted)
    }
}
