//! How ranks meet: arrive, wait for all, compare what each is doing.

use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use super::layout::{self, HEADER, Layout, MAIL_BYTES};
use super::{LEFT, Shm};
use crate::collective::call::{CALL_WORDS, Call};
use crate::collective::{CollectiveError, Kind, Position, check_length};
use crate::run::Rank;

impl Shm {
    /// Begins a collective, or says that the group is broken.
    pub(super) fn begin(&mut self, kind: Kind) -> Result<Call, CollectiveError> {
        let number = self.status.next();
        self.enter(number, kind)?;
        Ok(Call::new(number, kind))
    }

    /// Lets everybody see where this rank is.
    pub(super) fn enter(&mut self, number: u64, kind: Kind) -> Result<(), CollectiveError> {
        let position = self.status.enter(number, kind)?;
        self.show(position);
        Ok(())
    }

    fn show(&self, position: Position) {
        self.segment
            .word(Layout::seat(self.limits.rank).position())
            .store(position.encode(), Ordering::Relaxed);
    }

    /// Comes to the next meeting with a call and a word of its own, and waits for all others.
    pub(super) fn meet(&mut self, call: &Call, own: u64) -> Result<(), CollectiveError> {
        self.status.check()?;
        self.meetings += 1;
        let seat = Layout::seat(self.limits.rank);
        let words = call.encode().into_iter().chain([own]);
        for (place, word) in (0..).zip(words) {
            let place = seat.call(self.meetings) + 8 * place;
            self.segment.word(place).store(word, Ordering::Relaxed);
        }
        self.segment
            .word(seat.arrived())
            .store(self.meetings, Ordering::Release);
        // Of ranks that arrive at the same time at least one sees that all are there.
        fence(Ordering::SeqCst);
        if self.limits.ranks().all(|rank| self.has_arrived(rank)) {
            self.segment.bell(HEADER.bell).ring();
        } else {
            let bell = HEADER.bell;
            let mut first = 0;
            self.wait(bell, |shm, rank| {
                // Whoever arrived once stays arrived: most looks are at one counter.
                while first < shm.limits.world.get() && shm.has_arrived(Rank::new(first)) {
                    first += 1;
                }
                rank.get() < first || shm.has_arrived(rank)
            })?;
        }
        self.compare(call)
    }

    fn has_arrived(&self, rank: Rank) -> bool {
        let arrived = self.segment.word(Layout::seat(rank).arrived());
        arrived.load(Ordering::Acquire) >= self.meetings
    }

    /// A word of what a rank brought to the last meeting.
    fn brought(&self, rank: Rank, word: usize) -> u64 {
        let place = Layout::seat(rank).call(self.meetings) + 8 * word;
        self.segment.word(place).load(Ordering::Relaxed)
    }

    /// Whether all ranks make the same call. If not, all of them see it in the same meeting: calls are
    /// written over only after everyone came to the next.
    fn compare(&self, call: &Call) -> Result<(), CollectiveError> {
        let mine = call.encode();
        for rank in self.limits.ranks() {
            let theirs = std::array::from_fn(|word| self.brought(rank, word));
            if theirs != mine {
                self.status.fail();
                return Err(CollectiveError::mismatch(rank, &Call::decode(theirs), call));
            }
        }
        Ok(())
    }

    /// Waits until `is_there` holds for all ranks; sleeps on `bell`.
    pub(super) fn wait(
        &mut self,
        bell: layout::Bell,
        mut is_there: impl FnMut(&Self, Rank) -> bool,
    ) -> Result<(), CollectiveError> {
        let start = Instant::now();
        let ranks = self.limits.ranks();
        let all_there = |is_there: &mut dyn FnMut(&Self, Rank) -> bool| {
            ranks.clone().all(|rank| is_there(self, rank))
        };
        if !self.patience.spin(start, || all_there(&mut is_there)) {
            self.show(self.status.set_waiting(true));
            let result = loop {
                if let Err(error) = self.look_around(start, &mut is_there) {
                    break Err(error);
                }
                let bell = self.segment.bell(bell);
                bell.sleep(|| all_there(&mut is_there));
                if all_there(&mut is_there) {
                    break Ok(());
                }
            };
            if result.is_err() {
                self.status.fail();
                return result;
            }
            self.status.set_missing(|_| false);
            self.show(self.status.set_waiting(false));
        }
        self.patience.learn(start.elapsed());
        Ok(())
    }

    /// Between two sleeps: whether to go on waiting.
    fn look_around(
        &self,
        start: Instant,
        is_there: &mut impl FnMut(&Self, Rank) -> bool,
    ) -> Result<(), CollectiveError> {
        self.status.check()?;
        let Position { number, kind, .. } = self.status.position();
        self.status.set_missing(|rank| !is_there(self, rank));
        let missing = self.status.missing();
        for &rank in &missing {
            let state = self.segment.half_word(Layout::seat(rank).state());
            // It may have come just before it left.
            if state.load(Ordering::Acquire) == LEFT && !is_there(self, rank) {
                return Err(CollectiveError::Closed { rank, number, kind });
            }
        }
        if !missing.is_empty() && start.elapsed() >= self.timeout {
            return Err(CollectiveError::TimedOut {
                number,
                kind,
                missing,
            });
        }
        Ok(())
    }

    /// Leaves a piece of a message for all others, to be read after the next meeting.
    pub(super) fn post(&self, piece: &[u8]) {
        let place = self.segment.layout.mail(self.limits.rank, self.rounds);
        self.segment
            .put(place, &piece[..piece.len().min(MAIL_BYTES)]);
    }

    /// Appends the next piece of a rank's message, of which `message` holds the beginning.
    pub(super) fn collect(&self, rank: Rank, length: usize, message: &mut Vec<u8>) {
        let piece = length.saturating_sub(message.len()).min(MAIL_BYTES);
        let place = self.segment.layout.mail(rank, self.rounds);
        self.segment.take(place, piece, message);
    }

    /// Lengths of the messages that all ranks brought to the last meeting.
    pub(super) fn lengths(&self, kind: Kind, limit: u64) -> Result<Vec<usize>, CollectiveError> {
        let ranks = self.limits.ranks();
        ranks
            .map(|rank| {
                let length = self.brought(rank, CALL_WORDS);
                // Senders checked it: only a damaged memory can hold more.
                check_length(kind, length, limit).inspect_err(|_| self.status.fail())?;
                usize::try_from(length)
                    .map_err(|_| CollectiveError::segment("a length does not fit into memory"))
            })
            .collect()
    }
}
