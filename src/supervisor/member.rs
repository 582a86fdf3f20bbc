//! One worker process as the decisions see it. Pure.

use std::time::Duration;

use super::hang::Health;
use crate::run::wire::Outcome;
use crate::run::{Fault, Step};

/// What a worker said last.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LastWord {
    Done(Outcome),
    Failed(Fault),
}

/// What a worker is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Prepares data and model.
    Preparing,
    /// Waits for a group. With the length of its vectors, and the step of the state in its memory.
    Ready(u64, Option<Step>),
    /// Trains in the present group.
    Training,
}

/// A worker process.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) pid: u32,
    pub(super) health: Health,
    pub(super) standing: Standing,
    /// Last finished step.
    pub(super) step: Option<Step>,
    pub(super) last_word: Option<LastWord>,
    /// Since when it should be leaving.
    pub(super) leaving: Option<Duration>,
    /// Killed because it hung.
    pub(super) hung: bool,
    /// Most memory that it has said to hold, in bytes.
    pub(super) peak_bytes: u64,
    /// When it last gave a sign of life.
    pub(super) heard: Duration,
}

impl Member {
    /// A process that has just been started.
    pub(super) fn new(pid: u32, hang_timeout_s: u64, now: Duration) -> Self {
        Self {
            pid,
            health: Health::new(hang_timeout_s, Step::new(0), now),
            standing: Standing::Preparing,
            step: None,
            last_word: None,
            leaving: None,
            hung: false,
            peak_bytes: 0,
            heard: now,
        }
    }

    /// Whether it is expected to be one of a group, now or soon.
    pub(super) fn stays(&self) -> bool {
        self.last_word.is_none() && self.leaving.is_none() && !self.hung
    }

    /// Whether it holds a state of the run in memory that others can go on from.
    pub(super) fn holds_state(&self) -> bool {
        self.stays()
            && match self.standing {
                Standing::Preparing => false,
                Standing::Ready(_, step) => step.is_some(),
                Standing::Training => true,
            }
    }
}
