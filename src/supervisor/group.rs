//! Memory that the workers of a group share.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use crate::collective::Segment;
use crate::config::SumOrder;
use crate::plan::nodes_max;
use crate::run::{Fault, WorldSize};

/// Memory for a group of `world` workers that sum vectors of `vector_len` numbers over at most
/// `shards` shards in an order, and the most partial sums that one of them has. One worker needs none, and those
/// that do not share it use their network.
///
/// # Errors
///
/// When the machine has no memory to share.
pub(super) fn share(
    world: WorldSize,
    vector_len: u64,
    (shards, order): (u32, SumOrder),
    shares: bool,
) -> Result<(Option<OwnedFd>, u64), Fault> {
    let nodes = nodes_max(shards, world, order);
    if world.get() < 2 || !shares {
        return Ok((None, nodes as u64));
    }
    let length = usize::try_from(vector_len).unwrap_or(usize::MAX);
    let segment = Segment::create(world, length, nodes).map_err(|error| {
        Fault::machine(format!(
            "cannot share memory among {world} workers: {error}"
        ))
        .advise("free some memory, or lower resources.slots")
    })?;
    Ok((Some(segment), nodes as u64))
}

/// Where a worker of the same user finds it, as long as this process lives.
pub(super) fn path(segment: &OwnedFd) -> PathBuf {
    let (pid, number) = (std::process::id(), segment.as_raw_fd());
    PathBuf::from(format!("/proc/{pid}/fd/{number}"))
}
