//! `[resources]`: devices and processes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where tensors live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// CUDA where there is a usable device, else the CPU.
    Auto,
    /// NVIDIA GPUs.
    Cuda,
    /// The CPU.
    Flex,
    /// libtorch, when built in (feature `tch`).
    Tch,
}

/// Number of worker processes, one per device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Slots {
    /// One per device that is free.
    All,
    /// Exactly this many.
    Count(u32),
}

/// Devices and processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Where tensors live.
    pub backend: Backend,
    /// Worker processes. This version runs one.
    pub slots: Slots,
    /// Compute threads of each worker on the CPU; 0 takes the cores shared out among the workers.
    /// The result does not depend on it.
    pub threads: u32,
}
