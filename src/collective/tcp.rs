//! Workers on several hosts without GPUs, over TCP: each has a connection to each.
//!
//! Joining proves to both ends of a connection that the other knows the run's token, which itself never
//! travels. A stranger that connects is ignored, whatever it sends. The connections are neither encrypted
//! nor protected against someone who can alter packets on their way: that is for the network to provide.
//!
//! A rank makes its calls in one thread, which sends and receives on all connections as they are ready, so
//! that no order of arrival can lock the group. Each call begins with its description on each connection;
//! a rank that calls something else is noticed before any of its data is used. The rank that does not do
//! its part for as long as the time limit is named, whether it is slow, stopped or cut off.

mod handshake;
mod join;
mod link;
mod message;
mod pipeline;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use self::link::Mesh;
use self::message::{Messages, Outgoing};
use self::pipeline::Pipeline;
use super::call::Call;
use super::status::Status;
use super::vectors::Vectors;
use super::{
    BROADCAST_BYTES_MAX, Collective, CollectiveError, GATHER_BYTES_MAX, Handle, Kind, Limits,
    MESSAGE_BYTES_MAX, check_length,
};
use crate::plan::Reduction;
use crate::run::{Rank, Token, WorldSize};

/// Where a rank waits for others to connect.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens on an address of this host.
    ///
    /// # Errors
    ///
    /// When the address is taken or not of this host.
    pub fn bind(address: SocketAddr) -> Result<Self, CollectiveError> {
        let listener = TcpListener::bind(address);
        listener
            .map(Self)
            .map_err(CollectiveError::io("listen for other workers"))
    }

    /// The address with the port that the system chose when it was bound to port 0.
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    pub fn local_addr(&self) -> Result<SocketAddr, CollectiveError> {
        let address = self.0.local_addr();
        address.map_err(CollectiveError::io("find out the own address"))
    }
}

/// What a rank knows when it joins.
#[derive(Clone, Copy)]
pub struct Membership<'a> {
    /// This rank.
    pub rank: Rank,
    /// Size of the group, at most [`super::WORLD_SIZE_MAX`].
    pub world: WorldSize,
    /// Where each rank listens, by rank; this rank's own entry is not used.
    pub peers: &'a [SocketAddr],
    /// Secret of the run.
    pub token: &'a Token,
    /// Longest vector, in floats; the same on all ranks.
    pub vector_len: usize,
    /// Most node buffers of one rank; the same on all ranks.
    pub nodes_max: usize,
    /// How long each call waits for others that do nothing.
    pub timeout: Duration,
    /// How long joining waits for the others.
    pub join_timeout: Duration,
}

/// A rank of a group that is spread over several hosts.
#[derive(Debug)]
pub struct Tcp {
    limits: Limits,
    status: Arc<Status>,
    mesh: Mesh,
    vectors: Vectors,
    result: Vec<f32>,
}

impl Tcp {
    /// Connects to all other ranks and waits for them.
    ///
    /// # Errors
    ///
    /// `TimedOut` names ranks that did not come, `Handshake` those that belong to another version or were
    /// set up with other sizes.
    pub fn join(membership: &Membership<'_>, listener: Listener) -> Result<Self, CollectiveError> {
        let links = join::all(membership, listener.0)?;
        let status = Status::new(membership.world);
        Ok(Self {
            limits: Limits {
                rank: membership.rank,
                world: membership.world,
                vector_len: membership.vector_len,
                nodes_max: membership.nodes_max,
            },
            mesh: Mesh::new(links, Arc::clone(&status), membership.timeout),
            status,
            vectors: Vectors::default(),
            result: Vec::new(),
        })
    }

