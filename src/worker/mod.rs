//! A worker process: takes its job from the supervisor, opens data, checkpoint and device, hands over
//! to [`crate::train`], and reports.
//!
//! The channel to the supervisor is the process's standard input, a socket. When it closes, or the
//! supervisor dies in any other way, the worker ends at once: what it would still do, nobody would
//! record, and its checkpoints are whole at every moment.
//!
//! Refuses to: run without a supervisor, run a config whose hash is not the expected one, or outlive
//! its supervisor. Main function: [`main`].

mod channel;
mod panics;
mod shell;

pub use shell::main;
