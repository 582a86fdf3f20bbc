//! The writer as training uses it.

use std::fs;

use proptest::prelude::*;

use super::super::{Writer, load};
use super::faulty::{Faulty, Trouble};
use super::{config, in_file_order, names, put, said, snapshot};
use crate::run::{Event, Step};

#[test]
fn checkpoints_are_written_and_the_policy_applied() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("not/there/yet");
    let mut writer = Writer::start(dir.clone(), &config(1, 1, 30));
    assert!(writer.poll().is_empty());
    let mut events = Vec::new();
    for (step, metric) in [(10, 0.9), (20, 0.1), (30, 0.5), (40, 0.6), (50, 0.7)] {
        let mut snapshot = snapshot(step, 1);
        snapshot.metric = Some(metric);
        writer.submit(snapshot, 0.25);
        events.extend(writer.poll());
    }
    events.extend(writer.finish());
    assert_eq!(
        said(&events),
        [
            "committed 10",
            "committed 20",
            "removed 10",
            "committed 30",
            "committed 40",
            "committed 50",
            "removed 40"
        ]
    );
    assert_eq!(
        names(&dir),
        ["step-00000020", "step-00000030", "step-00000050"]
    );
    match &events[0] {
        Event::CheckpointCommitted(info) => {
            assert_eq!(info.directory, "step-00000010");
            assert_eq!(info.metric, Some(0.9));
            assert!(info.blocked_seconds >= 0.25 && info.write_seconds > 0.0);
            assert_eq!(info.model_sha256.len(), 64);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_policy_knows_checkpoints_of_earlier_attempts() {
    let dir = tempfile::tempdir().unwrap();
    for (step, metric) in [(10, 0.1), (20, 0.9)] {
        let mut snapshot = snapshot(step, 1);
        snapshot.metric = Some(metric);
        put(dir.path(), &snapshot);
    }
    fs::create_dir(dir.path().join("step-00000015")).unwrap();
    let mut writer = Writer::start(dir.path().into(), &config(1, 1, 0));
    writer.submit(snapshot(30, 1), 0.0);
    assert_eq!(said(&writer.finish()), ["committed 30", "removed 20"]);
    // What has no manifest is not ours to remove.
    assert_eq!(
        names(dir.path()),
        ["step-00000010", "step-00000015", "step-00000030"]
    );
}

#[test]
fn a_step_that_is_done_again_is_kept_or_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("step-00000010");
    put(dir.path(), &snapshot(10, 1));
    let inode = || {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(&path).unwrap().ino()
    };
    let first = inode();

    let mut writer = Writer::start(dir.path().into(), &config(9, 0, 0));
    writer.submit(snapshot(10, 1), 0.0);
    writer.submit(snapshot(10, 1), 0.0);
    assert_eq!(said(&writer.finish()), ["committed 10", "committed 10"]);
    assert_eq!(inode(), first, "the same content stays");

    let mut writer = Writer::start(dir.path().into(), &config(9, 0, 0));
    writer.submit(snapshot(10, 2), 0.0);
    assert_eq!(said(&writer.finish()), ["committed 10"]);
    assert_eq!(load(&path).unwrap(), in_file_order(snapshot(10, 2)));
    assert_ne!(inode(), first, "other content is replaced");

    // Damaged content under a manifest that says the same is replaced too.
    fs::write(path.join("model.safetensors"), "junk").unwrap();
    put(dir.path(), &snapshot(10, 2));
    assert_eq!(load(&path).unwrap(), in_file_order(snapshot(10, 2)));
    assert_eq!(names(dir.path()), ["step-00000010"]);
}

#[test]
fn training_goes_on_after_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Faulty::new(5, Trouble::Once(libc::ENOSPC));
    let mut writer = Writer::on(Box::new(disk), dir.path().into(), &config(9, 0, 0));
    writer.submit(snapshot(10, 1), 0.0);
    writer.submit(snapshot(20, 1), 0.0);
    let events = writer.finish();
    assert_eq!(said(&events), ["failed 10", "committed 20"]);
    match &events[0] {
        Event::CheckpointFailed { step, reason } => {
            assert_eq!(*step, Step::new(10));
            assert!(reason.contains("No space left on device"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_a_failure_not_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let mut writer = Writer::start(dir.path().join("file/checkpoints"), &config(1, 0, 0));
    writer.submit(snapshot(10, 1), 0.0);
    assert_eq!(said(&writer.finish()), ["failed 10"]);
}

#[test]
fn snapshots_that_contradict_themselves_are_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut wrong_step = snapshot(10, 1);
    wrong_step.state.step = Step::new(11);
    let mut wrong_size = snapshot(10, 1);
    wrong_size.model[0].bytes.pop();
    let mut twice = snapshot(10, 1);
    twice.model[1].name = "z.weight".into();
    let mut reserved = snapshot(10, 1);
    reserved.optimizer[0].name = "__metadata__".into();
    for snapshot in [wrong_step, wrong_size, twice, reserved] {
        let mut writer = Writer::start(dir.path().into(), &config(1, 0, 0));
        writer.submit(snapshot, 0.0);
        assert_eq!(said(&writer.finish()), ["failed 10"]);
    }
    assert_eq!(names(dir.path()), [] as [&str; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn tensors_of_any_kind_come_back(
        tensors in prop::collection::btree_map("[a-z.\"\\\\\u{e9}]{0,8}", (0usize..5, prop::collection::vec(0usize..4, 0..4)), 0..6)
    ) {
        use super::super::{DType, TensorBytes};
        let dtypes = [DType::F32, DType::F16, DType::BF16, DType::I64, DType::U8];
        let tensors: Vec<TensorBytes> = tensors.into_iter().map(|(name, (dtype, shape))| {
            let mut tensor = TensorBytes { name, dtype: dtypes[dtype], shape, bytes: vec![] };
            let length = tensor.expected_bytes().unwrap();
            tensor.bytes = (0..=250).cycle().take(length).collect();
            tensor
        }).collect();
        let dir = tempfile::tempdir().unwrap();
        let mut written = snapshot(1, 1);
        written.model = tensors;
        put(dir.path(), &written);
        let mut back = load(&dir.path().join("step-00000001")).unwrap().model;
        back.sort_by(|a, b| a.name.cmp(&b.name));
        prop_assert_eq!(back, written.model);
    }
}
