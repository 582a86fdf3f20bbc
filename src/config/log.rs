//! `[log]`: what is recorded, and how often.

use super::declare::record;
use super::unit::steps;

record! {
    /// What is recorded. Evaluations and state changes always are.
    pub struct Log {
        /// How often training metrics are recorded.
        every: u32 => steps(), default 1;
    }
}
