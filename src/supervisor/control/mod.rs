//! The control socket of a live run: other processes ask for things, or follow.
//!
//! The socket lies in the run directory and only its owner may use it (mode 0600). Requests and
//! answers travel as frames of [`crate::run::wire`].
//!
//! Refuses to: wait for a viewer that is slow, or serve more than a few connections at once.

mod client;
mod server;
mod socket;
mod viewer;

pub use client::{Follow, control, follow};
pub(super) use server::Server;
pub(super) use viewer::{Viewer, Viewers};
