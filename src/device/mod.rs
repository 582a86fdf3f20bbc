//! What the machine is: processor, memory, graphics processors, versions, and what it did to us
//! (memory that ran out).
//!
//! What cannot be found out is left empty: a machine without `/proc`, git or a GPU library is a machine
//! to train on all the same. Which run has which device is settled by [`Pool`].
//!
//! Refuses to: wait without a bound (but for a device that another run has), or store what looks like a
//! secret. Main functions: [`probe`], [`devices`], [`Pool`], [`OutOfMemory`].

mod cpu;
mod git;
mod gpu;
mod inventory;
mod memory;
mod probe;
mod process;
mod slots;
mod variable;

pub use cpu::cores;
pub use inventory::devices;
pub use memory::{OutOfMemory, peak_bytes};
pub use probe::{ProbeOptions, probe, step_back};
pub use process::{cpu_seconds, thread_states};
pub use slots::{
    Device, Held, Holder, Holding, Listing, Place, Pool, Request, SlotError, Waiter, Want,
};
