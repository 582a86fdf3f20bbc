//! Which run has which device of this machine, and who comes next.
//!
//! A folder holds one lock file per device. A run takes the locks (`flock`) of all the devices it
//! wants or of none, and the kernel gives them back when its process ends, however it ends: there is
//! no daemon, and nothing is stale after `kill -9`. A run that has to wait puts a ticket into the
//! folder, which is locked as long as its process lives; a ticket without a lock belonged to somebody
//! who died, and whoever sees it removes it.
//!
//! **The rule.** A waiter takes devices when it can do so without touching any device that a waiter
//! before it (higher priority, or equal priority and an earlier ticket) could be given. So a run that
//! wants four devices is not starved by runs that want one, and a run that waits for a named device
//! holds up nobody who does not touch that device. The rule is a pure function, `decide`.
//!
//! **The turn.** Everyone who looks, joins or takes holds the lock of the file `turn` for that moment.
//! Under it the locks of all wanted devices are tried without blocking and kept only if they suffice:
//! nobody ever waits while holding a part, so there can be no deadlock. Leaving needs no turn.
//!
//! **Waiting is polling.** A blocking `flock` waits for one device where "any two of eight" are
//! wanted, and cannot be interrupted by a stop. inotify announces that a file is closed *before* the
//! kernel drops its lock, so a wake-up could come too early and be the last. A look every 100 ms
//! misses nothing; those who cannot be next only ask every 20 ms whether the one before them is still
//! there, which is one system call.
//!
//! What other processes wrote into the folder is read up to a bound, cleaned for display, and decides
//! nothing but the order of the queue: who holds a device is known from its lock alone.
//!
//! Refuses to: share a folder between users, know anything of GPUs or topology (the caller orders and
//! groups the devices), look at clocks for order, or keep a lock in a child process. It therefore
//! cannot know that a worker outlives the process that holds its slot. Main type: [`Pool`].

mod decide;
mod error;
mod folder;
mod pool;
mod queue;
mod record;
mod request;
mod wait;

#[cfg(test)]
mod tests;

pub use error::SlotError;
pub use pool::{Held, Pool};
pub use request::{Device, Holder, Holding, Listing, Place, Request, Waiter, Want};
