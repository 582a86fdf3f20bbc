//! Workers with an NVIDIA GPU each, through NCCL.
//!
//! Two groups in one: sums travel through a communicator of NCCL, everything else (messages, barriers, and
//! what each rank is about to do) through shared memory or TCP, as without GPUs. Ranks meet there before
//! each sum, so that a rank that calls something else or does not come is named before the library, which
//! could only wait, is asked for anything. A group that falls apart takes its communicator with it: the next
//! one has its own, by a name that its rank 0 makes and the others are sent.
//!
//! In canonical order the library only moves floats: each rank receives its chunk of all nodes, adds them
//! up as the tree says, and sends the sum to all. In the order `fast` it is the library's own all-reduce, so
//! that bits depend on the number of ranks and on how the library chooses to connect them.
//!
//! Node sums are handed over in host memory, as for every [`Collective`], and copied to an array on the
//! device and back; the canonical additions are the host's. Nothing here has run on a GPU yet: its
//! bookkeeping is tested against a stand-in for the library.

#[cfg(feature = "cuda")]
mod cuda;
mod library;
mod watched;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use self::library::{ID_BYTES, Id, Library, Transfer, Way};
use self::watched::Watched;
use super::call::{CALL_WORDS, Call};
use super::status::Status;
use super::vectors::Vectors;
use super::{Collective, CollectiveError, Handle, Kind, Limits};
use crate::config::SumOrder;
use crate::plan::{Reduction, chunk_of};
use crate::run::Rank;

/// A rank of a group whose sums go through NCCL.
pub struct Nccl {
    /// The way for everything but sums.
    inner: Box<dyn Collective>,
    limits: Limits,
    status: Arc<Status>,
    watched: Watched,
    vectors: Vectors,
    result: Vec<f32>,
    timeout: Duration,
}

/// Whether the libraries are on this machine. Starts nothing on a device.
///
/// # Errors
///
/// [`CollectiveError::Library`] says what is missing.
pub fn nccl_is_here() -> Result<(), CollectiveError> {
    #[cfg(feature = "cuda")]
    return cuda::find().map_err(refused);
    #[cfg(not(feature = "cuda"))]
    Err(without_cuda())
}

#[cfg(not(feature = "cuda"))]
fn without_cuda() -> CollectiveError {
    CollectiveError::Library {
        doing: "be used",
        reason: "this program was built without CUDA (feature `cuda`)".to_string(),
    }
}

#[cfg(feature = "cuda")]
fn refused(refusal: library::Refusal) -> CollectiveError {
    CollectiveError::Library {
        doing: refusal.doing,
        reason: refusal.reason,
    }
}

impl Nccl {
    /// Joins, on the device of this number, the ranks that `inner` has brought together; all call this
    /// together. `timeout` is how long a sum waits for others once all have begun it, `join_timeout` how
    /// long joining does.
    ///
    /// # Errors
    ///
    /// [`CollectiveError::Library`] when the library or the device is missing or refuses; else as a call
    /// of `inner`.
    pub fn join(
        inner: Box<dyn Collective>,
        device: u32,
        timeout: Duration,
        join_timeout: Duration,
    ) -> Result<Self, CollectiveError> {
        #[cfg(feature = "cuda")]
        {
            let cuda = cuda::Cuda::open(device).map_err(refused)?;
            Self::through(Box::new(cuda), inner, timeout, join_timeout)
        }
        #[cfg(not(feature = "cuda"))]
        {
            let _ = (inner, device, timeout, join_timeout);
            Err(without_cuda())
        }
    }

