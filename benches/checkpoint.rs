//! How fast checkpoints are written and hashed, verified, and loaded.
//!
//! Writing includes the wait for the disk, so it says as much about the machine as about us.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

use std::collections::BTreeMap;
use std::path::Path;

use divan::Bencher;
use divan::counter::BytesCount;
use trainer::checkpoint::{STATE_VERSION, Snapshot, TensorBytes, TrainState, Writer, load, verify};
use trainer::config::{Checkpoint, Every, Goal, Keep};
use trainer::run::{Epoch, Step};

/// Floats per tensor.
const TENSOR_FLOATS: usize = 1 << 20;

/// Megabytes (2^20) of all tensors.
const SIZES: [usize; 2] = [16, 256];

fn main() {
    divan::main();
}

/// A third of it is the model, the rest the state of an optimiser with two moments.
fn snapshot(megabytes: usize, step: u64) -> Snapshot {
    let values: Vec<f32> = (0u16..=u16::MAX)
        .cycle()
        .take(TENSOR_FLOATS)
        .map(|i| f32::from(i).sin())
        .collect();
    let tensors = |name: &str, count: usize| -> Vec<TensorBytes> {
        (0..count)
            .map(|i| TensorBytes::from_f32(format!("{name}.{i}"), vec![TENSOR_FLOATS], &values))
            .collect()
    };
    let count = megabytes.div_ceil(4);
    let step = Step::new(step);
    Snapshot {
        step,
        model: tensors("model", count / 3),
        optimizer: tensors("moment", count - count / 3),
        state: TrainState {
            version: STATE_VERSION,
            step,
            epoch: Epoch::new(0),
            samples_seen: 0,
            config_sha256: String::new(),
            data_fingerprint: String::new(),
            early_stopping: None,
            best: None,
            last_metrics: BTreeMap::new(),
            ended: false,
            told: Vec::new(),
        },
        metric: None,
    }
}

fn config() -> Checkpoint {
    Checkpoint {
        every: Every::Never,
        keep: Keep {
            latest: 1,
            best: 0,
            every: 0,
        },
        metric: "validation/loss".into(),
        goal: Goal::Min,
    }
}

fn put(dir: &Path, snapshot: Snapshot) {
    let mut writer = Writer::start(dir.to_path_buf(), &config());
    writer.submit(snapshot, 0.0);
    let events = writer.finish();
    assert!(!events.is_empty());
}

fn run_write(bencher: Bencher<'_, '_>, megabytes: usize, dir: &Path) {
    let mut step = 0;
    bencher
        .counter(BytesCount::new(megabytes << 20))
        .with_inputs(|| {
            step += 1;
            snapshot(megabytes, step)
        })
        .bench_local_values(|snapshot| put(dir, snapshot));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn write_to_disk(bencher: Bencher<'_, '_>, megabytes: usize) {
    let dir = tempfile::tempdir().unwrap();
    run_write(bencher, megabytes, dir.path());
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn write_to_memory(bencher: Bencher<'_, '_>, megabytes: usize) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    run_write(bencher, megabytes, dir.path());
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn verify_cached(bencher: Bencher<'_, '_>, megabytes: usize) {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), snapshot(megabytes, 1));
    let path = dir.path().join("step-00000001");
    bencher
        .counter(BytesCount::new(megabytes << 20))
        .bench_local(|| verify(&path).unwrap());
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn load_cached(bencher: Bencher<'_, '_>, megabytes: usize) {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), snapshot(megabytes, 1));
    let path = dir.path().join("step-00000001");
    bencher
        .counter(BytesCount::new(megabytes << 20))
        .bench_local(|| load(&path).unwrap());
}
