//! Several hosts: the first one's supervisor holds the run; on each of the others an agent starts
//! workers for it and passes on what they say.
//!
//! A worker on another host is to the supervisor what one on its own is: a channel, a way to kill it,
//! an end. A host that is lost takes its workers with it, and that is recovered from like any other
//! death. Both sides send a sign of life every second, so that a cut cable is noticed.
//!
//! Refuses to: talk to anyone who does not know the run's token, or keep a worker alive whose
//! supervisor is out of reach. What travels is authenticated at the beginning of a connection and
//! neither encrypted nor protected afterwards: that is for the network to provide.

mod agent;
mod connect;
mod hub;
mod message;
mod place;
mod slots;

pub use agent::serve;
pub(super) use hub::Hub;
pub use place::{Cluster, NodeFlags};
