//! State of a training run on disk: bytes with hashes, whole or not at all.
//!
//! Main type: [`TensorBytes`].
//!
//! Refuses to: know a tensor library.

mod tensor;

pub use tensor::{DType, TensorBytes};
