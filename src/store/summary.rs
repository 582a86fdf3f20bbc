//! The cached summary `summary.json`, so that a list of runs does not read their journals.
//!
//! The cache says how long the journal was when it was made. A journal of that length needs no
//! reading; of a longer one only the rest is read; anything else makes the cache void.

use std::fs;

use serde::{Deserialize, Serialize};

use super::{Entries, Fold, Folded, StoreError, file};
use crate::run::{RunDir, RunState, RunSummary};

/// Format of the cache; others are void.
const CACHE_FORMAT: u32 = 1;

/// Content of `summary.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Cache {
    format: u32,
    journal_bytes: u64,
    summary: RunSummary,
}

/// Where a summary came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cache, as it was.
    Cache,
    /// The cache and the rest of the journal.
    CacheAndTail,
    /// The whole journal.
    Journal,
}

/// The summary of a run as its journal has it. See [`observed`] for a run that died.
///
/// # Errors
///
/// When there is no readable journal.
pub fn summary(dir: &RunDir) -> Result<RunSummary, StoreError> {
    summary_from(dir).map(|(summary, _)| summary)
}

/// Like [`summary`], with where it came from.
///
/// # Errors
///
/// When there is no readable journal.
pub fn summary_from(dir: &RunDir) -> Result<(RunSummary, Source), StoreError> {
    if let Some(found) = cached(dir) {
        return Ok(found);
    }
    let (fold, _) = Fold::of(dir)?;
    match fold.summary() {
        Some(summary) => Ok((summary.clone(), Source::Journal)),
        None => Err(StoreError::NotARun {
            path: dir.root().to_path_buf(),
            missing: "events.jsonl",
        }),
    }
}

/// Nothing when there is no cache, it is void, or the rest of the journal supersedes a part of it.
fn cached(dir: &RunDir) -> Option<(RunSummary, Source)> {
    let cache: Cache = serde_json::from_slice(&file::read_small(&dir.summary()).ok()?).ok()?;
    let journal_bytes = fs::metadata(dir.journal()).ok()?.len();
    // A renamed directory only costs its cache; a cache that was copied along must not be believed.
    let foreign = cache.summary.name != super::runs::shown_name(dir);
    if cache.format != CACHE_FORMAT || foreign || journal_bytes < cache.journal_bytes {
        return None;
    }
    if journal_bytes == cache.journal_bytes {
        return Some((cache.summary, Source::Cache));
    }
    let expected = cache.summary.entries;
    let mut fold = Fold::from_summary(cache.summary);
    for (index, entry) in (0u64..).zip(Entries::open_at(dir, cache.journal_bytes).ok()?) {
        let entry = entry.ok()?;
        // The first one must follow what the cache knows: else the cache is of another history.
        let follows = entry.seq == expected + index;
        if !follows || fold.take(&entry) == Folded::Superseded {
            return None;
        }
    }
    Some((fold.summary()?.clone(), Source::CacheAndTail))
}

/// Writes the cache for a journal of `journal_bytes` bytes. Only the run's supervisor does.
///
/// # Errors
///
/// When the run directory cannot be written; nothing is lost then but time.
pub fn write_summary(
    dir: &RunDir,
    summary: &RunSummary,
    journal_bytes: u64,
) -> Result<(), StoreError> {
    let cache = Cache {
        format: CACHE_FORMAT,
        journal_bytes,
        summary: summary.clone(),
    };
    let text = serde_json::to_vec(&cache).map_err(|error| StoreError::Damaged {
        path: dir.summary(),
        what: error.to_string(),
    })?;
    file::replace(&dir.summary(), &text, false)
}

/// What an onlooker should see of a run: one that is live by its journal, but has no supervisor,
/// failed without a last word.
#[must_use]
pub fn observed(mut summary: RunSummary, alive: bool) -> RunSummary {
    if summary.state.is_live() && !alive {
        summary.state = RunState::Failed;
        summary.reason = FOUND_DEAD.to_string();
    }
    summary
}

/// Reason shown and journaled for a run whose supervisor is gone without a last word.
pub const FOUND_DEAD: &str = "the supervisor is gone without a last word (killed, or the machine \
     went down); `trainer resume` continues from the newest checkpoint";

#[cfg(test)]
#[path = "summary/tests.rs"]
mod tests;
