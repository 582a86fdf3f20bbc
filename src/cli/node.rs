//! Runs on several hosts: what this process is among them.

use std::io::Write;
use std::path::Path;

use crate::run::Fault;
use crate::supervisor::{self, Cluster, NodeFlags};

use super::args::Nodes;

/// What a process does for a run.
pub(super) enum Role {
    /// It holds the run, with these other hosts if there are any.
    Holder(Option<Cluster>),
    /// It has served the run of another host, to its end.
    Served,
}

/// Finds out what this process is to do; serves the run if another host holds it.
///
/// # Errors
///
/// When options or environment contradict themselves, or the run of the other host fails.
pub(super) fn role(nodes: &Nodes, runs_dir: &Path) -> Result<Role, Fault> {
    let flags = NodeFlags {
        nodes: nodes.nnodes,
        node: nodes.node_rank,
        rendezvous: nodes.rendezvous.clone(),
        patience_s: nodes.patience,
    };
    let found = Cluster::find(&flags, &|name| std::env::var(name).ok())?;
    match found {
        Some(cluster) if cluster.is_spare => Ok(Role::Served),
        Some(cluster) if cluster.node > 0 => {
            supervisor::serve(&cluster, runs_dir, &mut |text| {
                // A terminal that is gone is no reason to stop.
                let _ = writeln!(std::io::stderr(), "{text}");
            })?;
            Ok(Role::Served)
        }
        found => Ok(Role::Holder(found)),
    }
}
