//! Checkpoints: a training run at one step, on disk, whole or not at all.
//!
//! A checkpoint is a directory `step-00001234` with `model.safetensors`, `optimizer.safetensors`,
//! `state.json` and `MANIFEST.json` (size and SHA-256 of each file). It is written under a temporary
//! name, synced, then renamed.
//!
//! Refuses to: know a tensor library, trust a file it has not verified, or remove what it did not
//! write. Main types: [`Snapshot`], [`Writer`].

mod disk;
mod error;
mod keep;
mod layout;
mod manifest;
mod name;
mod pack;
mod read;
mod recover;
mod state;
mod tensor;
mod write;
mod writer;

#[cfg(test)]
mod tests;

pub use error::CheckpointError;
pub use read::{Listed, list, load, verify};
pub use recover::{newest_good, newest_verified, supersede_after};
pub use state::{EarlyStoppingMemory, STATE_VERSION, Snapshot, TrainState};
pub use tensor::{DType, TensorBytes};
pub use writer::Writer;
