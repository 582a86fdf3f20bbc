//! Workers of one host over one piece of shared memory.
//!
//! The memory is a file without a name ([`Segment::create`]) whose descriptor the supervisor hands to each
//! worker: when the last process is gone, however it ended, so is the memory. Each rank has a seat with a
//! counter of the meetings it arrived at; a meeting is over when all counters reached its number. Ranks
//! sleep on a futex there, in slices, so that a peer that was killed can hold up the others only until
//! [`Handle::abort`] or the time limit, never for good. A killed rank corrupts nothing: what it left half
//! written is read only after a meeting to which it did not come.
//!
//! Who may touch what, and when:
//!
//! * *Node buffers* are written by their rank alone, outside [`Collective::sum`]. A sum is two meetings:
//!   after the first, buffers are only read; the second ends after all ranks have read.
//! * *The result* is written between the two meetings, each rank in its own chunk, and only read after the
//!   second. The reference to it ends before this rank comes to the next first meeting.
//! * *Mail* of a rank is written by it before a meeting and read by the others after it. Rounds take turns
//!   with two places: who writes a place again has met, in the round between, everyone who read it.
//! * *Rings* are written by one rank and read by one other, each up to where the other one's counter allows.
//! * After an error a rank touches nothing any more, since the meetings no longer separate anything.
//!
//! Everything is checked against the memory's size; its size cannot change (it is sealed). What this module
//! does not defend against is a member of the run that breaks these rules on purpose: all run one executable
//! for one user.

#![expect(unsafe_code, reason = "memory that processes share")]

mod layout;
mod meeting;
mod patience;
mod ring;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use memmap2::{Advice, MmapRaw};
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};

use self::layout::{HEADER, Layout, MAGIC, MAIL_BYTES, VERSION};
use self::patience::Patience;
use super::call::Call;
use super::status::Status;
use super::{
    BROADCAST_BYTES_MAX, Collective, CollectiveError, GATHER_BYTES_MAX, Handle, Kind, Limits,
    Position, check_length,
};
use crate::plan::{Reduction, chunk_of};
use crate::run::{Rank, WorldSize};

/// The shared memory of a group.
#[derive(Debug)]
pub struct Segment {
    map: MmapRaw,
    layout: Layout,
}

impl Segment {
    /// Makes the memory of a group of at most [`super::WORLD_SIZE_MAX`] ranks, for vectors of at most
    /// `vector_len` floats and `nodes_max` node buffers for each rank. Pages are taken when they are first
    /// written. The descriptor is closed on exec: whoever starts workers hands it over deliberately.
    ///
    /// # Errors
    ///
    /// When the sizes are impossible or the system refuses.
    pub fn create(
        world: WorldSize,
        vector_len: usize,
        nodes_max: usize,
    ) -> Result<OwnedFd, CollectiveError> {
        let layout = Layout::new(world, vector_len, nodes_max).ok_or_else(|| {
            CollectiveError::segment(format!(
                "{world} ranks with {nodes_max} vectors of {vector_len} values are not possible"
            ))
        })?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let doing = "make shared memory";
        let fd = memfd_create("trainer-group", flags).map_err(CollectiveError::io(doing))?;
        ftruncate(&fd, layout.bytes as u64).map_err(CollectiveError::io(doing))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&fd, seals).map_err(CollectiveError::io(doing))?;
        let map = map(&fd)?;
        let segment = Self { map, layout };
        for (place, value) in [
            (HEADER.version, VERSION),
            (HEADER.world, u64::from(world.get())),
            (HEADER.vector_len, vector_len as u64),
            (HEADER.nodes_max, nodes_max as u64),
            (HEADER.magic, MAGIC),
        ] {
            segment.word(place).store(value, Ordering::Release);
        }
        Ok(fd)
    }

    /// Where each rank is, for a process that is none of them.
    ///
    /// # Errors
    ///
    /// When `fd` is no memory of a group.
    pub fn peek(fd: impl AsFd) -> Result<Vec<Position>, CollectiveError> {
        let segment = Self::open(fd)?;
        let ranks = (0..segment.layout.world.get()).map(Rank::new);
        Ok(ranks
            .map(|rank| segment.word(Layout::seat(rank).position()))
            .map(|word| Position::decode(word.load(Ordering::Relaxed)))
            .collect())
    }

    fn open(fd: impl AsFd) -> Result<Self, CollectiveError> {
        // Without the seal, someone could make reading it a deadly signal.
        let seals = fcntl_get_seals(&fd);
        if !seals.is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(CollectiveError::segment("it is not sealed"));
        }
        let map = map(&fd)?;
        if map.len() < HEADER.nodes_max + size_of::<u64>() {
            return Err(CollectiveError::segment("it is too short"));
        }
        let read = |place| {
            // SAFETY: inside the memory, as just checked, and aligned: the memory begins at a page and
            // places in the header are multiples of 8. The header is only accessed atomically.
            let word = unsafe { AtomicU64::from_ptr(map.as_mut_ptr().add(place).cast()) };
            word.load(Ordering::Acquire)
        };
        let words = [
            HEADER.magic,
            HEADER.version,
            HEADER.world,
            HEADER.vector_len,
            HEADER.nodes_max,
        ];
        let layout = Layout::found(words.map(read), map.len() as u64)?;
        if let Some(start) = layout.huge() {
            // An optimisation; many systems do not allow it.
            let _ = map.advise_range(Advice::HugePage, start, map.len() - start);
        }
        Ok(Self { map, layout })
    }

    fn word(&self, place: usize) -> &AtomicU64 {
        assert!(place.is_multiple_of(8) && place + 8 <= self.layout.atomics_end);
        // SAFETY: aligned and inside the memory, in the part that is only accessed atomically, as just
        // checked; the mapping lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(place).cast()) }
    }

    fn half_word(&self, place: usize) -> &AtomicU32 {
        assert!(place.is_multiple_of(4) && place + 4 <= self.layout.atomics_end);
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().add(place).cast()) }
    }

    fn bell(&self, bell: layout::Bell) -> patience::Bell<'_> {
        patience::Bell {
            count: self.half_word(bell.count),
            sleepers: self.half_word(bell.sleepers),
        }
    }

    /// The start of `len` things of a size, after the part that is only accessed atomically.
    fn start<T>(&self, place: usize, len: usize) -> *mut T {
        let end = len
            .checked_mul(size_of::<T>())
            .and_then(|bytes| bytes.checked_add(place));
        assert!(place >= self.layout.atomics_end && end.is_some_and(|end| end <= self.map.len()));
        assert!(place.is_multiple_of(align_of::<T>()));
        self.map.as_mut_ptr().wrapping_add(place).cast()
    }

    /// Writes bytes where, by the rules of the module, this rank alone may at the moment.
    fn put(&self, place: usize, bytes: &[u8]) {
        let start = self.start::<u8>(place, bytes.len());
        // SAFETY: `start` checked the bounds; nobody else reads or writes there now (module docs), and
        // `bytes` is never in the mapping, of which references are given out only as floats.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) }
    }

    /// Appends bytes from where, by the rules of the module, nobody writes at the moment.
    fn take(&self, place: usize, len: usize, into: &mut Vec<u8>) {
        let start = self.start::<u8>(place, len);
        // SAFETY: `start` checked the bounds; nobody writes there now (module docs).
        into.extend_from_slice(unsafe { std::slice::from_raw_parts(start, len) });
    }
}

