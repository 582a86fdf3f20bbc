//! What other threads of the process see of a membership, and how they end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::{CollectiveError, Kind};
use crate::run::{Rank, WorldSize};

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Collectives begun so far; messages between two ranks do not count.
    pub number: u64,
    /// Kind of the last call.
    pub kind: Kind,
    /// Whether it waits for others in it.
    pub waiting: bool,
}

impl Position {
    /// In one word, so that nobody sees half a change.
    pub(super) fn encode(self) -> u64 {
        self.number << 4 | self.kind.code() << 1 | u64::from(self.waiting)
    }

    pub(super) fn decode(word: u64) -> Self {
        Self {
            number: word >> 4,
            kind: Kind::of(word >> 1),
            waiting: word & 1 == 1,
        }
    }
}

/// Before the first call.
const IDLE: Position = Position {
    number: 0,
    kind: Kind::Idle,
    waiting: false,
};

/// The state of a membership that its handles share.
#[derive(Debug)]
pub(super) struct Status {
    aborted: AtomicBool,
    position: AtomicU64,
    missing: Vec<AtomicBool>,
}

impl Status {
    pub(super) fn new(world: WorldSize) -> Arc<Self> {
        Arc::new(Self {
            aborted: AtomicBool::new(false),
            position: AtomicU64::new(IDLE.encode()),
            missing: (0..world.get()).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// Counts from the beginning: calls so far belonged to joining.
    pub(super) fn start_over(&self) {
        self.set_position(IDLE);
    }

    /// Whether calls may go on.
    pub(super) fn check(&self) -> Result<(), CollectiveError> {
        if self.aborted.load(Ordering::Acquire) {
            return Err(CollectiveError::Aborted);
        }
        Ok(())
    }

    /// After an error that leaves the group broken: later calls fail too.
    pub(super) fn fail(&self) {
        self.aborted.store(true, Ordering::Release);
    }

    pub(super) fn position(&self) -> Position {
        Position::decode(self.position.load(Ordering::Relaxed))
    }

    /// Moves to a call, unless the group is broken. Only the thread that makes the calls moves.
    pub(super) fn enter(&self, number: u64, kind: Kind) -> Result<Position, CollectiveError> {
        self.check()?;
        let position = Position {
            number,
            kind,
            waiting: false,
        };
        self.set_position(position);
        Ok(position)
    }

    /// Number of the next collective.
    pub(super) fn next(&self) -> u64 {
        self.position().number + 1
    }

    fn set_position(&self, position: Position) {
        self.position.store(position.encode(), Ordering::Relaxed);
    }

    pub(super) fn set_waiting(&self, waiting: bool) -> Position {
        let position = Position {
            waiting,
            ..self.position()
        };
        self.set_position(position);
        position
    }

    pub(super) fn set_missing(&self, mut is_missing: impl FnMut(Rank) -> bool) {
        for (rank, flag) in (0..).zip(&self.missing) {
            flag.store(is_missing(Rank::new(rank)), Ordering::Relaxed);
        }
    }

    pub(super) fn missing(&self) -> Vec<Rank> {
        let ranks = (0..).map(Rank::new).zip(&self.missing);
        ranks
            .filter(|(_, flag)| flag.load(Ordering::Relaxed))
            .map(|(rank, _)| rank)
            .collect()
    }
}

/// A membership as other threads of the process see it.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Status>);

impl Handle {
    pub(super) fn new(status: &Arc<Status>) -> Self {
        Self(Arc::clone(status))
    }

    pub(super) fn status(&self) -> Arc<Status> {
        Arc::clone(&self.0)
    }

    /// Makes the present and every later call of this rank return [`CollectiveError::Aborted`] within a
    /// few milliseconds. Other ranks are not told.
    pub fn abort(&self) {
        self.0.fail();
    }

    /// Where this rank is.
    #[must_use]
    pub fn position(&self) -> Position {
        self.0.position()
    }

    /// Who has not yet arrived at the call in which this rank waits. Kept after a call that failed.
    #[must_use]
    pub fn missing(&self) -> Vec<Rank> {
        self.0.missing()
    }
}
