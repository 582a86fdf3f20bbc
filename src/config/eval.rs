//! `[eval]`: when to evaluate on held-out data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unit::Every;

/// When to evaluate, and in batches of what size. The test part is evaluated once, at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Eval {
    /// How often the validation part is evaluated (steps or epochs); always at the end too.
    pub every: Every,
    /// Samples per forward pass; 0 takes the size of a training shard.
    pub batch: u32,
    /// k of the top-k accuracy that is reported beside accuracy; 0 reports none.
    pub top_k: u32,
}
