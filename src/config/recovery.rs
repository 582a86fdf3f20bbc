//! `[recovery]`: what to do when a process dies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to do when a process dies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// Restarts of a dead worker within `window_s` before the run fails (exit code 5).
    pub max_restarts: u32,
    /// Length of the window, in seconds.
    pub window_s: u64,
    /// Seconds without a sign of life before a worker counts as hung; 0 never.
    pub hang_timeout_s: u64,
}
