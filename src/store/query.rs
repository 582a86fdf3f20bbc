//! Metric queries.

use std::collections::BTreeMap;
use std::fs;

use super::history::{MetricRow, history};
use super::index::{Index, IndexError, guarded};
use super::{StoreError, is_alive};
use crate::run::{RunDir, Step};

/// Journals below this length are read faster than an index is opened.
const INDEX_WORTH_BYTES: u64 = 4 << 20;

/// Which values are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricQuery {
    /// Only this split.
    pub split: Option<String>,
    /// Only this metric.
    pub name: Option<String>,
    /// Only steps from here on.
    pub from: Option<Step>,
}

/// The metric values of a run's surviving history, by step, then split, then name; one value each.
///
/// # Errors
///
/// When there is no readable journal.
pub fn metrics(dir: &RunDir, query: &MetricQuery) -> Result<Vec<MetricRow>, StoreError> {
    let path = dir.journal();
    let bytes = fs::metadata(&path)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => StoreError::NotARun {
                path: dir.root().to_path_buf(),
                missing: "events.jsonl",
            },
            _ => StoreError::io("read", &path)(error),
        })?
        .len();
    // The supervisor of a live run has the index locked, and is ahead of it anyway.
    let indexed = if bytes >= INDEX_WORTH_BYTES && !is_alive(dir) {
        from_index(dir, query, bytes).ok()
    } else {
        None
    };
    let mut rows = match indexed {
        Some(rows) => rows,
        None => from_journal(dir, query)?,
    };
    rows.retain(|row| query.from.is_none_or(|from| row.step >= from));
    rows.sort_by(|a, b| (a.step, &a.split, &a.name).cmp(&(b.step, &b.split, &b.name)));
    Ok(rows)
}

pub(super) fn from_index(
    dir: &RunDir,
    query: &MetricQuery,
    journal_bytes: u64,
) -> Result<Vec<MetricRow>, IndexError> {
    let read = |index: &Index| index.rows(query.split.as_deref(), query.name.as_deref());
    let first = guarded(|| read(&Index::open_or_rebuild(dir, journal_bytes)?));
    match first {
        // Damage that shows only when a page is read.
        Err(IndexError::Panicked(_) | IndexError::Garbled) => {
            guarded(|| read(&Index::rebuild(dir, journal_bytes)?))
        }
        other => other,
    }
}

fn from_journal(dir: &RunDir, query: &MetricQuery) -> Result<Vec<MetricRow>, StoreError> {
    let mut values = BTreeMap::new();
    history(dir, |row| {
        let wanted = query.split.as_ref().is_none_or(|split| *split == row.split)
            && query.name.as_ref().is_none_or(|name| *name == row.name);
        if wanted {
            values.insert((row.split, row.name, row.step), row.value);
        }
    })?;
    Ok(values
        .into_iter()
        .map(|((split, name, step), value)| MetricRow {
            step,
            split,
            name,
            value,
        })
        .collect())
}
