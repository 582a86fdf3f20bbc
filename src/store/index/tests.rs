//! Tests of the index.

use super::*;
use crate::run::{Attempt, Event};
use crate::store::{Entries, Feed, sample};
use proptest::prelude::*;

fn bytes(dir: &RunDir) -> u64 {
    fs::metadata(dir.journal()).unwrap().len()
}

fn truth(dir: &RunDir) -> Vec<MetricRow> {
    let mut rows = std::collections::BTreeMap::new();
    history(dir, |row| {
        rows.insert((row.split.clone(), row.name.clone(), row.step), row);
    })
    .unwrap();
    rows.into_values().collect()
}

fn indexed(dir: &RunDir) -> Vec<MetricRow> {
    guarded(|| Index::open_or_rebuild(dir, bytes(dir))?.rows(None, None)).unwrap()
}

fn two_attempts() -> Vec<(u32, Event)> {
    let mut events = vec![(1, sample::began(0))];
    events.extend((1..=40).map(|at| (1, sample::step(at, 0.0))));
    events.push((1, sample::evaluated(40, 0.4)));
    events.push((2, sample::began(25)));
    events.extend((26..=60).map(|at| (2, sample::step(at, 0.0))));
    events.push((2, sample::evaluated(60, 0.2)));
    events
}

#[test]
fn a_missing_index_is_rebuilt_from_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::run_in(folder.path(), "a-00000001", &two_attempts());
    let expected = truth(&dir);
    assert_eq!(indexed(&dir), expected);
    fs::remove_dir_all(dir.index()).unwrap();
    assert_eq!(indexed(&dir), expected);
    let loss = guarded(|| Index::open(&dir)?.rows(Some("train"), Some("loss"))).unwrap();
    assert_eq!(loss.len(), 60);
    assert!(loss.is_sorted_by_key(|row| row.step));
}

#[test]
fn an_index_that_is_behind_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::run_in(folder.path(), "a-00000001", &two_attempts());
    indexed(&dir);
    let mut journal = crate::store::Journal::open(&dir).unwrap().journal;
    journal.append(sample::step(61, 0.0), Attempt::new(2));
    journal.flush();
    assert_eq!(indexed(&dir), truth(&dir));
}

#[test]
fn a_locked_index_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::run_in(folder.path(), "a-00000001", &two_attempts());
    let held = Index::open_or_rebuild(&dir, bytes(&dir)).unwrap();
    // The same process may not open it twice either.
    assert!(guarded(|| Index::open_or_rebuild(&dir, bytes(&dir)).map(drop)).is_err());
    assert_eq!(held.rows(None, None).unwrap(), truth(&dir));
}

#[test]
fn feeding_gives_what_rebuilding_gives() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::run_in(folder.path(), "a-00000001", &two_attempts());
    let mut feed = Feed::start(&dir, 0);
    for entry in Entries::open(&dir).unwrap() {
        feed.take(&entry.unwrap());
    }
    feed.finish(bytes(&dir));
    let fed = guarded(|| {
        let index = Index::open(&dir)?;
        assert!(index.follows(bytes(&dir))?);
        index.rows(None, None)
    });
    assert_eq!(fed.unwrap(), truth(&dir));
}

#[test]
fn a_feed_that_cannot_write_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::run_in(folder.path(), "a-00000001", &two_attempts());
    let _held = Index::open(&dir).unwrap();
    let mut feed = Feed::start(&dir, 1);
    for entry in Entries::open(&dir).unwrap() {
        feed.take(&entry.unwrap());
    }
    feed.finish(bytes(&dir));
}

/// All files below a folder.
fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn random_damage_loses_nothing(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 1..64),
        cut in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let dir = sample::run_in(folder.path(), "a-00000001", &two_attempts());
        indexed(&dir);
        let files = files(&dir.index());
        let file = which.get(&files);
        let mut content = fs::read(file).unwrap();
        if content.is_empty() {
            content.push(0);
        }
        let at = at.index(content.len());
        if cut {
            content.truncate(at);
        } else {
            for (offset, byte) in noise.iter().enumerate() {
                if let Some(place) = content.get_mut(at + offset) {
                    *place = *byte;
                }
            }
        }
        fs::write(file, content).unwrap();
        // What a query does, whatever the length of the journal.
        let rows = crate::store::query::from_index(&dir, &crate::store::MetricQuery::default(), bytes(&dir));
        let rows = rows.unwrap_or_else(|_| truth(&dir));
        prop_assert_eq!(rows, truth(&dir));
    }
}