    /// [`Nccl::join`] through a library.
    #[cfg_attr(
        not(feature = "cuda"),
        allow(dead_code, reason = "without CUDA only tests have a library")
    )]
    fn through(
        library: Box<dyn Library>,
        mut inner: Box<dyn Collective>,
        timeout: Duration,
        join_timeout: Duration,
    ) -> Result<Self, CollectiveError> {
        let limits = *inner.limits();
        let status = inner.handle().status();
        let mut watched = Watched::new(library, Arc::clone(&status));
        let first = Rank::new(0);
        let mut id = Vec::new();
        if limits.rank == first {
            id = watched.call(|library| library.id())?.to_vec();
        }
        inner.broadcast(first, &mut id)?;
        let id: Id = id.try_into().map_err(|other: Vec<u8>| {
            CollectiveError::segment(format!(
                "a name of {} bytes instead of {ID_BYTES} came for the group",
                other.len()
            ))
        })?;
        watched.join(&limits, &id, join_timeout)?;
        status.start_over();
        Ok(Self {
            inner,
            limits,
            status,
            watched,
            vectors: Vectors::default(),
            result: Vec::new(),
            timeout,
        })
    }

    /// Comes together with all others before a sum, and compares what each is about to do.
    fn meet(&mut self, reduction: &Reduction, len: usize) -> Result<(), CollectiveError> {
        let mine = Call {
            size: len as u64,
            shards: u64::from(reduction.shards()),
            ..Call::new(self.status.next(), Kind::Sum)
        };
        let bytes: Vec<u8> = mine.encode().iter().flat_map(|w| w.to_le_bytes()).collect();
        let all = self.inner.gather(&bytes)?;
        for (rank, theirs) in (0..).map(Rank::new).zip(&all) {
            let theirs = decode(theirs);
            if theirs != Some(mine) {
                self.watched.abort();
                let theirs = theirs.unwrap_or_else(|| Call::new(mine.number, Kind::Gather));
                return Err(CollectiveError::mismatch(rank, &theirs, &mine));
            }
        }
        self.status.enter(mine.number, Kind::Sum).map(|_| ())
    }

    fn transfer(&mut self, transfers: &[Transfer]) -> Result<(), CollectiveError> {
        if transfers.is_empty() {
            return Ok(());
        }
        let start = |library: &mut dyn Library| library.transfer(transfers);
        self.watched
            .start(&self.limits, Kind::Sum, self.timeout, start)
    }

    /// Each rank adds up its chunk, in the tree's order.
    fn sum_in_canonical_order(
        &mut self,
        reduction: &Reduction,
        len: usize,
    ) -> Result<(), CollectiveError> {
        let (me, world) = (self.limits.rank, self.limits.world);
        let chunk = chunk_of(len, me, world);
        let own = reduction.places_of(me);
        let nodes = self.vectors.nodes(own.len(), len);
        // On the device: this rank's nodes whole, then its chunk of all others' nodes.
        let received = own.len() * len;
        let incoming = |place: usize| {
            let start = received + place * chunk.len();
            start..start + chunk.len()
        };
        self.watched.call(|library| {
            library.reserve(received + reduction.nodes().len() * chunk.len() + len)?;
            let mut nodes = (0..).zip(&nodes);
            nodes.try_for_each(|(node, values)| library.upload(node * len, values))
        })?;
        let mut transfers = Vec::new();
        for peer in self.limits.ranks().filter(|&rank| rank != me) {
            let theirs = chunk_of(len, peer, world);
            let sent = |node: usize| node * len + theirs.start..node * len + theirs.end;
            let out = (0..own.len()).map(|node| (Way::Out, sent(node)));
            let places = reduction.places_of(peer);
            let into = places.map(|place| (Way::In, incoming(place)));
            transfers.extend(
                out.chain(into)
                    .map(|(way, range)| Transfer { peer, way, range }),
            );
        }
        transfers.retain(|transfer| !transfer.range.is_empty());
        self.transfer(&transfers)?;
        let kept = self.fetch(reduction, &own, chunk.len(), incoming)?;
        let mine = self.vectors.nodes(own.len(), len);
        let slices: Vec<&[f32]> = (0..)
            .zip(&kept)
            .map(|(place, values)| {
                if own.contains(&place) {
                    &mine[place - own.start][chunk.clone()]
                } else {
                    values.as_slice()
                }
            })
            .collect();
        reduction.combine(&slices, &mut self.result[chunk.clone()]);
        self.share(
            &chunk,
            received + reduction.nodes().len() * chunk.len(),
            len,
        )
    }

    /// This rank's chunk of the nodes of others, by place; nothing for its own.
    fn fetch(
        &mut self,
        reduction: &Reduction,
        own: &Range<usize>,
        chunk_len: usize,
        incoming: impl Fn(usize) -> Range<usize>,
    ) -> Result<Vec<Vec<f32>>, CollectiveError> {
        let mut kept = vec![Vec::new(); reduction.nodes().len()];
        self.watched.call(|library| {
            let mut others = (0..)
                .zip(&mut kept)
                .filter(|(place, _)| !own.contains(place));
            others.try_for_each(|(place, values)| {
                values.resize(chunk_len, 0.0);
                library.download(incoming(place).start, values)
            })
        })?;
        Ok(kept)
    }

    /// Gives all others this rank's chunk of the result and takes theirs; the result lies on the device
    /// from `at`.
    fn share(
        &mut self,
        chunk: &Range<usize>,
        at: usize,
        len: usize,
    ) -> Result<(), CollectiveError> {
        let (me, world) = (self.limits.rank, self.limits.world);
        if world.get() == 1 {
            return Ok(());
        }
        let result = &self.result[chunk.clone()];
        self.watched
            .call(|library| library.upload(at + chunk.start, result))?;
        let mut transfers = Vec::new();
        for peer in self.limits.ranks().filter(|&rank| rank != me) {
            let theirs = chunk_of(len, peer, world);
            let both = [(Way::Out, chunk.clone()), (Way::In, theirs)];
            transfers.extend(both.map(|(way, range)| Transfer {
                peer,
                way,
                range: at + range.start..at + range.end,
            }));
        }
        transfers.retain(|transfer| !transfer.range.is_empty());
        self.transfer(&transfers)?;
        let result = &mut self.result[..len];
        self.watched.call(|library| library.download(at, result))
    }

    /// The library adds up one vector of each rank, as it likes.
    fn sum_as_the_library_does(
        &mut self,
        reduction: &Reduction,
        len: usize,
    ) -> Result<(), CollectiveError> {
        let count = reduction.nodes_of(self.limits.rank).len();
        let result = &mut self.result[..len];
        match self.vectors.nodes(count, len).first() {
            Some(node) => result.copy_from_slice(node),
            // A rank without shards takes part all the same.
            None => result.fill(0.0),
        }
        self.watched.call(|library| {
            library.reserve(len)?;
            library.upload(0, result)
        })?;
        let start = |library: &mut dyn Library| library.all_reduce(0..len);
        self.watched
            .start(&self.limits, Kind::Sum, self.timeout, start)?;
        self.watched.call(|library| library.download(0, result))
    }
}

