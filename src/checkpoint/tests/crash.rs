//! Crashes and errors at every single operation on the disk.

use std::path::Path;

use super::super::disk::Local;
use super::super::recover::clean;
use super::super::write::Committer;
use super::super::{Snapshot, Writer, newest_good};
use super::faulty::{Faulty, Trouble};
use super::{committer, in_file_order, names, put, said, scratch, snapshot};
use crate::config::Keep;

/// What a commit starts from, and what it does.
#[derive(Clone, Copy, Debug)]
struct Scene {
    /// Step and variant of the checkpoint that is written; step 10 variant 1 is there already.
    step: u64,
    variant: u8,
    /// Whether the file system can exchange names.
    exchanges: bool,
}

const SCENES: [Scene; 4] = [
    Scene {
        step: 20,
        variant: 2,
        exchanges: true,
    },
    Scene {
        step: 10,
        variant: 2,
        exchanges: true,
    },
    Scene {
        step: 10,
        variant: 2,
        exchanges: false,
    },
    Scene {
        step: 10,
        variant: 1,
        exchanges: true,
    },
];

impl Scene {
    fn disk(self, at: usize, trouble: Trouble) -> Faulty {
        let disk = Faulty::new(at, trouble);
        if self.exchanges {
            disk
        } else {
            disk.without_exchange()
        }
    }

    fn before() -> Snapshot {
        snapshot(10, 1)
    }

    fn after(self) -> Snapshot {
        snapshot(self.step, self.variant)
    }

    /// Keeps one checkpoint, so that the old one is removed.
    fn committer(dir: &Path, disk: Faulty) -> Committer {
        Committer {
            keep: Keep {
                latest: 1,
                best: 0,
                every: 0,
            },
            ..committer(dir, Box::new(disk))
        }
    }

    /// How many operations an undisturbed commit takes.
    fn operations(self) -> usize {
        let dir = scratch();
        put(dir.path(), &Self::before());
        let disk = self.disk(usize::MAX, Trouble::Kill);
        let events = Self::committer(dir.path(), disk.clone()).commit(&self.after(), 0.0);
        assert_eq!(said(&events)[0], format!("committed {}", self.step));
        assert_eq!(names(dir.path()).len(), 1);
        disk.operations()
    }
}

/// What must hold after any crash: the newest good checkpoint is the old or the new one, whole;
/// starting again leaves no leftovers; nothing was rejected.
fn assert_recovers(dir: &Path, scene: Scene, context: &str) -> bool {
    clean(dir, &Local, std::process::id());
    let (found, rejected) = newest_good(dir).unwrap();
    assert_eq!(rejected, [], "{context}");
    let (_, found) = found.unwrap_or_else(|| panic!("{context}: nothing is left"));
    let (before, after) = (in_file_order(Scene::before()), in_file_order(scene.after()));
    assert!(found == before || found == after, "{context}");
    for name in names(dir) {
        assert!(name.starts_with("step-"), "{context}: {name} is left");
    }
    found == after
}

#[test]
fn a_crash_at_any_operation_leaves_a_whole_checkpoint() {
    for trouble in [Trouble::Kill, Trouble::PowerLoss] {
        for scene in SCENES {
            let mut new = 0;
            let operations = scene.operations();
            assert!(operations >= 15, "{scene:?} has {operations}");
            for at in 0..operations {
                let dir = scratch();
                put(dir.path(), &Scene::before());
                let disk = scene.disk(at, trouble);
                Scene::committer(dir.path(), disk.clone()).commit(&scene.after(), 0.0);
                let context = format!("{scene:?} {trouble:?} at {at}: {:?}", disk.log());
                new += usize::from(assert_recovers(dir.path(), scene, &context));
            }
            // Early crashes leave the old one, late ones the new one.
            assert!(new > 0, "{scene:?}");
        }
    }
}

#[test]
fn a_crash_before_the_first_checkpoint_leaves_none() {
    let dir = scratch();
    let disk = Faulty::new(8, Trouble::Kill);
    committer(dir.path(), Box::new(disk)).commit(&snapshot(1, 1), 0.0);
    assert_eq!(names(dir.path()).len(), 1, "the half one is there");
    let (found, rejected) = newest_good(dir.path()).unwrap();
    assert!(found.is_none() && rejected.is_empty());
}

