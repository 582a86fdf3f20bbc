//! Samples on disk become batches in host memory.
//!
//! Main types: [`Batch`] with the shapes that a model is built for, [`InputShape`] and
//! [`TargetShape`].
//!
//! Refuses to: know a device or a tensor.

mod batch;

pub use batch::{Batch, Input, InputShape, Target, TargetShape};