fn map(fd: impl AsFd) -> Result<MmapRaw, CollectiveError> {
    let doing = "map shared memory";
    let fd = fd.as_fd().try_clone_to_owned();
    let file = File::from(fd.map_err(CollectiveError::io(doing))?);
    MmapRaw::map_raw(&file).map_err(CollectiveError::io(doing))
}

/// A rank of a group on one host.
#[derive(Debug)]
pub struct Shm {
    segment: Segment,
    limits: Limits,
    status: Arc<Status>,
    timeout: Duration,
    patience: Patience,
    /// Meetings this rank arrived at.
    meetings: u64,
    /// Rounds of mail so far.
    rounds: u64,
}

/// A seat that nobody took.
const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Its rank was there and is gone.
const LEFT: u32 = 2;

impl Shm {
    /// Takes the seat of a rank, without waiting for the others. `timeout` is how long a call waits for
    /// others that do not come.
    ///
    /// # Errors
    ///
    /// When `fd` is no memory of a group, or has no such seat, or the seat was taken before.
    pub fn join(fd: impl AsFd, rank: Rank, timeout: Duration) -> Result<Self, CollectiveError> {
        let segment = Segment::open(fd)?;
        let layout = segment.layout;
        let limits = Limits {
            rank,
            world: layout.world,
            vector_len: layout.vector_len,
            nodes_max: layout.nodes_max,
        };
        limits.check_rank(rank)?;
        segment
            .half_word(Layout::seat(rank).state())
            .compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed)
            .map_err(|_| CollectiveError::segment(format!("rank {rank} has been taken")))?;
        Ok(Self {
            segment,
            limits,
            status: Status::new(layout.world),
            timeout,
            patience: Patience::new(),
            meetings: 0,
            rounds: 0,
        })
    }

    /// Tests join with patience and then have none.
    #[cfg(test)]
    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        let layout = &self.segment.layout;
        let seat = Layout::seat(self.limits.rank);
        self.segment
            .half_word(seat.state())
            .store(LEFT, Ordering::Release);
        self.segment.bell(HEADER.bell).ring();
        for rank in (0..layout.world.get()).map(Rank::new) {
            self.segment.bell(Layout::seat(rank).bell()).ring();
        }
    }
}