#[test]
fn an_error_leaves_nothing_and_the_next_checkpoint_is_written() {
    for error in [libc::ENOSPC, libc::EIO, libc::EDQUOT] {
        for trouble in [Trouble::Once(error), Trouble::FromHere(error)] {
            for scene in SCENES {
                for at in 0..scene.operations() {
                    let dir = scratch();
                    put(dir.path(), &Scene::before());
                    let disk = scene.disk(at, trouble);
                    let events =
                        Scene::committer(dir.path(), disk.clone()).commit(&scene.after(), 0.0);
                    let context = format!("{scene:?} {trouble:?} at {at}: {:?}", disk.log());
                    assert!(!events.is_empty(), "{context}");
                    assert_recovers(dir.path(), scene, &context);
                    let events = Scene::committer(dir.path(), Faulty::new(usize::MAX, trouble))
                        .commit(&snapshot(30, 3), 0.0);
                    assert_eq!(said(&events)[0], "committed 30", "{context}");
                }
            }
        }
    }
}

#[test]
fn a_failed_checkpoint_leaves_nothing_at_once() {
    // While files are written, which is where a disk gets full.
    let before = |log: &[String]| log.iter().position(|line| line.starts_with("rename"));
    let dir = scratch();
    let disk = Faulty::new(usize::MAX, Trouble::Kill);
    committer(dir.path(), Box::new(disk.clone())).commit(&snapshot(10, 1), 0.0);
    let renamed = before(&disk.log()).unwrap();
    for at in 0..renamed {
        let disk = Faulty::new(at, Trouble::FromHere(libc::ENOSPC));
        let events = committer(dir.path(), Box::new(disk)).commit(&snapshot(20, 1), 0.0);
        if said(&events) == ["failed 20"] {
            assert_eq!(names(dir.path()), ["step-00000010"], "at {at}");
        } else {
            // Removing a leftover that is not there is the one operation that may not fail.
            panic!("at {at}: {events:?}");
        }
    }
}

#[test]
fn the_order_is_files_manifest_folder_name() {
    let dir = scratch();
    let disk = Faulty::new(usize::MAX, Trouble::Kill);
    committer(dir.path(), Box::new(disk.clone()))
        .write(&snapshot(10, 1))
        .unwrap();
    let pid = std::process::id().to_string();
    let folder = dir
        .path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_string();
    let log: Vec<String> = disk
        .log()
        .iter()
        .map(|line| line.replace(&pid, "PID").replace(&folder, "checkpoints"))
        .filter(|line| !line.starts_with("append"))
        .collect();
    insta::assert_snapshot!(log.join("\n"));
}

#[test]
fn leftovers_go_and_strangers_stay() {
    let dir = scratch();
    put(dir.path(), &snapshot(10, 1));
    // A process that is certainly gone: a child that was waited for.
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let gone = child.id();
    child.wait().unwrap();
    for (name, stays) in [
        (format!(".tmp-step-00000020-{gone}"), false),
        (format!(".trash-step-00000005-{gone}"), false),
        (format!(".old-step-00000010-{gone}"), false),
        // Process 1 is alive.
        (".tmp-step-00000020-1".into(), true),
        (".tmp-mine".into(), true),
        (".tmp-step-20-1".into(), true),
        ("notes".into(), true),
        ("rejected-step-00000003".into(), true),
    ] {
        let path = dir.path().join(&name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("file"), "x").unwrap();
        drop(Writer::start(dir.path().into(), &super::config(1, 0, 0)));
        assert_eq!(path.exists(), stays, "{name}");
    }
    // What was being replaced comes back when the new content did not make it.
    let old = dir.path().join(format!(".old-step-00000010-{gone}"));
    std::fs::rename(dir.path().join("step-00000010"), &old).unwrap();
    drop(Writer::start(dir.path().into(), &super::config(1, 0, 0)));
    let (found, _) = newest_good(dir.path()).unwrap();
    assert_eq!(found.unwrap().0, "step-00000010");
}
