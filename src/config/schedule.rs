//! `[schedule]`: the learning rate as a function of the optimiser step alone.

use super::declare::tagged;
use super::form::{list, real};
use super::unit::{Length, length};

/// Most places where a step schedule changes the rate.
const MILESTONES_MAX: usize = 1000;

tagged! {
    /// Shape of the learning rate after warm-up; `kind` chooses. Warm-up rises linearly from 0.
    pub enum Schedule = "constant" {
        /// The peak rate throughout.
        Constant = "constant" {
            /// Length of the warm-up.
            warmup: Length => length(), default Length::Steps(0);
        }
        /// A straight line from the peak to `final_ratio` of it at the last step.
        Linear = "linear" {
            /// Length of the warm-up.
            warmup: Length => length(), default Length::Steps(0);
            /// Last rate as a share of the peak.
            final_ratio: f64 => real(0.0..=1.0), default 0.0;
        }
        /// Half a cosine from the peak to `final_ratio` of it at the last step.
        Cosine = "cosine" {
            /// Length of the warm-up.
            warmup: Length => length(), default Length::Steps(0);
            /// Last rate as a share of the peak.
            final_ratio: f64 => real(0.0..=1.0), default 0.0;
        }
        /// The peak, multiplied by `factor` at each milestone.
        Step = "step" {
            /// Length of the warm-up.
            warmup: Length => length(), default Length::Steps(0);
            /// Where the rate changes, in increasing order.
            milestones: Vec<Length> => list(length(), 1..=MILESTONES_MAX);
            /// What the rate is multiplied by.
            factor: f64 => real(0.0..=1000.0).above(), default 0.1;
        }
    }
}
