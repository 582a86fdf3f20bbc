//! `[checkpoint]`: when to write and what to keep.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::train::Goal;
use super::unit::Every;

/// Which checkpoints stay. The newest verified one always does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// The newest n, at least 1.
    pub latest: u32,
    /// The best n by `metric`.
    pub best: u32,
    /// Every one whose step is a multiple of this; 0 for none.
    pub every: u64,
}

/// When to write checkpoints and which to keep. One is always written at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// How often.
    pub every: Every,
    /// Which stay.
    pub keep: Keep,
    /// What `best` means: `validation/<name>`.
    pub metric: String,
    /// Whether smaller or larger is better.
    pub goal: Goal,
}
