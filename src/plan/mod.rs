//! What happens at a step, computed from the config, the number of samples and the step alone.
//!
//! Everything random or ordered in a run comes from here: [`rng`] for values, [`permutation`] for
//! order, [`Timetable`] for which samples a step sees and how they fall into shards, [`tree`] for
//! the order in which shards are summed, [`Reduction`] for what of it each worker does, [`schedule`]
//! for the learning rate.
//!
//! Refuses to: carry state from one step to the next, or let the number of workers change a result.

mod permutation;
mod reduction;
pub mod rng;
pub mod schedule;
mod timetable;
pub mod tree;

pub use permutation::Permutation;
pub(crate) use permutation::mix;
pub use reduction::{NodeSum, Reduction, chunk_of, nodes_max, shards_of};
pub use timetable::{StepPlan, Timetable};
