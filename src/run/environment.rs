//! Where a run ran.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What was true of machine and program when an attempt started. Differences between two of these
/// explain differences between two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of this program.
    pub trainer_version: String,
    /// SHA-256 of the executable.
    pub trainer_sha256: String,
    /// Commit of the folder the run was started in; empty outside a repository.
    pub git_commit: String,
    /// Whether that folder had uncommitted changes.
    pub git_dirty: bool,
    /// Name of the machine.
    pub hostname: String,
    /// Operating system and kernel.
    pub os: String,
    /// Processor model.
    pub cpu: String,
    /// Processor features that can change numerics (avx2, fma, avx512f…), sorted.
    pub cpu_features: Vec<String>,
    /// Logical processors that this process may use.
    pub cpu_count: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Graphics processors.
    pub gpus: Vec<Gpu>,
    /// NVIDIA driver version; empty without one.
    pub driver_version: String,
    /// CUDA version of the driver; empty without one.
    pub cuda_version: String,
    /// NCCL version; empty without one.
    pub nccl_version: String,
    /// Backend that computes.
    pub backend: String,
    /// Compute threads of a worker.
    pub threads: u32,
    /// Environment variables that can change a result.
    pub variables: BTreeMap<String, String>,
    /// Folder the run was started in.
    pub working_folder: String,
}

/// One graphics processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Model name.
    pub name: String,
    /// Unique id as the driver gives it.
    pub uuid: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
}
