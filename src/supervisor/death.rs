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
}

impl Death {
    /// Whether this is the death of `last` over again, so that a third try would end the same.
    pub(super) fn repeats(&self, last: &Death) -> bool {
        (self.hung || self.ending.repeats()) && self == last
    }

    /// How and where, in words.
    pub(super) fn words(&self) -> String {
        let what = if self.hung {
            "hung and was killed".to_string()
        } else {
            self.ending.to_string()
        };
        match self.step {
            Some(step) => format!("{what} after step {step}"),
            None => format!("{what} before the first step"),
        }
    }

    /// Why no other worker is started: it died `again` the same way, or `deaths` times within
    /// `window_s` seconds.
    pub(super) fn given_up(&self, again: bool, deaths: usize, window_s: u64) -> Fault {
        let (slot, words) = (self.slot, self.words());
        let message = if again {
            format!("rank {slot} died twice in the same place: {words}")
        } else {
            if deaths == 1 {
                format!("rank {slot} died: {words}")
            } else {
                format!(
                    "workers died {deaths} times within {window_s} s, last rank {slot}: {words}"
                )
            }
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