fn decode(bytes: &[u8]) -> Option<Call> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: [[u8; 8]; CALL_WORDS] = words.try_into().ok()?;
    rest.is_empty()
        .then(|| Call::decode(words.map(u64::from_le_bytes)))
}

impl Collective for Nccl {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn handle(&self) -> Handle {
        self.inner.handle()
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
        self.meet(reduction, len)?;
        if self.result.len() < len {
            self.result.resize(len, 0.0);
        }
        match reduction.order() {
            _ if len == 0 => {}
            SumOrder::Canonical => self.sum_in_canonical_order(reduction, len)?,
            SumOrder::Fast => self.sum_as_the_library_does(reduction, len)?,
        }
        Ok(&self.result[..len])
    }

    fn gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError> {
        self.inner.gather(mine)
    }

    fn broadcast(&mut self, root: Rank, bytes: &mut Vec<u8>) -> Result<(), CollectiveError> {
        self.inner.broadcast(root, bytes)
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.inner.barrier()
    }

    fn send(&mut self, to: Rank, bytes: &[u8]) -> Result<(), CollectiveError> {
        self.inner.send(to, bytes)
    }

    fn recv(&mut self, from: Rank) -> Result<Vec<u8>, CollectiveError> {
        self.inner.recv(from)
    }
}

#[cfg(test)]
pub(super) mod tests;
