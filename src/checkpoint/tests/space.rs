//! A disk that is really full.

use std::process::Command;

use super::super::disk::{Disk, Local};
use super::super::{newest_good, verify};
use super::faulty::{Faulty, Trouble};
use super::{committer, names, put, said, snapshot};
use crate::run::Event;

/// A snapshot of about 600 kB.
fn large(step: u64) -> super::Snapshot {
    let mut large = snapshot(step, 1);
    let values = vec![1.5; 150_000];
    large.model.push(super::TensorBytes::from_f32(
        "large",
        vec![150_000],
        &values,
    ));
    large
}

#[test]
fn a_full_disk_is_known_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &snapshot(10, 1));
    let disk = Faulty::new(usize::MAX, Trouble::Kill).with_free(500_000);
    let events = committer(dir.path(), Box::new(disk.clone())).commit(&large(20), 0.0);
    match events.as_slice() {
        [Event::CheckpointFailed { reason, .. }] => {
            assert!(reason.contains("500000 are free"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!disk.log().iter().any(|line| line.starts_with("create")));
    assert_eq!(names(dir.path()), ["step-00000010"]);
}

/// Mounts a small memory disk and unmounts it again.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(bytes: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(dir.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self { dir })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.dir.path()).output();
    }
}

#[test]
fn a_disk_that_gets_full_keeps_the_old_checkpoint() {
    let Some(disk) = SmallDisk::mount(1 << 20) else {
        println!("SKIPPED: mounting a memory disk needs rights that this process lacks");
        return;
    };
    let dir = disk.dir.path().join("checkpoints");
    for silent in [false, true] {
        let disk = || -> Box<dyn Disk> {
            if silent {
                // One that does not say how full it is.
                Box::new(Faulty::new(usize::MAX, Trouble::Kill))
            } else {
                Box::new(Local)
            }
        };
        let events = committer(&dir, disk()).commit(&large(10), 0.0);
        assert_eq!(said(&events), ["committed 10"]);
        let events = committer(&dir, disk()).commit(&large(20), 0.0);
        match events.as_slice() {
            [Event::CheckpointFailed { reason, .. }] => {
                let expected = if silent { "No space left" } else { "are free" };
                assert!(reason.contains(expected), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(names(&dir), ["step-00000010"]);
        verify(&dir.join("step-00000010")).unwrap();
        // A small one still fits: training went on, and so do checkpoints.
        let events = committer(&dir, disk()).commit(&snapshot(30, 1), 0.0);
        assert_eq!(said(&events), ["committed 30"]);
        let (found, rejected) = newest_good(&dir).unwrap();
        assert_eq!(found.unwrap().0, "step-00000030");
        assert_eq!(rejected, []);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
