//! What a session is told when it begins.

use super::queue::Wanted;
use super::recovery::Machine;
use crate::config::SumOrder;
use crate::device::ProbeOptions;
use crate::run::RunDir;
use crate::run::wire::Network;

/// What a session is about.
pub(super) struct Plan {
    /// Files of the run.
    pub(super) dir: RunDir,
    /// Resolved config as TOML.
    pub(super) config: String,
    /// Its hash.
    pub(super) config_sha256: String,
    /// Decisions, before the first.
    pub(super) machine: Machine,
    /// Why the run starts, in words.
    pub(super) reason: String,
    /// Checkpoint that the first worker must continue from; later ones take the newest.
    pub(super) checkpoint: Option<String>,
    /// Facts that the probe cannot find out.
    pub(super) probe: ProbeOptions,
    /// Shards of a step: no more workers than that have something to do.
    pub(super) shards: u32,
    /// Order in which they are summed.
    pub(super) order: SumOrder,
    /// Longest time that a worker waits for the others of its group, in milliseconds.
    pub(super) timeout_ms: u64,
    /// Compute threads of each worker; 0 shares the cores out.
    pub(super) threads: u32,
    /// Workers of each host.
    pub(super) per_node: u32,
    /// How workers of this host reach each other, if not by shared memory.
    pub(super) network: Option<Network>,
    /// Devices to wait for; none where runs need not share them out.
    pub(super) wanted: Option<Wanted>,
}

impl Plan {
    /// Compute threads of each of `world` workers: hosts are alike.
    pub(super) fn threads(&self, world: u32) -> u32 {
        match self.threads {
            0 => (self.probe.threads / world.clamp(1, self.per_node.max(1))).max(1),
            threads => threads,
        }
    }
}
