//! Counters and indices that must not be mixed up.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! count {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name($inner);

        impl $name {
            /// Wraps a number.
            #[must_use]
            pub const fn new(value: $inner) -> Self {
                Self(value)
            }

            /// The number.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }

            /// The one after.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

count!(
    /// Number of optimiser steps that are finished. The step that leads from `Step(n)` to
    /// `Step(n + 1)` is planned as step `n` and reported as step `n + 1`.
    Step(u64)
);
count!(
    /// Epoch, counted from 0.
    Epoch(u64)
);
count!(
    /// Index of a virtual shard within a global batch.
    ShardId(u32)
);
count!(
    /// Index of a worker within its group.
    Rank(u32)
);
count!(
    /// Number of workers in a group.
    WorldSize(u32)
);
/// A worker's place in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Which worker.
    pub rank: Rank,
    /// Of how many.
    pub world: WorldSize,
}

impl Seat {
    /// The place of a worker that has no others.
    pub const ALONE: Self = Self {
        rank: Rank::new(0),
        world: WorldSize::new(1),
    };

    /// Whether this is the worker that reports and writes checkpoints.
    #[must_use]
    pub fn is_first(self) -> bool {
        self.rank.get() == 0
    }
}

count!(
    /// How often a run was started: 1 for the first start, one more for each resume or restart.
    Attempt(u32)
);
count!(
    /// Index of a sample within its part (training, validation or test) of the data.
    SampleId(u64)
);
