//! `[resources]`: devices and processes.

use serde_json::{Value as Json, json};

use super::declare::{names, record};
use super::form::{At, Form, list, names, text, whole};
use super::tree::{Node, Value};

/// Most worker processes.
const SLOTS_MAX: u32 = 4096;

names! {
    /// Where tensors live.
    pub enum Backend {
        /// CUDA where there is a usable device, else the CPU.
        Auto = "auto",
        /// NVIDIA GPUs.
        Cuda = "cuda",
        /// The CPU.
        Flex = "flex",
        /// libtorch, when built in (feature `tch`).
        Tch = "tch",
    }
}

names! {
    /// How the workers of a run reach each other.
    pub enum Transport {
        /// Shared memory on one host, TCP between several.
        Auto = "auto",
        /// Shared memory.
        Shm = "shm",
        /// TCP, on one host too.
        Tcp = "tcp",
        /// Gradients through NCCL, between NVIDIA GPUs; all else as `auto`.
        Nccl = "nccl",
    }
}

/// Number of worker processes, one per device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// One per device that is free.
    All,
    /// Exactly this many.
    Count(u32),
}

record! {
    /// Devices and processes.
    pub struct Resources {
        /// Where tensors live.
        backend: Backend => names(), default Backend::Auto;
        /// Worker processes of a host, one per device, at most `train.shards` in all; `"all"` takes every device, on
        /// the CPU one worker per core. The result does not depend on it, unless `train.reduction` is `"fast"`.
        slots: Slots => SlotsForm, default Slots::Count(1);
        /// Devices to use, one for each of `slots`: GPU UUIDs, or names from `TRAINER_SLOTS`; empty takes
        /// free ones that are close together. Hosts but the first take any that are free.
        devices: Vec<String> => list(text(), 0..=4096), default Vec::new();
        /// Runs that wait for devices: higher ones first, equal ones in the order of their arrival.
        priority: i64 => whole(-1_000_000..=1_000_000), default 0;
        /// How workers exchange gradients; `"nccl"` needs NVIDIA GPUs and the library NCCL. The result does not depend
        /// on it, unless `train.reduction` is `"fast"`.
        transport: Transport => names(), default Transport::Auto;
        /// Compute threads of each worker on the CPU; 0 takes the cores shared out among the
        /// workers. The result does not depend on it.
        threads: u32 => whole(0..=1024), default 0;
    }
}

/// Takes a number or `"all"`.
struct SlotsForm;

impl Form for SlotsForm {
    type Value = Slots;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<Slots> {
        let count = match &node.value {
            Value::Text { text, .. } if text == "all" => return Some(Slots::All),
            Value::Whole(number) => u32::try_from(*number).ok(),
            Value::Text {
                text,
                filled_in: true,
            } => text.trim().parse().ok(),
            _ => None,
        };
        match count.filter(|count| (1..=SLOTS_MAX).contains(count)) {
            Some(count) => Some(Slots::Count(count)),
            None => at.refuse(node, &self.takes()),
        }
    }

    fn write(&self, value: &Slots) -> Json {
        match value {
            Slots::All => json!("all"),
            Slots::Count(count) => json!(count),
        }
    }

    fn schema(&self) -> Json {
        json!({"anyOf": [{"const": "all"}, whole(1..=SLOTS_MAX).schema()]})
    }

    fn takes(&self) -> String {
        format!("a number of workers from 1 to {SLOTS_MAX}, or \"all\"")
    }
}
