//! A run from outside: makes its directory, starts its worker, records what it says, replaces it when
//! it dies, listens for requests, and leaves with the right last word.
//!
//! Everything that happens comes in through one channel; [`recovery`] decides, purely; the session
//! writes the decision to the journal and then acts on it.
//!
//! Refuses to: touch a tensor, wait for anybody who only watches, or start a second supervisor for a
//! run that has one. Main functions: [`start`], [`resume`], [`control`].

mod control;
mod create;
mod death;
mod display;
mod ending;
mod hang;
mod launch;
mod link;
mod recorder;
mod recovery;
mod resume;
mod session;
mod signal;

#[cfg(test)]
mod tests;

pub use control::{Follow, control, follow};
pub use create::{NewRun, start};
pub use resume::{Resume, resume};
pub use session::Finished;
