//! `[log]`: what is recorded, and how often.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is recorded. Evaluations and state changes always are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Steps between recorded training metrics.
    pub every: u32,
}
