//! `[recovery]`: what to do when a process dies.

use super::declare::record;
use super::form::{flag, whole};

record! {
    /// What to do when a process dies.
    pub struct Recovery {
        /// Restarts of a dead worker within `window_s` before the run fails (exit code 5).
        max_restarts: u32 => whole(0..=1_000_000), default 5;
        /// Length of the window, in seconds.
        window_s: u64 => whole(1..=31_536_000), default 3600;
        /// Seconds without a sign of life before a worker counts as hung; 0 never.
        hang_timeout_s: u64 => whole(0..=31_536_000), default 600;
        /// Go on with fewer workers when one cannot be replaced, instead of failing.
        elastic: bool => flag(), default true;
        /// Fewest workers that `elastic` goes down to.
        min_slots: u32 => whole(1..=4096), default 1;
    }
}