impl Collective for Shm {
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
        // After an error others may still be reading.
        self.status.check()?;
        let segment = &self.segment;
        let places = (0..count).map(|node| segment.layout.node(self.limits.rank, node));
        Ok(places
            .map(|place| {
                let start = segment.start(place, len);
                // SAFETY: `start` checked bounds and alignment; any bits are a float. Buffers do not
                // overlap, this rank alone writes them, and nobody reads them before it comes to the
                // first meeting of a sum, which needs `&mut self` and so ends this borrow.
                unsafe { std::slice::from_raw_parts_mut(start, len) }
            })
            .collect())
    }

    fn sum(&mut self, reduction: &Reduction, len: usize) -> Result<&[f32], CollectiveError> {
        self.limits.check_sum(reduction, len)?;
        let call = Call {
            size: len as u64,
            shards: u64::from(reduction.shards()),
            ..self.begin(Kind::Sum)?
        };
        self.meet(&call, 0)?;
        self.combine(reduction, len)?;
        self.meet(&call, 0)?;
        let start = self.segment.start(self.segment.layout.result(), len);
        // SAFETY: `start` checked bounds and alignment. All ranks have written their chunks, and none
        // writes again before all, this one included, come to the next sum, which ends this borrow.
        Ok(unsafe { std::slice::from_raw_parts(start, len) })
    }

    fn gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError> {
        check_length(Kind::Gather, mine.len() as u64, GATHER_BYTES_MAX)?;
        let call = self.begin(Kind::Gather)?;
        let mut gathered = vec![Vec::new(); self.limits.world.get() as usize];
        let mut lengths = Vec::new();
        let mut pieces = mine.chunks(MAIL_BYTES);
        loop {
            self.post(pieces.next().unwrap_or(&[]));
            self.meet(&call, mine.len() as u64)?;
            if lengths.is_empty() {
                lengths = self.lengths(Kind::Gather, GATHER_BYTES_MAX)?;
            }
            let mut more = false;
            for ((rank, length), message) in (0..).zip(&lengths).zip(&mut gathered) {
                self.collect(Rank::new(rank), *length, message);
                more |= message.len() < *length;
            }
            self.rounds += 1;
            if !more {
                return Ok(gathered);
            }
        }
    }

    fn broadcast(&mut self, root: Rank, bytes: &mut Vec<u8>) -> Result<(), CollectiveError> {
        self.limits.check_rank(root)?;
        check_length(Kind::Broadcast, bytes.len() as u64, BROADCAST_BYTES_MAX)?;
        let call = Call {
            size: u64::from(root.get()),
            ..self.begin(Kind::Broadcast)?
        };
        if root == self.limits.rank {
            let pieces = bytes.chunks(MAIL_BYTES);
            // An empty message is a round too.
            for piece in pieces.chain(bytes.is_empty().then_some(&[][..])) {
                self.post(piece);
                self.meet(&call, bytes.len() as u64)?;
                self.rounds += 1;
            }
            return Ok(());
        }
        bytes.clear();
        loop {
            self.meet(&call, 0)?;
            let lengths = self.lengths(Kind::Broadcast, BROADCAST_BYTES_MAX)?;
            let length = lengths[root.get() as usize];
            self.collect(root, length, bytes);
            self.rounds += 1;
            if bytes.len() >= length {
                return Ok(());
            }
        }
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        let call = self.begin(Kind::Barrier)?;
        self.meet(&call, 0)
    }

    fn send(&mut self, to: Rank, bytes: &[u8]) -> Result<(), CollectiveError> {
        self.send_message(to, bytes)
    }

    fn recv(&mut self, from: Rank) -> Result<Vec<u8>, CollectiveError> {
        self.receive_message(from)
    }
}

impl Shm {
    /// Sums this rank's chunk of all ranks' node buffers, between the two meetings of a sum.
    fn combine(&self, reduction: &Reduction, len: usize) -> Result<(), CollectiveError> {
        let layout = &self.segment.layout;
        let chunk = chunk_of(len, self.limits.rank, self.limits.world);
        let offset = chunk.start * size_of::<f32>();
        let mut nodes = Vec::with_capacity(reduction.nodes().len());
        for rank in self.limits.ranks() {
            let count = reduction.nodes_of(rank).len();
            self.limits.check_vector(count, len)?;
            for node in 0..count {
                let start = self
                    .segment
                    .start(layout.node(rank, node) + offset, chunk.len());
                // SAFETY: `start` checked bounds and alignment; nobody writes node buffers between the
                // two meetings of a sum.
                nodes.push(unsafe { &*std::ptr::slice_from_raw_parts(start, chunk.len()) });
            }
        }
        let start = self.segment.start(layout.result() + offset, chunk.len());
        // SAFETY: `start` checked bounds and alignment; between the two meetings of a sum nobody but
        // this rank touches its chunk of the result, which overlaps no node buffer.
        let out = unsafe { &mut *std::ptr::slice_from_raw_parts_mut(start, chunk.len()) };
        reduction.combine(&nodes, out);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
