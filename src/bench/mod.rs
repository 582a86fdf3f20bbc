//! Measures what training costs on this machine: [`training`] the steps of a config, held against
//! what its device reaches, [`loading`] the way from its files to batches. No run directory, no
//! journal, no other process.
//!
//! Refuses to: change what is measured. A step is one of [`crate::train`], a batch one of
//! [`crate::data::Prefetcher`].

mod loading;
mod spread;
mod training;

pub use loading::{Loading, loading};
pub use spread::Spread;
pub use training::{Training, training};
