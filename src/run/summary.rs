//! A run on one page, folded from its journal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Attempt, CheckpointInfo, RunId, RunState, Step};

/// Value of a metric at a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricPoint {
    /// Finished steps.
    pub step: Step,
    /// Value.
    pub value: f64,
}

/// The best value of the metric that `best` checkpoints go by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Metric, e.g. `validation/loss`.
    pub metric: String,
    /// Its value.
    pub value: f64,
    /// Where it was measured.
    pub step: Step,
}

/// A run on one page. Everything in it follows from the journal; the file that holds it is a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Identity.
    pub id: RunId,
    /// Name with short id.
    pub name: String,
    /// State, as journaled.
    pub state: RunState,
    /// Reason of the last transition.
    pub reason: String,
    /// When it was created, milliseconds since 1970.
    pub created_ms: u64,
    /// Last entry, milliseconds since 1970.
    pub updated_ms: u64,
    /// Finished steps.
    pub step: Step,
    /// Steps asked for; 0 until training has begun once.
    pub steps_total: u64,
    /// Steps of one epoch; 0 until training has begun once.
    pub steps_per_epoch: u64,
    /// Attempts so far.
    pub attempts: Attempt,
    /// Workers of the last group; 0 until training has begun once.
    pub workers: u32,
    /// Best value, if any was measured.
    pub best: Option<Best>,
    /// Last value by split, then name.
    pub metrics: BTreeMap<String, BTreeMap<String, MetricPoint>>,
    /// Checkpoints that exist, by step.
    pub checkpoints: Vec<CheckpointInfo>,
    /// SHA-256 of the resolved config.
    pub config_sha256: String,
    /// Fingerprint of the data; empty until they were prepared once.
    pub data_fingerprint: String,
    /// Trainable parameters; 0 until the model was built once.
    pub parameters: u64,
    /// Most memory a worker held, bytes.
    pub peak_bytes: u64,
    /// Entries folded in.
    pub entries: u64,
}
