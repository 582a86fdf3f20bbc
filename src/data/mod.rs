//! Samples on disk become batches in host memory.
//!
//! [`Dataset::open`] reads tables, images or text, splits them by a seed, validates them and
//! prepares them with what is computed on the training split alone; [`Dataset::batch`] gives any
//! samples by their ids; [`Prefetcher`] prepares the steps of a [`crate::plan::Timetable`] ahead.
//!
//! Main types: [`Dataset`], and [`Batch`] with the shapes that a model is built for, [`InputShape`]
//! and [`TargetShape`].
//!
//! Refuses to: know a device or a tensor, keep an order of its own, or go on with a file that
//! changed since the run was prepared.

mod batch;
mod dataset;
mod image;
mod mix;
mod nearest;
mod prefetch;
mod prepared;
mod source;
mod split;
mod summary;
mod synthetic;
mod table;
mod text;
mod token_file;

pub use batch::{AugmentKey, Batch, Input, InputShape, Part, Target, TargetShape};
pub use dataset::Dataset;
pub use prefetch::{Prefetcher, StepBatch};
pub use summary::render_summary;
