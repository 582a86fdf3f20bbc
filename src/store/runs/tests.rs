//! Tests of the folder of runs.

use super::*;
use crate::store::{Lock, sample, write_summary};
use std::fs;

fn found(runs: &Runs, text: &str) -> String {
    shown_name(&runs.find(text).unwrap())
}

#[test]
fn a_run_is_found_by_all_its_names() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "digits-aaaa1111",
        "digits-bbbb2222",
        "adult-income-cccc3333",
    ] {
        sample::finished_in(folder.path(), name, 1);
    }
    fs::create_dir(folder.path().join("no-run")).unwrap();
    fs::create_dir(folder.path().join(".half-made")).unwrap();
    let runs = Runs::open(folder.path());
    assert_eq!(found(&runs, "digits-aaaa1111"), "digits-aaaa1111");
    assert_eq!(found(&runs, "adult"), "adult-income-cccc3333");
    assert_eq!(found(&runs, "bbbb"), "digits-bbbb2222");
    assert_eq!(found(&runs, "bbbb2222"), "digits-bbbb2222");
    assert_eq!(found(&runs, "latest"), "adult-income-cccc3333");
    let path = folder.path().join("digits-aaaa1111");
    assert_eq!(found(&runs, path.to_str().unwrap()), "digits-aaaa1111");
    let id = identity(&RunDir::new(path)).unwrap().id.to_string();
    assert_eq!(found(&runs, &id), "digits-aaaa1111");
    assert_eq!(runs.complete("dig"), ["digits-aaaa1111", "digits-bbbb2222"]);
    match runs.find("digits") {
        Err(StoreError::Ambiguous { candidates, .. }) => {
            assert_eq!(candidates, ["digits-aaaa1111", "digits-bbbb2222"]);
        }
        other => panic!("{other:?}"),
    }
    match runs.find("adlut") {
        Err(StoreError::NotFound { nearest, .. }) => {
            assert_eq!(nearest.as_deref(), Some("adult-income-cccc3333"));
        }
        other => panic!("{other:?}"),
    }
    assert!(runs.find("").is_err());
    assert!(runs.find("../etc").is_err());
}

#[test]
fn a_folder_that_is_not_there_has_no_runs() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::open(folder.path().join("none"));
    assert!(runs.list().unwrap().is_empty());
    assert!(runs.find("latest").is_err());
}

#[test]
fn a_thousand_finished_runs_are_listed_from_their_caches() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..1_000 {
        let dir = sample::finished_in(folder.path(), &format!("run-{number:08x}"), 2);
        let summary = crate::store::summary(&dir).unwrap();
        let bytes = fs::metadata(dir.journal()).unwrap().len();
        write_summary(&dir, &summary, bytes).unwrap();
        // Unreadable but as long: a listing that opened it would show an error.
        fs::write(dir.journal(), vec![b'x'; usize::try_from(bytes).unwrap()]).unwrap();
    }
    let listed = Runs::open(folder.path()).list().unwrap();
    assert_eq!(listed.len(), 1_000);
    assert!(
        listed
            .iter()
            .all(|run| run.source == Some(Source::Cache) && !run.alive)
    );
}

#[test]
fn live_dead_and_broken_runs_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let live = sample::run_in(folder.path(), "live-00000001", &[(1, sample::began(0))]);
    sample::run_in(folder.path(), "dead-00000002", &[(1, sample::began(0))]);
    let broken = sample::run_in(folder.path(), "broken-00000003", &[]);
    fs::write(broken.journal(), "garbage\n").unwrap();
    let _lock = Lock::take(&live).unwrap();
    let listed = Runs::open(folder.path()).list().unwrap();
    let by_name = |name: &str| {
        listed
            .iter()
            .find(|run| run.name.starts_with(name))
            .unwrap()
    };
    assert!(by_name("live").alive);
    assert!(by_name("live").summary.as_ref().unwrap().state.is_live());
    assert!(!by_name("dead").alive);
    assert_eq!(
        by_name("dead").summary.as_ref().unwrap().state,
        crate::run::RunState::Failed
    );
    assert!(by_name("broken").summary.is_err());
}
