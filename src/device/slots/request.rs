//! What is asked of a pool, and what it tells.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One device of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name, the same in every process: the UUID of a GPU.
    pub id: String,
    /// Devices of the same group are close together and are preferred together.
    pub group: u32,
}

/// Which devices a run wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// So many, whichever.
    Count(u32),
    /// Exactly these.
    These(Vec<String>),
    /// Every one.
    All,
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Want::Count(1) => f.write_str("1 device"),
            Want::Count(count) => write!(f, "{count} devices"),
            Want::These(ids) => f.write_str(&ids.join(", ")),
            Want::All => f.write_str("all devices"),
        }
    }
}

/// What a run asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Name of the run, for display.
    pub name: String,
    /// Higher comes first; among equals, who came first.
    pub priority: i32,
    /// Which devices.
    pub want: Want,
}

/// Who holds a device. Written by that process: for display only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Name of its run.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// When it took the device, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// The same number on all devices that were taken in one go, and greater for later ones.
    pub serial: u64,
}

/// A device that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// Name of the device.
    pub device: String,
    /// By whom; `None` when its lock is held but its file does not tell.
    pub holder: Option<Holder>,
}

/// Who waits. Written by that process: for display only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// Name of its run.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Since when, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Its priority.
    pub priority: i32,
    /// What it wants.
    pub want: Want,
}

/// The place of a waiter in the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Who comes before it and could be given a device that it could be given, first one first.
    pub ahead: Vec<Waiter>,
    /// Who holds the devices that it could be given.
    pub held: Vec<Holding>,
    /// Whether this differs from what the last call was told; true at the first.
    pub changed: bool,
}

/// Everything that is held and waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// Devices that are held, in the order in which the caller named them.
    pub held: Vec<Holding>,
    /// Who waits, first one first.
    pub queue: Vec<Waiter>,
}
