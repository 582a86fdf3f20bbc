//! Messages from one rank to one other, through a ring of bytes.

use std::sync::atomic::Ordering;

use super::Shm;
use super::layout::{Layout, RING_BYTES, Ring};
use crate::collective::call::Call;
use crate::collective::{CollectiveError, Kind, MESSAGE_BYTES_MAX, check_length};
use crate::run::Rank;

/// In front of each message: the sender's number of collectives, the length.
const HEAD_BYTES: usize = 16;

impl Shm {
    pub(super) fn send_message(&mut self, to: Rank, bytes: &[u8]) -> Result<(), CollectiveError> {
        self.limits.check_peer(to)?;
        check_length(Kind::Send, bytes.len() as u64, MESSAGE_BYTES_MAX)?;
        let number = self.status.position().number;
        self.enter(number, Kind::Send)?;
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&number.to_le_bytes());
        head[8..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.push(to, &head)?;
        self.push(to, bytes)
    }

    pub(super) fn receive_message(&mut self, from: Rank) -> Result<Vec<u8>, CollectiveError> {
        self.limits.check_peer(from)?;
        let number = self.status.position().number;
        self.enter(number, Kind::Recv)?;
        let mut message = Vec::new();
        self.pull(from, HEAD_BYTES, &mut message)?;
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&message[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let (theirs, length) = (word(0), word(8));
        if theirs != number {
            self.status.fail();
            let theirs = Call::new(theirs, Kind::Send);
            let mine = Call::new(number, Kind::Recv);
            return Err(CollectiveError::mismatch(from, &theirs, &mine));
        }
        check_length(Kind::Recv, length, MESSAGE_BYTES_MAX).inspect_err(|_| self.status.fail())?;
        let length = usize::try_from(length)
            .map_err(|_| CollectiveError::segment("a length does not fit into memory"))?;
        message.clear();
        self.pull(from, length, &mut message)?;
        Ok(message)
    }

    fn push(&mut self, to: Rank, mut bytes: &[u8]) -> Result<(), CollectiveError> {
        let ring = self.segment.layout.ring(self.limits.rank, to);
        while !bytes.is_empty() {
            let used = self.used(&ring)?;
            if used == RING_BYTES {
                self.wait_for(to, move |shm| shm.used(&ring).ok() != Some(RING_BYTES))?;
                continue;
            }
            let written = self.segment.word(ring.written).load(Ordering::Relaxed);
            let at = place(written);
            let count = bytes.len().min(RING_BYTES - used).min(RING_BYTES - at);
            let (now, later) = bytes.split_at(count);
            self.segment.put(ring.bytes + at, now);
            self.advance(ring.written, written, count, to);
            bytes = later;
        }
        Ok(())
    }

    /// Appends `count` bytes to `into`.
    fn pull(
        &mut self,
        from: Rank,
        count: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), CollectiveError> {
        let ring = self.segment.layout.ring(from, self.limits.rank);
        let mut left = count;
        while left > 0 {
            let used = self.used(&ring)?;
            if used == 0 {
                self.wait_for(from, move |shm| shm.used(&ring).ok() != Some(0))?;
                continue;
            }
            let read = self.segment.word(ring.read).load(Ordering::Relaxed);
            let at = place(read);
            let count = left.min(used).min(RING_BYTES - at);
            self.segment.take(ring.bytes + at, count, into);
            self.advance(ring.read, read, count, from);
            left -= count;
        }
        Ok(())
    }

    /// Bytes in a ring.
    fn used(&self, ring: &Ring) -> Result<usize, CollectiveError> {
        let written = self.segment.word(ring.written).load(Ordering::Acquire);
        let read = self.segment.word(ring.read).load(Ordering::Acquire);
        match usize::try_from(written.wrapping_sub(read)) {
            Ok(used) if used <= RING_BYTES => Ok(used),
            _ => {
                self.status.fail();
                Err(CollectiveError::segment("the counters of a ring disagree"))
            }
        }
    }

    fn advance(&self, counter: usize, from: u64, count: usize, peer: Rank) {
        let counter = self.segment.word(counter);
        counter.store(from + count as u64, Ordering::Release);
        self.segment.bell(Layout::seat(peer).bell()).ring();
    }

    /// Waits for something that `peer` does to a ring.
    fn wait_for(
        &mut self,
        peer: Rank,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<(), CollectiveError> {
        let bell = Layout::seat(self.limits.rank).bell();
        self.wait(bell, |shm, rank| rank != peer || done(shm))
    }
}

/// Where a byte lies that has `count` before it.
fn place(count: u64) -> usize {
    usize::try_from(count % RING_BYTES as u64).unwrap_or_default()
}
