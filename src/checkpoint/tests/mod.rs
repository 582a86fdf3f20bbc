//! Tests of checkpoints as a whole: written, cut, flipped, crashed, replaced, full disks.

mod crash;
mod damage;
mod faulty;
mod hostile;
mod races;
mod space;
mod writer;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::disk::{Disk, Local};
use super::write::Committer;
use super::{
    EarlyStoppingMemory, STATE_VERSION, Snapshot, TensorBytes, TrainState, list, load, verify,
};
use crate::config::{Checkpoint, Every, Goal, Keep};
use crate::run::{Best, Epoch, Event, Step};

/// A small but complete snapshot; `variant` changes the weights.
pub(super) fn snapshot(step: u64, variant: u8) -> Snapshot {
    let value = f32::from(variant);
    let step = Step::new(step);
    Snapshot {
        step,
        model: vec![
            TensorBytes::from_f32("z.weight", vec![2, 3], &[value, 1.0, -0.0, 0.5, 2.0, 3.0]),
            TensorBytes::from_f32("a.bias", vec![3], &[value; 3]),
        ],
        optimizer: vec![
            TensorBytes::from_f32("moment", vec![9], &[0.25; 9]),
            TensorBytes::from_i64("time", vec![], &[7]),
        ],
        state: TrainState {
            version: STATE_VERSION,
            step,
            epoch: Epoch::new(2),
            samples_seen: 640,
            config_sha256: "c0".repeat(32),
            data_fingerprint: "da".repeat(32),
            early_stopping: Some(EarlyStoppingMemory {
                best: Some(0.5),
                best_step: step,
                bad: 1,
            }),
            best: Some(Best {
                metric: "validation/loss".into(),
                value: 0.5,
                step,
            }),
            last_metrics: BTreeMap::from([("validation/loss".into(), 0.625)]),
            ended: false,
            told: Vec::new(),
        },
        metric: Some(0.625),
    }
}

/// As it comes back: tensors in the order of the file.
fn in_file_order(mut snapshot: Snapshot) -> Snapshot {
    for tensors in [&mut snapshot.model, &mut snapshot.optimizer] {
        tensors.sort_by(|a, b| {
            let size = b.dtype.bytes().cmp(&a.dtype.bytes());
            size.then_with(|| a.name.cmp(&b.name))
        });
    }
    snapshot
}

fn committer(dir: &Path, disk: Box<dyn Disk>) -> Committer {
    Committer {
        dir: dir.to_path_buf(),
        disk,
        keep: Keep {
            latest: 100,
            best: 0,
            every: 0,
        },
        goal: Goal::Min,
        pid: std::process::id(),
    }
}

fn config(latest: u32, best: u32, every: u64) -> Checkpoint {
    Checkpoint {
        every: Every::Never,
        keep: Keep {
            latest,
            best,
            every,
        },
        metric: "validation/loss".into(),
        goal: Goal::Min,
    }
}

/// A folder for tests that write hundreds of checkpoints: in memory where there is a memory disk,
/// because there a sync costs nothing.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Writes a checkpoint to the real disk.
fn put(dir: &Path, snapshot: &Snapshot) {
    committer(dir, Box::new(Local)).write(snapshot).unwrap();
}

/// Sorted names in a folder.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Events without what differs from run to run.
fn said(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            Event::CheckpointCommitted(info) => format!("committed {}", info.step),
            Event::CheckpointFailed { step, .. } => format!("failed {step}"),
            Event::CheckpointRemoved { step } => format!("removed {step}"),
            other => format!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_snapshot_comes_back_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let written = snapshot(12, 3);
    put(dir.path(), &written);
    assert_eq!(names(dir.path()), ["step-00000012"]);
    let path = dir.path().join("step-00000012");
    assert_eq!(
        names(&path),
        [
            "MANIFEST.json",
            "model.safetensors",
            "optimizer.safetensors",
            "state.json"
        ]
    );
    assert_eq!(load(&path).unwrap(), in_file_order(written));
    let listed = list(dir.path()).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        listed[0].info.as_ref().unwrap(),
        &verify(&path).unwrap(),
        "listing says what verification says"
    );
    let bytes: u64 = names(&path)
        .iter()
        .map(|name| fs::metadata(path.join(name)).unwrap().len())
        .sum();
    assert_eq!(listed[0].info.as_ref().unwrap().bytes, bytes);
}

#[test]
fn the_same_snapshot_gives_the_same_bytes() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut shuffled = snapshot(12, 3);
    put(one.path(), &shuffled);
    shuffled.model.reverse();
    shuffled.optimizer.reverse();
    put(two.path(), &shuffled);
    for file in names(&one.path().join("step-00000012")) {
        let read = |dir: &Path| fs::read(dir.join("step-00000012").join(&file)).unwrap();
        assert_eq!(read(one.path()), read(two.path()), "{file}");
    }
}

#[test]
fn other_programs_can_read_the_tensors() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &snapshot(12, 3));
    let bytes = fs::read(dir.path().join("step-00000012/model.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let weight = file.tensor("z.weight").unwrap();
    assert_eq!(weight.shape(), [2, 3]);
    assert_eq!(weight.dtype(), safetensors::Dtype::F32);
    assert_eq!(weight.data()[..4], 3.0f32.to_le_bytes());
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["format"], "pt");
}

#[test]
fn an_optimizer_without_memory_is_an_empty_file_of_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let mut bare = snapshot(1, 1);
    bare.optimizer.clear();
    bare.model
        .push(TensorBytes::from_f32("empty", vec![0, 4], &[]));
    put(dir.path(), &bare);
    let back = load(&dir.path().join("step-00000001")).unwrap();
    assert!(back.optimizer.is_empty());
    assert_eq!(back.model.len(), 3);
}
