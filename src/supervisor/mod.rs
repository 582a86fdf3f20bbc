//! A run from outside: makes its directory, starts its workers and makes them a group, records what they
//! say, replaces one that dies, listens for requests, and leaves with the right last word.
//!
//! Everything that happens comes in through one channel; [`recovery`] decides, purely; the session
//! writes the decision to the journal and then acts on it.
//!
//! Refuses to: touch a tensor, wait for anybody who only watches, or start a second supervisor for a
//! run that has one. Main functions: [`start`], [`resume`], [`control`].

mod brief;
mod cluster;
mod control;
mod create;
mod death;
mod departure;
mod display;
mod ending;
mod group;
mod hang;
mod input;
mod known;
mod launch;
mod link;
mod member;
mod queue;
mod recorder;
mod recovery;
mod reform;
mod request;
mod resume;
mod session;
mod signal;
mod watch;

#[cfg(test)]
mod tests;

pub use cluster::{Cluster, NodeFlags, serve};
pub use control::{Follow, control, follow};
pub use create::{NewRun, start};
pub use resume::{Resume, resume};
pub use session::Finished;
