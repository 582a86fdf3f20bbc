//! A reader beside a writer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::super::disk::Local;
use super::super::{CheckpointError, list, load, verify};
use super::{committer, in_file_order, put, snapshot};

#[test]
fn a_reader_always_sees_one_whole_checkpoint_while_it_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &snapshot(10, 1));
    let path = dir.path().join("step-00000010");
    let done = AtomicBool::new(false);
    let (one, two) = (
        in_file_order(snapshot(10, 1)),
        in_file_order(snapshot(10, 2)),
    );
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = [0, 0];
            while !done.load(Ordering::Relaxed) {
                let loaded = load(&path).unwrap();
                assert!(loaded == one || loaded == two);
                seen[usize::from(loaded == two)] += 1;
                verify(&path).unwrap();
            }
            seen
        });
        let writer = committer(dir.path(), Box::new(Local));
        for round in 0..60 {
            writer.write(&snapshot(10, 1 + (round + 1) % 2)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        let seen = reader.join().unwrap();
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    });
}

#[test]
fn a_list_beside_the_keep_policy_never_shows_damage() {
    let dir = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for listed in list(dir.path()).unwrap() {
                    if let Err(error) = load(&dir.path().join(&listed.directory)) {
                        assert!(
                            matches!(error, CheckpointError::NotFound { .. }),
                            "{error:?}"
                        );
                    }
                }
            }
        });
        let mut writer = committer(dir.path(), Box::new(Local));
        writer.keep.latest = 2;
        for step in 1..60 {
            writer.commit(&snapshot(step, 1), 0.0);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(list(dir.path()).unwrap().len(), 2);
}
