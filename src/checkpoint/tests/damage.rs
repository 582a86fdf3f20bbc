//! Every kind of damage is noticed, named, and put aside.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::super::{
    CheckpointError, list, load, newest_good, newest_verified, supersede_after, verify,
};
use super::{in_file_order, names, put, scratch, snapshot};
use crate::run::{Fault, FaultClass, Step};

const FILES: [&str; 4] = [
    "MANIFEST.json",
    "model.safetensors",
    "optimizer.safetensors",
    "state.json",
];

/// Two checkpoints; the path of the newer one.
fn two(dir: &Path) -> PathBuf {
    put(dir, &snapshot(10, 1));
    put(dir, &snapshot(20, 2));
    dir.join("step-00000020")
}

/// The newest is damaged in `file`: loading says so, and recovery takes the one before.
fn assert_passed_over(dir: &Path, file: &str) {
    let path = dir.join("step-00000020");
    for result in [load(&path).map(|_| ()), verify(&path).map(|_| ())] {
        match result {
            Err(CheckpointError::Damaged {
                file: found, step, ..
            }) => {
                assert_eq!(found, file);
                assert_eq!(step, Some(Step::new(20)));
            }
            other => panic!("{file}: {other:?}"),
        }
    }
    let (found, rejected) = newest_good(dir).unwrap();
    let (name, found) = found.unwrap();
    assert_eq!(name, "step-00000010");
    assert_eq!(found, in_file_order(snapshot(10, 1)));
    assert_eq!(rejected.len(), 1);
    assert_eq!(rejected[0].0, "step-00000020");
    assert!(rejected[0].1.contains(file), "{}", rejected[0].1);
    assert_eq!(names(dir), ["rejected-step-00000020", "step-00000010"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_flipped_bit_is_noticed(
        file in 0usize..4, place in any::<prop::sample::Index>(), bit in 0u8..8
    ) {
        let dir = scratch();
        let path = two(dir.path()).join(FILES[file]);
        let mut bytes = fs::read(&path).unwrap();
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        fs::write(&path, bytes).unwrap();
        let result = load(path.parent().unwrap());
        // A flip in the number of the format can make it a later one: also refused, by name.
        let refused = matches!(
            result,
            Err(CheckpointError::Damaged { .. } | CheckpointError::Newer { .. })
        );
        prop_assert!(refused, "{result:?}");
    }

    #[test]
    fn every_cut_and_every_addition_is_noticed(
        file in 0usize..4, length in any::<prop::sample::Index>(), longer in 0usize..3
    ) {
        let dir = scratch();
        let path = two(dir.path()).join(FILES[file]);
        let bytes = fs::read(&path).unwrap().len();
        let length = if longer > 0 { bytes + longer } else { length.index(bytes) };
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length as u64).unwrap();
        let result = load(path.parent().unwrap());
        prop_assert!(matches!(result, Err(CheckpointError::Damaged { .. })), "{result:?}");
    }
}

#[test]
fn flips_cuts_and_gaps_are_passed_over() {
    for file in FILES {
        let dir = scratch();
        fs::remove_file(two(dir.path()).join(file)).unwrap();
        assert_passed_over(dir.path(), file);

        let dir = scratch();
        fs::write(two(dir.path()).join(file), "").unwrap();
        assert_passed_over(dir.path(), file);

        let dir = scratch();
        let path = two(dir.path()).join(file);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_passed_over(dir.path(), file);

        // A link to the right content is no file of this checkpoint.
        let dir = scratch();
        let path = two(dir.path()).join(file);
        fs::rename(&path, dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", &path).unwrap();
        fs::rename(dir.path().join("elsewhere"), path.with_extension("away")).unwrap();
        assert!(load(path.parent().unwrap()).is_err());
    }
}

#[test]
fn pipes_do_not_block() {
    for file in FILES {
        let dir = scratch();
        let path = two(dir.path()).join(file);
        fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_passed_over(dir.path(), file);
    }
}

#[test]
fn a_file_in_the_place_of_the_folder_is_damage() {
    let dir = scratch();
    let path = two(dir.path());
    fs::remove_dir_all(&path).unwrap();
    fs::write(&path, "x").unwrap();
    assert_passed_over(dir.path(), ".");
}

#[test]
fn extra_files_change_nothing() {
    let dir = scratch();
    let path = two(dir.path());
    fs::write(path.join("notes.txt"), "mine").unwrap();
    fs::write(path.join("model-2.safetensors"), "x").unwrap();
    assert_eq!(load(&path).unwrap(), in_file_order(snapshot(20, 2)));
    let (found, rejected) = newest_good(dir.path()).unwrap();
    assert_eq!(found.unwrap().0, "step-00000020");
    assert_eq!(rejected, []);
}

#[test]
fn a_checkpoint_under_another_steps_name_is_damage() {
    let dir = scratch();
    let path = two(dir.path());
    fs::rename(&path, dir.path().join("step-00000030")).unwrap();
    let (found, rejected) = newest_good(dir.path()).unwrap();
    assert_eq!(found.unwrap().0, "step-00000010");
    assert!(rejected[0].1.contains("manifest of step 20"));
    // Under a name that says no step it can be used.
    let aside = dir.path().join("rejected-step-00000030");
    assert_eq!(load(&aside).unwrap().step, Step::new(20));
}

#[test]
fn files_of_two_checkpoints_do_not_mix() {
    for file in FILES {
        let dir = scratch();
        let path = two(dir.path());
        fs::copy(dir.path().join("step-00000010").join(file), path.join(file)).unwrap();
        let same = file == "optimizer.safetensors";
        assert_eq!(load(&path).is_ok(), same, "{file}");
    }
}

#[test]
fn all_damaged_ones_are_put_aside_under_free_names() {
    let dir = scratch();
    for round in 0..3 {
        for step in [10, 20] {
            put(dir.path(), &snapshot(step, 1));
            let manifest = dir.path().join(format!("step-{step:08}/MANIFEST.json"));
            fs::remove_file(manifest).unwrap();
        }
        let (found, rejected) = newest_verified(dir.path()).unwrap();
        assert!(found.is_none());
        assert_eq!(rejected.len(), 2);
        assert_eq!(names(dir.path()).len(), 2 * (round + 1));
    }
    assert!(names(dir.path()).contains(&"rejected-step-00000020-3".to_string()));
}

#[test]
fn a_later_format_is_refused_and_left_alone() {
    let dir = scratch();
    let path = two(dir.path());
    fs::write(path.join("MANIFEST.json"), r#"{"format": 2, "new": true}"#).unwrap();
    let error = newest_good(dir.path()).unwrap_err();
    assert!(matches!(error, CheckpointError::Newer { found: 2, .. }));
    assert_eq!(Fault::from(error).class, FaultClass::Damaged);
    assert_eq!(names(dir.path()), ["step-00000010", "step-00000020"]);
}

#[test]
fn what_is_not_there_is_not_damage() {
    let dir = scratch();
    let nowhere = dir.path().join("nowhere");
    assert!(matches!(
        load(&nowhere),
        Err(CheckpointError::NotFound { .. })
    ));
    assert!(list(&nowhere).unwrap().is_empty());
    let (found, rejected) = newest_good(&nowhere).unwrap();
    assert!(found.is_none() && rejected.is_empty());
    assert_eq!(
        Fault::from(load(&nowhere).unwrap_err()).class,
        FaultClass::Usage
    );
}

#[test]
fn a_list_shows_what_cannot_be_read() {
    let dir = scratch();
    let path = two(dir.path());
    fs::write(path.join("MANIFEST.json"), "junk").unwrap();
    let listed = list(dir.path()).unwrap();
    let steps: Vec<u64> = listed.iter().map(|l| l.step.get()).collect();
    assert_eq!(steps, [10, 20]);
    assert!(listed[0].info.is_ok());
    assert!(listed[1].info.as_ref().unwrap_err().is_damage());
}

#[test]
fn a_history_that_was_left_is_not_found_again() {
    let dir = scratch();
    two(dir.path());
    put(dir.path(), &snapshot(30, 1));
    let gone = supersede_after(dir.path(), Step::new(10)).unwrap();
    assert_eq!(gone, ["step-00000020", "step-00000030"]);
    let (found, _) = newest_good(dir.path()).unwrap();
    assert_eq!(found.unwrap().0, "step-00000010");
    assert!(names(dir.path()).contains(&"superseded-step-00000030".to_string()));
}