    /// Tests join with patience and then have none.
    #[cfg(test)]
    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.mesh.set_timeout(timeout);
    }

    fn begin(&mut self, kind: Kind) -> Result<Call, CollectiveError> {
        let number = self.status.next();
        self.status.enter(number, kind)?;
        Ok(Call::new(number, kind))
    }

    /// Exchanges messages with all others; gives what came from each, by rank.
    fn exchange(&mut self, call: &Call, mine: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError> {
        let limit = match call.kind {
            Kind::Gather => GATHER_BYTES_MAX,
            Kind::Broadcast => BROADCAST_BYTES_MAX,
            _ => 0,
        };
        let mut messages = Messages::new(self.limits.world, *call, *call);
        for rank in self.limits.ranks().filter(|&rank| rank != self.limits.rank) {
            messages.send(rank, Outgoing::new(call, mine));
            messages.expect(rank, limit);
        }
        self.mesh.drive(&mut messages)?;
        Ok(messages.received())
    }
}

impl Collective for Tcp {
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
        self.limits.check_vector(count, len)?;
        self.status.check()?;
        Ok(self.vectors.nodes_mut(count, len))
    }

    fn sum(&mut self, reduction: &Reduction, len: usize) -> Result<&[f32], CollectiveError> {
        self.limits.check_sum(reduction, len)?;
        let call = Call {
            size: len as u64,
            shards: u64::from(reduction.shards()),
            ..self.begin(Kind::Sum)?
        };
        if self.result.len() < len {
            self.result.resize(len, 0.0);
        }
        let count = reduction.nodes_of(self.limits.rank).len();
        let nodes = self.vectors.nodes(count, len);
        let result = &mut self.result[..len];
        let mut pipeline = Pipeline::new(self.limits.rank, call, reduction, nodes, result);
        self.mesh.drive(&mut pipeline)?;
        Ok(&self.result[..len])
    }

    fn gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError> {
        check_length(Kind::Gather, mine.len() as u64, GATHER_BYTES_MAX)?;
        let call = self.begin(Kind::Gather)?;
        let mut gathered = self.exchange(&call, mine)?;
        gathered[self.limits.rank.get() as usize] = mine.to_vec();
        Ok(gathered)
    }

    fn broadcast(&mut self, root: Rank, bytes: &mut Vec<u8>) -> Result<(), CollectiveError> {
        self.limits.check_rank(root)?;
        check_length(Kind::Broadcast, bytes.len() as u64, BROADCAST_BYTES_MAX)?;
        let call = Call {
            size: u64::from(root.get()),
            ..self.begin(Kind::Broadcast)?
        };
        if root == self.limits.rank {
            self.exchange(&call, bytes)?;
        } else {
            let heard = self.exchange(&call, &[])?;
            *bytes = heard
                .into_iter()
                .nth(root.get() as usize)
                .unwrap_or_default();
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        let call = self.begin(Kind::Barrier)?;
        self.exchange(&call, &[]).map(|_| ())
    }

    fn send(&mut self, to: Rank, bytes: &[u8]) -> Result<(), CollectiveError> {
        self.limits.check_peer(to)?;
        check_length(Kind::Send, bytes.len() as u64, MESSAGE_BYTES_MAX)?;
        let number = self.status.position().number;
        self.status.enter(number, Kind::Send)?;
        let call = Call::new(number, Kind::Send);
        let mut messages = Messages::new(self.limits.world, call, call);
        messages.send(to, Outgoing::new(&call, bytes));
        self.mesh.drive(&mut messages)
    }

    fn recv(&mut self, from: Rank) -> Result<Vec<u8>, CollectiveError> {
        self.limits.check_peer(from)?;
        let number = self.status.position().number;
        self.status.enter(number, Kind::Recv)?;
        let expected = Call::new(number, Kind::Send);
        let mine = Call::new(number, Kind::Recv);
        let mut messages = Messages::new(self.limits.world, mine, expected);
        messages.expect(from, MESSAGE_BYTES_MAX);
        self.mesh.drive(&mut messages)?;
        let heard = messages.received().into_iter().nth(from.get() as usize);
        Ok(heard.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
