//! `[checkpoint]`: when to write and what to keep.

use super::declare::record;
use super::form::{metric, names, whole};
use super::section::section;
use super::train::{Goal, goal_of};
use super::unit::{Every, Unit, every};

record! {
    /// Which checkpoints stay. The newest verified one always does.
    pub struct Keep {
        /// The newest n.
        latest: u32 => whole(1..=1_000_000), default 2;
        /// The best n by `metric`. Without a validation part the default is 0.
        best: u32 => whole(0..=1_000_000), default 1;
        /// Every one whose step is a multiple of this; 0 for none.
        every: u64 => whole(0..=1_000_000_000), default 0;
    }
}

record! {
    /// When to write checkpoints and which to keep. One is always written at the end.
    pub struct Checkpoint {
        /// How often a checkpoint is written.
        every: Every => every(&[Unit::Steps, Unit::Epochs, Unit::Seconds, Unit::Never]),
            default Every::Epochs(1);
        /// Which checkpoints stay.
        keep: Keep => section();
        /// The metric that `keep.best` goes by.
        metric: String => metric(), default "validation/loss".to_string();
        /// Whether smaller or larger is better. The default follows from the metric: `min` for
        /// loss, mse, mae and perplexity, else `max`.
        goal: Goal => names(), derived goal_of(metric.as_deref());
    }
}
