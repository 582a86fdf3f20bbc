//! What the machine is: processor, memory, graphics processors, versions, and what it did to us
//! (memory that ran out).
//!
//! Everything here only looks. What cannot be found out is left empty: a machine without `/proc`, git
//! or a GPU library is a machine to train on all the same.
//!
//! Refuses to: fail, wait without a bound, or store what looks like a secret. Main functions:
//! [`probe`], [`OutOfMemory`].

mod cpu;
mod git;
mod gpu;
mod memory;
mod probe;
mod process;
mod variable;

pub use cpu::cores;
pub use memory::{OutOfMemory, peak_bytes};
pub use probe::{ProbeOptions, probe, step_back};
pub use process::{cpu_seconds, thread_states};
