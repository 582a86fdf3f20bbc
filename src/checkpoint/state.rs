//! What a training run has to remember beside its tensors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use super::TensorBytes;
use crate::run::{Best, Epoch, Event, Step};

/// Version of `state.json`. A newer one is refused: dropping what we do not know would change the
/// run. Fields that are added later get a default and a higher version.
pub const STATE_VERSION: u32 = 2;

/// What a training run has to remember beside its tensors. There is no generator state and no
/// position in the data: both follow from `step`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainState {
    /// [`STATE_VERSION`] of the writer.
    pub version: u32,
    /// Finished steps.
    pub step: Step,
    /// Epoch of the next step.
    pub epoch: Epoch,
    /// Samples seen so far, over all epochs.
    pub samples_seen: u64,
    /// SHA-256 of the resolved config.
    pub config_sha256: String,
    /// Fingerprint of the data.
    pub data_fingerprint: String,
    /// Memory of early stopping; absent where it is not configured.
    #[serde(serialize_with = "finite_memory")]
    pub early_stopping: Option<EarlyStoppingMemory>,
    /// Best value of the metric that checkpoints go by, if one was measured.
    #[serde(serialize_with = "finite_best")]
    pub best: Option<Best>,
    /// Last evaluation by full name, e.g. `validation/loss`. Values that are not finite are not
    /// written.
    #[serde(serialize_with = "finite_values")]
    pub last_metrics: BTreeMap<String, f64>,
    /// Whether training had reached its end (length or early stopping) at this step.
    pub ended: bool,
    /// What was told of this step. The journal may lack it: the supervisor can be killed between the
    /// checkpoint and its entry. Since version 2.
    #[serde(default)]
    pub told: Vec<Event>,
}

/// What early stopping remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyStoppingMemory {
    /// Best value so far.
    pub best: Option<f64>,
    /// Step it was measured at.
    pub best_step: Step,
    /// Evaluations since then without improvement.
    pub bad: u32,
}

/// A training run at one step, whole: what a checkpoint holds. It owns its bytes, so nothing that
/// training does later can change it.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Finished steps; the same as in `state`.
    pub step: Step,
    /// Parameters and buffers.
    pub model: Vec<TensorBytes>,
    /// State of the optimiser; empty for one without memory.
    pub optimizer: Vec<TensorBytes>,
    /// The rest.
    pub state: TrainState,
    /// Value of the metric that `best` goes by, if it was measured at or before this step.
    pub metric: Option<f64>,
}

// JSON has no word for NaN or infinity: they would be written as `null` and the checkpoint could
// not be read again. None of the three places means anything when it is not finite.

#[expect(clippy::ref_option, reason = "serde hands over the field as it is")]
fn finite_memory<S: Serializer>(
    memory: &Option<EarlyStoppingMemory>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let memory = memory.clone().map(|memory| EarlyStoppingMemory {
        best: memory.best.filter(|value| value.is_finite()),
        ..memory
    });
    memory.serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde hands over the field as it is")]
fn finite_best<S: Serializer>(best: &Option<Best>, serializer: S) -> Result<S::Ok, S::Error> {
    let best = best.as_ref().filter(|best| best.value.is_finite());
    best.serialize(serializer)
}

fn finite_values<S: Serializer>(
    values: &BTreeMap<String, f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().filter(|(_, value)| value.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> TrainState {
        TrainState {
            version: STATE_VERSION,
            step: Step::new(7),
            epoch: Epoch::new(1),
            samples_seen: 448,
            config_sha256: "c".into(),
            data_fingerprint: "d".into(),
            early_stopping: Some(EarlyStoppingMemory {
                best: Some(0.1 + 0.2),
                best_step: Step::new(4),
                bad: 2,
            }),
            best: Some(Best {
                metric: "validation/loss".into(),
                value: 1e-310,
                step: Step::new(4),
            }),
            last_metrics: BTreeMap::from([("validation/loss".into(), 1.0 / 3.0)]),
            ended: false,
            told: vec![Event::Improved {
                step: Step::new(7),
                metric: "validation/loss".into(),
                value: 0.1 + 0.2,
            }],
        }
    }

    #[test]
    fn state_survives_the_file_bit_for_bit() {
        let text = serde_json::to_string(&state()).unwrap();
        assert_eq!(serde_json::from_str::<TrainState>(&text).unwrap(), state());
    }

    #[test]
    fn values_that_are_not_numbers_do_not_spoil_the_file() {
        let mut odd = state();
        odd.last_metrics.insert("validation/auroc".into(), f64::NAN);
        odd.best.as_mut().unwrap().value = f64::INFINITY;
        odd.early_stopping.as_mut().unwrap().best = Some(f64::NAN);
        let text = serde_json::to_string(&odd).unwrap();
        let back: TrainState = serde_json::from_str(&text).unwrap();
        assert_eq!(back.last_metrics, state().last_metrics);
        assert_eq!(back.best, None);
        assert_eq!(back.early_stopping.unwrap().best, None);
    }

    #[test]
    fn unknown_and_missing_fields_are_refused() {
        let mut json = serde_json::to_value(state()).unwrap();
        json["surprise"] = 1.into();
        assert!(serde_json::from_value::<TrainState>(json).is_err());
        let mut json = serde_json::to_value(state()).unwrap();
        json.as_object_mut().unwrap().remove("samples_seen");
        assert!(serde_json::from_value::<TrainState>(json).is_err());
    }
}
