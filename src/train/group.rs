//! What a worker exchanges with the others of its group.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::halt::Halt;
use super::learner::Learner;
use super::node::Node;
use crate::collective::Collective;
use crate::ops;
use crate::plan::Reduction;
use crate::run::{Fault, Rank, Seat};

/// The group of workers that train together, as one of them sees it.
pub(super) struct Group {
    collective: Box<dyn Collective>,
    seat: Seat,
}

impl Group {
    pub(super) fn new(collective: Box<dyn Collective>) -> Self {
        let seat = Seat {
            rank: collective.rank(),
            world: collective.world_size(),
        };
        Self { collective, seat }
    }

    /// This worker's place.
    pub(super) fn seat(&self) -> Seat {
        self.seat
    }

    /// Whether this worker is alone.
    pub(super) fn is_alone(&self) -> bool {
        self.seat.world.get() == 1
    }

    /// Gives `mine` to all and gets what each has given, by rank.
    ///
    /// # Errors
    ///
    /// When the group is no longer whole.
    pub(super) fn exchange<T: Serialize + DeserializeOwned>(
        &mut self,
        mine: &T,
    ) -> Result<Vec<T>, Halt> {
        let bytes = postcard::to_stdvec(mine).map_err(|error| garbled(&error))?;
        let all = self.collective.gather(&bytes)?;
        all.iter()
            .map(|bytes| postcard::from_bytes(bytes).map_err(|error| garbled(&error).into()))
            .collect()
    }

    /// Gives the bytes of worker `from` to all.
    ///
    /// # Errors
    ///
    /// When the group is no longer whole.
    pub(super) fn broadcast(&mut self, from: Rank, bytes: &mut Vec<u8>) -> Result<(), Halt> {
        Ok(self.collective.broadcast(from, bytes)?)
    }

    /// Waits until all have come here.
    ///
    /// # Errors
    ///
    /// When the group is no longer whole.
    pub(super) fn barrier(&mut self) -> Result<(), Halt> {
        Ok(self.collective.barrier()?)
    }

    /// The sum over all shards in canonical order. `nodes` are this worker's part of it. `None` when
    /// there are no shards at all.
    ///
    /// # Errors
    ///
    /// When the group is no longer whole or the device fails.
    pub(super) fn sum(
        &mut self,
        reduction: &Reduction,
        nodes: Vec<Node>,
        learner: &Learner,
    ) -> Result<Option<Node>, Halt> {
        if self.is_alone() {
            // One worker has the whole tree: its only node is the root.
            return Ok(nodes.into_iter().next());
        }
        let parameters = learner.network.parameter_count();
        let length = vector_len(learner);
        let places = self.collective.node_buffers(nodes.len(), length)?;
        for (node, place) in nodes.into_iter().zip(places) {
            let (gradient, statistics) = place.split_at_mut(parameters);
            gradient.copy_from_slice(&ops::download(node.gradient)?);
            if let Some(sums) = node.statistics {
                statistics.copy_from_slice(&ops::download(sums)?);
            }
        }
        let sum = self.collective.sum(reduction, length)?;
        let (gradient, statistics) = sum.split_at(parameters);
        let upload = |values: &[f32]| ops::upload(values.to_vec(), &learner.device);
        Ok((reduction.shards() > 0).then(|| Node {
            gradient: upload(gradient),
            statistics: (!statistics.is_empty()).then(|| upload(statistics)),
        }))
    }
}

/// Numbers that travel in a reduction: the gradient, then the statistics of normalisation layers.
pub(super) fn vector_len(learner: &Learner) -> usize {
    learner.network.parameter_count() + learner.network.buffer_count()
}

fn garbled(error: &postcard::Error) -> Fault {
    Fault::internal(format!(
        "a message between workers is not understood: {error}"
    ))
}
