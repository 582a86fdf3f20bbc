//! `[eval]`: when to evaluate on held-out data.

use super::declare::record;
use super::form::whole;
use super::unit::{Every, Unit, every};

record! {
    /// When to evaluate, and in batches of what size. The test part is evaluated once, at the end.
    pub struct Eval {
        /// How often the validation part is evaluated; always at the end too.
        every: Every => every(&[Unit::Steps, Unit::Epochs, Unit::Never]), default Every::Epochs(1);
        /// Samples per forward pass; 0 takes the size of a training shard.
        batch: u32 => whole(0..=1_000_000), default 0;
        /// k of the top-k accuracy that is reported beside accuracy; 0 reports none.
        top_k: u32 => whole(0..=1_000_000), default 0;
    }
}
