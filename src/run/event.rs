//! What happens in a run. Written to the journal, shown by every display.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Attempt, Environment, Epoch, Fault, Rank, RunId, RunState, StateCause, Step, WorldSize,
};

/// Name of the training split in metrics and files.
pub const SPLIT_TRAIN: &str = "train";
/// Name of the validation split in metrics and files.
pub const SPLIT_VALIDATION: &str = "valid";
/// Name of the test split in metrics and files.
pub const SPLIT_TEST: &str = "test";

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Place in the journal, from 0, without gaps.
    pub seq: u64,
    /// Milliseconds since 1970, UTC.
    pub time_ms: u64,
    /// Attempt during which it happened.
    pub attempt: Attempt,
    /// What happened.
    pub event: Event,
}

/// Where an event stands among those that all workers of a group know alike: the step that was
/// finished, and which event of its boundary. The first worker tells them; one that takes over may
/// tell some of them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Finished steps.
    pub step: Step,
    /// From 0 at each step.
    pub index: u32,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The run was recorded. Always entry 0.
    RunCreated {
        /// Version of the journal format.
        format: u32,
        /// Identity.
        id: RunId,
        /// Name with short id, as the directory is called.
        name: String,
        /// SHA-256 of the resolved config.
        config_sha256: String,
    },
    /// The state changed.
    StateChanged {
        /// State before.
        from: RunState,
        /// State after.
        to: RunState,
        /// What moved it.
        cause: StateCause,
        /// The reason in words.
        reason: String,
    },
    /// A new attempt begins.
    AttemptStarted {
        /// Process id of the supervisor.
        supervisor_pid: u32,
        /// Machine and program.
        environment: Box<Environment>,
    },
    /// The config was changed on resume, with permission.
    ConfigChanged {
        /// New hash.
        config_sha256: String,
        /// One line per changed key: `key: old -> new`.
        changes: Vec<String>,
    },
    /// A worker process runs.
    WorkerStarted {
        /// Its rank.
        rank: Rank,
        /// Its process id.
        pid: u32,
    },
    /// A worker process is gone.
    WorkerExited {
        /// Its rank.
        rank: Rank,
        /// Its process id.
        pid: u32,
        /// How it ended, in words: `exit code 3`, `signal 9 (SIGKILL)`.
        status: String,
        /// Whether another is started in its place.
        restarts: bool,
    },
    /// The run waits for devices that other runs have.
    SlotsAwaited {
        /// What it waits for, in words.
        wants: String,
        /// Runs before it in the queue, next first.
        behind: Vec<String>,
        /// Runs that have devices.
        holders: Vec<String>,
    },
    /// The run has its devices.
    SlotsTaken {
        /// Their names, by worker.
        devices: Vec<String>,
    },
    /// Several workers form a group, or another one than before.
    GroupFormed {
        /// Number of workers.
        world_size: WorldSize,
        /// Worker processes by rank.
        slots: Vec<Rank>,
        /// Finished steps that are held in memory; none where training begins from a checkpoint or
        /// from the start.
        step: Option<Step>,
    },
    /// The group trains again after a worker was lost, hung or came.
    Recovered {
        /// What had happened, in words.
        cause: String,
        /// The first step that was finished afterwards.
        step: Step,
        /// Number of workers.
        world_size: WorldSize,
        /// Where the time went.
        timing: RecoveryTiming,
    },
    /// The data were read, split and validated.
    DataPrepared {
        /// One screen of facts.
        summary: Box<DataSummary>,
    },
    /// The model was built.
    ModelBuilt {
        /// Layers, first to last.
        layers: Vec<LayerSummary>,
        /// Trainable parameters.
        parameters: u64,
    },
    /// The first step of this attempt is about to run.
    TrainingBegan {
        /// Finished steps so far.
        step: Step,
        /// Steps that the config asks for.
        steps_total: u64,
        /// Steps of one epoch.
        steps_per_epoch: u64,
        /// Directory name of the checkpoint it continues from.
        checkpoint: Option<String>,
        /// Device the tensors live on.
        device: String,
    },
    /// An optimiser step is done.
    StepFinished(StepReport),
    /// A split was evaluated.
    Evaluated {
        /// Finished steps.
        step: Step,
        /// Epoch.
        epoch: Epoch,
        /// [`SPLIT_VALIDATION`] or [`SPLIT_TEST`].
        split: String,
        /// Samples, each counted once.
        samples: u64,
        /// Time it took.
        seconds: f64,
        /// Values by name. A value that is not a number is absent.
        metrics: BTreeMap<String, f64>,
    },
    /// A checkpoint exists, whole.
    CheckpointCommitted(CheckpointInfo),
    /// A checkpoint could not be written; training goes on.
    CheckpointFailed {
        /// Step it would have held.
        step: Step,
        /// Why.
        reason: String,
    },
    /// A checkpoint was removed by the keep-policy.
    CheckpointRemoved {
        /// Its step.
        step: Step,
    },
    /// A checkpoint did not verify and was put aside.
    CheckpointRejected {
        /// Directory name.
        checkpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Early stopping or a `best` checkpoint saw a better value.
    Improved {
        /// Step.
        step: Step,
        /// Metric, e.g. `validation/loss`.
        metric: String,
        /// Its value.
        value: f64,
    },
    /// Most memory the worker has held so far.
    MemoryMeasured {
        /// Worker.
        rank: Rank,
        /// Bytes of its process at the peak.
        peak_bytes: u64,
    },
    /// Something a person should know; nothing stops.
    Warned {
        /// What.
        message: String,
    },
    /// Something failed.
    FaultRaised {
        /// All that is known.
        fault: Fault,
    },
}

