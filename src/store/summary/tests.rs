//! Tests of the cached summary.

use super::*;
use crate::run::{Attempt, Event};
use crate::store::{Journal, sample};

fn cache(dir: &RunDir) -> RunSummary {
    let fresh = summary(dir).unwrap();
    write_summary(dir, &fresh, fs::metadata(dir.journal()).unwrap().len()).unwrap();
    fresh
}

fn append(dir: &RunDir, event: Event) {
    let mut journal = Journal::open(dir).unwrap().journal;
    journal.append(event, Attempt::new(2)).unwrap();
    assert!(journal.flush().is_empty());
}

#[test]
fn a_cache_of_the_right_length_is_used_without_reading_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::finished_in(folder.path(), "a-00000001", 3);
    let fresh = cache(&dir);
    let bytes = fs::metadata(dir.journal()).unwrap().len();
    // Unreadable, but as long: whoever read it would fail.
    fs::write(dir.journal(), vec![b'x'; usize::try_from(bytes).unwrap()]).unwrap();
    assert_eq!(summary_from(&dir).unwrap(), (fresh, Source::Cache));
}

#[test]
fn a_longer_journal_costs_only_its_tail() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::finished_in(folder.path(), "a-00000001", 3);
    cache(&dir);
    append(&dir, sample::began(3));
    append(&dir, sample::step(4, 0.0));
    let (tail, source) = summary_from(&dir).unwrap();
    assert_eq!(source, Source::CacheAndTail);
    fs::remove_file(dir.summary()).unwrap();
    assert_eq!((tail, Source::Journal), summary_from(&dir).unwrap());
}

#[test]
fn a_cache_that_does_not_fit_is_void() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::finished_in(folder.path(), "a-00000001", 9);
    let other = sample::finished_in(folder.path(), "b-00000002", 3);
    let truth = summary(&dir).unwrap();
    let source = || summary_from(&dir).unwrap();

    cache(&other);
    fs::copy(other.summary(), dir.summary()).unwrap();
    assert_eq!(
        source(),
        (truth.clone(), Source::Journal),
        "another run's cache"
    );

    for damage in ["", "{", "null", "{\"format\":9}"] {
        fs::write(dir.summary(), damage).unwrap();
        assert_eq!(source(), (truth.clone(), Source::Journal), "{damage}");
    }

    cache(&dir);
    append(&dir, sample::began(4));
    let (superseded, from) = source();
    assert_eq!(
        from,
        Source::Journal,
        "the tail takes back what the cache holds"
    );
    assert_eq!(superseded.metrics["train"]["loss"].step.get(), 4);
}

#[test]
fn a_run_without_supervisor_is_seen_as_failed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = sample::run_in(folder.path(), "a-00000001", &[(1, sample::began(0))]);
    let journaled = summary(&dir).unwrap();
    assert_eq!(observed(journaled.clone(), true), journaled);
    assert_eq!(observed(journaled, false).state, RunState::Failed);
}
