//! The death of a worker: what it means and what to say of it.

use super::ending::Ending;
use crate::run::{Fault, FaultClass, Rank, Step};

/// A worker's death.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Death {
    /// Slot of the worker.
    pub(super) slot: Rank,
    /// Last step it finished, if it got so far.
    pub(super) step: Option<Step>,
    /// How its process ended.
    pub(super) ending: Ending,
    /// Whether it was killed because it hung.
    pub(super) hung: bool,
    /// Most memory that it had said to hold, in bytes; 0 if it had said nothing.
    pub(super) peak_bytes: u64,
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

impl Death {
    /// Whether this is the death of `last` over again, so that a third try would end the same.
    pub(super) fn repeats(&self, last: &Death) -> bool {
        let same = |death: &Death| (death.slot, death.step, death.hung, death.ending.clone());
        (self.hung || self.ending.repeats()) && same(self) == same(last)
    }

    /// How and where, in words.
    pub(super) fn words(&self) -> String {
        let what = if self.hung {
            "hung and was killed".to_string()
        } else {
            self.ending.to_string()
        };
        let memory = match &self.ending {
            Ending::OutOfMemory(_) if self.peak_bytes > 0 => {
                format!(" (it had held up to {:.1} GB)", gigabytes(self.peak_bytes))
            }
            _ => String::new(),
        };
        match self.step {
            Some(step) => format!("{what} after step {step}{memory}"),
            None => format!("{what} before the first step{memory}"),
        }
    }

    /// Why no other worker is started: it died `again` the same way, or `deaths` times within
    /// `window_s` seconds.
    pub(super) fn given_up(&self, again: bool, deaths: usize, window_s: u64) -> Fault {
        let (slot, words) = (self.slot, self.words());
        let message = if again {
            format!("rank {slot} died twice in the same place: {words}")
        } else if deaths == 1 {
            format!("rank {slot} died: {words}")
        } else {
            format!("workers died {deaths} times within {window_s} s, last rank {slot}: {words}")
        };
        let advice = match self.ending {
            Ending::OutOfMemory(_) => {
                "raise train.shards (less is computed at once) or lower train.global_batch; the \
                 newest checkpoint is kept"
            }
            _ => {
                "`trainer logs` shows what the worker said; `trainer resume` continues from the \
                 newest checkpoint"
            }
        };
        let mut fault = Fault::new(FaultClass::Workers, message).advise(advice);
        fault.rank = Some(slot);
        fault.step = self.step;
        fault
    }
}