/// Parts of a recovery, in seconds, one after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecoveryTiming {
    /// From the last sign of life of the lost worker until its loss was noticed.
    pub detect: f64,
    /// Until all workers of the new group were there, replacements included.
    pub regroup: f64,
    /// Until all of them held the same state.
    pub transfer: f64,
    /// Until the first step was finished.
    pub first_step: f64,
}

/// Where the time of a step went, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Waiting for the batch.
    pub data: f64,
    /// Forward passes of all shards.
    pub forward: f64,
    /// Backward passes of all shards.
    pub backward: f64,
    /// Summing gradients.
    pub reduce: f64,
    /// Clipping and update.
    pub optimizer: f64,
    /// Copying state for a checkpoint.
    pub checkpoint: f64,
}

/// One optimiser step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Finished steps, this one included.
    pub step: Step,
    /// Epoch it belongs to.
    pub epoch: Epoch,
    /// Samples in its global batch.
    pub samples: u64,
    /// Tokens in its global batch; 0 where there are none.
    pub tokens: u64,
    /// Mean loss of the batch, before the update.
    #[serde(deserialize_with = "null_is_nan")]
    pub loss: f64,
    /// Learning rate of the update.
    #[serde(deserialize_with = "null_is_nan")]
    pub learning_rate: f64,
    /// Global norm of the gradient, before clipping.
    #[serde(deserialize_with = "null_is_nan")]
    pub gradient_norm: f64,
    /// Wall time from step boundary to step boundary, seconds.
    #[serde(deserialize_with = "null_is_nan")]
    pub seconds: f64,
    /// Where it went.
    pub phases: Phases,
    /// Other training metrics by name, e.g. `accuracy`.
    pub metrics: BTreeMap<String, f64>,
}

/// A committed checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointInfo {
    /// Finished steps it holds.
    pub step: Step,
    /// Directory name below `checkpoints/`.
    pub directory: String,
    /// Bytes of all its files.
    pub bytes: u64,
    /// SHA-256 of `model.safetensors`.
    pub model_sha256: String,
    /// Value of the metric that `best` goes by, if it was measured at or before this step.
    pub metric: Option<f64>,
    /// Seconds that training stood still for it.
    pub blocked_seconds: f64,
    /// Seconds until it was on disk.
    pub write_seconds: f64,
}

/// One layer as `trainer model` and the record show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerSummary {
    /// Name, e.g. `blocks.0.attention.query`.
    pub name: String,
    /// Kind, e.g. `Linear(256 -> 10)`.
    pub kind: String,
    /// Output shape without the batch dimension.
    pub output: Vec<u64>,
    /// Trainable parameters.
    pub parameters: u64,
}

/// One part of the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartSummary {
    /// `train`, `valid` or `test`.
    pub split: String,
    /// Samples.
    pub samples: u64,
    /// Samples by class, in class order; empty where there are no classes.
    pub classes: Vec<ClassCount>,
}

/// Samples of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCount {
    /// Name of the class.
    pub class: String,
    /// Samples.
    pub count: u64,
}

/// What the data are, on one screen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataSummary {
    /// `table`, `images` or `text`.
    pub kind: String,
    /// SHA-256 over content, splits and preparation: the same fingerprint means the same samples.
    pub fingerprint: String,
    /// Parts.
    pub parts: Vec<PartSummary>,
    /// Facts in order, label and value: columns with their roles, image size, vocabulary…
    pub facts: Vec<(String, String)>,
    /// What looks wrong but does not stop the run: leakage, empty classes, constant columns…
    pub warnings: Vec<String>,
    /// Seconds it took to read and prepare.
    pub seconds: f64,
}

/// JSON has no word for a number that is none; it is written as `null`, and read back as NaN.
fn null_is_nan<'de, D: serde::Deserializer<'de>>(value: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(value)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_without_a_number_can_still_be_read() {
        let report = StepReport {
            step: Step::new(1),
            epoch: Epoch::new(0),
            samples: 1,
            tokens: 0,
            loss: f64::NAN,
            learning_rate: 0.1,
            gradient_norm: f64::INFINITY,
            seconds: 0.1,
            phases: Phases::default(),
            metrics: BTreeMap::new(),
        };
        let text = serde_json::to_string(&Event::StepFinished(report)).unwrap();
        let Event::StepFinished(back) = serde_json::from_str(&text).unwrap() else {
            panic!("{text}");
        };
        assert!(back.loss.is_nan() && back.gradient_norm.is_nan());
        assert_eq!(back.step, Step::new(1));
    }
}
