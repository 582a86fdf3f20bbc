//! Training: the loop, losses, optimisers, metrics, evaluation, early stopping.
//!
//! At a step boundary things happen in one order: the step is reported, evaluated if that is due,
//! written to a checkpoint if that is due, and then commands are looked at. So a checkpoint holds
//! everything that was decided at its step, and a resumed run neither loses nor repeats any of it.
//!
//! Refuses to: know processes, sockets or the journal (it is given a [`Reporter`]), and to carry
//! generators or positions from step to step: what a step does follows from its number.
//!
//! Workers of a group train on shards of the same batches and hold the same state: see [`Trainee`], the
//! main type, which is given a [`crate::collective::Collective`].

mod accumulate;
mod clip;
mod due;
mod evaluate;
mod group;
mod guard;
mod halt;
mod job;
mod learner;
mod loss;
mod memory;
mod metric;
mod nan;
mod node;
mod optimizer;
mod save;
mod state;
mod step;
mod watch;

#[cfg(test)]
mod tests;

pub use job::{Ended, FindCheckpoint, Job, Reporter, Trainee};
