//! `[schedule]`: the learning rate as a function of the optimiser step alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unit::Length;

/// Shape of the learning rate after warm-up; `kind` chooses. Warm-up rises linearly from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// The peak rate throughout.
    Constant {
        /// Length of the warm-up.
        warmup: Length,
    },
    /// A straight line from the peak to `final_ratio` of it at the last step.
    Linear {
        /// Length of the warm-up.
        warmup: Length,
        /// Last rate as a share of the peak, 0 to 1.
        final_ratio: f64,
    },
    /// Half a cosine from the peak to `final_ratio` of it at the last step.
    Cosine {
        /// Length of the warm-up.
        warmup: Length,
        /// Last rate as a share of the peak, 0 to 1.
        final_ratio: f64,
    },
    /// The peak, multiplied by `factor` at each milestone.
    Step {
        /// Length of the warm-up.
        warmup: Length,
        /// Where the rate changes, in increasing order.
        milestones: Vec<Length>,
        /// What it is multiplied by, above 0.
        factor: f64,
    },
}
