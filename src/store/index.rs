//! The index `index/` (sled): metric values by split, name and step, so that a query of one metric
//! does not read a long journal.
//!
//! A value of sled holds a stretch of steps of one metric under the first of them: an insertion costs
//! the same for one number as for hundreds.
//!
//! It holds nothing that the journal does not. When it is missing, behind, damaged or locked by
//! another process, it is rebuilt or passed by; no trouble with it ever reaches a run or a query.
//!
//! sled answers damage by errors and, now and then, by a panic. All calls go through [`guarded`],
//! which runs them on a thread of a known name and turns a panic into an error.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

use super::StoreError;
use super::history::{MetricRow, history};
use crate::run::{RunDir, Step};

/// Layout of the keys; an index of another layout is rebuilt.
const INDEX_FORMAT: u64 = 2;

/// Bytes of a step and its value.
const POINT_BYTES: usize = 16;

/// Bytes that sled may hold in memory.
const CACHE_BYTES: u64 = 8 << 20;

/// Rows that are written at once.
const BATCH_ROWS: usize = 4096;

const META_TREE: &[u8] = b"meta";
const META_FORMAT: &[u8] = b"format";
const META_JOURNAL_BYTES: &[u8] = b"journal_bytes";

/// Name of the threads on which sled runs.
pub(super) const THREAD_NAME: &str = "trainer-index";

/// Why an index cannot be used; the journal always can.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    /// sled says so.
    #[error("the index cannot be used: {0}")]
    Sled(#[from] sled::Error),
    /// sled panicked.
    #[error("the index is damaged: {0}")]
    Panicked(String),
    /// It holds what no version of this program writes.
    #[error("the index holds an unreadable key or value")]
    Garbled,
    /// The journal it follows cannot be read, or a folder not be removed.
    #[error("the index cannot be built: {0}")]
    Build(String),
}

/// An open index.
#[derive(Debug)]
pub(crate) struct Index {
    db: sled::Db,
    meta: sled::Tree,
}

impl Index {
    /// Opens the index of a run, or makes an empty one. Call it under [`guarded`].
    pub(crate) fn open(dir: &RunDir) -> Result<Self, IndexError> {
        let db = sled::Config::new()
            .path(dir.index())
            .cache_capacity(CACHE_BYTES)
            // Nothing is lost with an index: it need not reach the disk at any time.
            .flush_every_ms(None)
            .open()?;
        let meta = db.open_tree(META_TREE)?;
        Ok(Self { db, meta })
    }

    /// Removes what is there and makes an empty index. Call it under [`guarded`].
    pub(super) fn empty(dir: &RunDir) -> Result<Self, IndexError> {
        remove(dir)?;
        Self::open(dir)
    }

    /// Opens an index that holds the journal up to `journal_bytes`; anything else is thrown away and
    /// built anew from the journal. Call it under [`guarded`], as the only process that does.
    pub(crate) fn open_or_rebuild(dir: &RunDir, journal_bytes: u64) -> Result<Self, IndexError> {
        match Self::open(dir) {
            Ok(index) if index.follows(journal_bytes).unwrap_or(false) => return Ok(index),
            // Another process has it: not ours to remove.
            Err(IndexError::Sled(sled::Error::Io(error))) if is_locked(&error) => {
                return Err(IndexError::Sled(sled::Error::Io(error)));
            }
            // Behind or damaged.
            _ => {}
        }
        Self::rebuild(dir, journal_bytes)
    }

    /// Removes the index of a run and builds it from the journal. Call it under [`guarded`].
    pub(crate) fn rebuild(dir: &RunDir, journal_bytes: u64) -> Result<Self, IndexError> {
        let index = Self::empty(dir)?;
        let mut rows = Vec::with_capacity(BATCH_ROWS);
        let mut failed = None;
        history(dir, |row| {
            rows.push(row);
            if rows.len() == BATCH_ROWS
                && let Err(error) = index.insert(&rows)
            {
                failed.get_or_insert(error);
            }
            if rows.len() == BATCH_ROWS {
                rows.clear();
            }
        })
        .map_err(|error| IndexError::Build(error.to_string()))?;
        if let Some(error) = failed {
            return Err(error);
        }
        index.insert(&rows)?;
        index.mark(journal_bytes)?;
        Ok(index)
    }

    /// Whether the index holds exactly the first `journal_bytes` bytes of the journal.
    pub(crate) fn follows(&self, journal_bytes: u64) -> Result<bool, IndexError> {
        let holds = |key, value: u64| -> Result<bool, IndexError> {
            Ok(self
                .meta
                .get(key)?
                .is_some_and(|found| found == value.to_be_bytes()))
        };
        Ok(holds(META_FORMAT, INDEX_FORMAT)? && holds(META_JOURNAL_BYTES, journal_bytes)?)
    }

    /// Adds or replaces values. The index follows no journal until [`Index::mark`].
    pub(crate) fn insert(&self, rows: &[MetricRow]) -> Result<(), IndexError> {
        self.meta.remove(META_JOURNAL_BYTES)?;
        let mut stretches: BTreeMap<(&str, &str), Vec<(Step, f64)>> = BTreeMap::new();
        for row in rows {
            let stretch = stretches.entry((&row.split, &row.name)).or_default();
            stretch.push((row.step, row.value));
        }
        let mut batch = sled::Batch::default();
        for ((split, name), points) in stretches {
            let Some((first, _)) = points.first() else {
                continue;
            };
            let key = key(split, name, *first);
            // A stretch that begins with the same step: the newer values come behind and count.
            let mut bytes = self.db.get(&key)?.map_or_else(Vec::new, |old| old.to_vec());
            bytes.extend(pack(&points));
            batch.insert(key, bytes);
        }
        Ok(self.db.apply_batch(batch)?)
    }

    /// Removes the values of all steps after `step`: a later attempt computes them again.
    pub(crate) fn truncate(&self, step: Step) -> Result<(), IndexError> {
        self.meta.remove(META_JOURNAL_BYTES)?;
        for found in self.db.iter() {
            let (key, value) = found?;
            let mut points = unpack(&value).ok_or(IndexError::Garbled)?;
            let before = points.len();
            points.retain(|(at, _)| *at <= step);
            if points.is_empty() {
                self.db.remove(&key)?;
            } else if points.len() < before {
                self.db.insert(&key, pack(&points))?;
            }
        }
        Ok(())
    }

    /// Notes that the index holds the journal up to `journal_bytes`, and writes it out.
    pub(crate) fn mark(&self, journal_bytes: u64) -> Result<(), IndexError> {
        self.meta.insert(META_FORMAT, &INDEX_FORMAT.to_be_bytes())?;
        self.meta
            .insert(META_JOURNAL_BYTES, &journal_bytes.to_be_bytes())?;
        self.db.flush()?;
        Ok(())
    }

    /// The values of one metric, or of all, by split, name and step.
    pub(crate) fn rows(
        &self,
        split: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<MetricRow>, IndexError> {
        let mut prefix = Vec::new();
        if let Some(split) = split {
            prefix.extend_from_slice(split.as_bytes());
            prefix.push(0);
            if let Some(name) = name {
                prefix.extend_from_slice(name.as_bytes());
                prefix.push(0);
            }
        }
        let mut rows: BTreeMap<(String, String, Step), f64> = BTreeMap::new();
        for found in self.db.scan_prefix(prefix) {
            let (key, value) = found?;
            let (split, found_name, _) = parse(&key).ok_or(IndexError::Garbled)?;
            if name.is_some_and(|name| name != found_name) {
                continue;
            }
            for (step, value) in unpack(&value).ok_or(IndexError::Garbled)? {
                rows.insert((split.to_string(), found_name.to_string(), step), value);
            }
        }
        let row = |((split, name, step), value)| MetricRow {
            step,
            split,
            name,
            value,
        };
        Ok(rows.into_iter().map(row).collect())
    }
}

/// sled may wrap a refused lock in an error of its own without a kind.
fn is_locked(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::WouldBlock
        || error.to_string().contains("could not acquire lock")
}

fn remove(dir: &RunDir) -> Result<(), IndexError> {
    match fs::remove_dir_all(dir.index()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        // A file in its place, for instance.
        Err(_) => fs::remove_file(dir.index())
            .map_err(|error| IndexError::Build(format!("cannot remove the old one: {error}"))),
    }
}

/// A stretch of one metric as bytes.
fn pack(points: &[(Step, f64)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(points.len() * POINT_BYTES);
    for (step, value) in points {
        bytes.extend_from_slice(&step.get().to_be_bytes());
        bytes.extend_from_slice(&value.to_be_bytes());
    }
    bytes
}

fn unpack(bytes: &[u8]) -> Option<Vec<(Step, f64)>> {
    let (points, rest) = bytes.as_chunks::<POINT_BYTES>();
    let point = |point: &[u8; POINT_BYTES]| {
        let (step, value) = point.split_first_chunk::<8>()?;
        let value = f64::from_be_bytes(value.try_into().ok()?);
        Some((Step::new(u64::from_be_bytes(*step)), value))
    };
    if points.is_empty() || !rest.is_empty() {
        return None;
    }
    points.iter().map(point).collect()
}

/// Split and name end in a zero byte; the step is big-endian, so keys sort by it.
fn key(split: &str, name: &str, step: Step) -> Vec<u8> {
    let mut key = Vec::with_capacity(split.len() + name.len() + 10);
    key.extend_from_slice(split.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key.push(0);
    key.extend_from_slice(&step.get().to_be_bytes());
    key
}

fn parse(key: &[u8]) -> Option<(&str, &str, Step)> {
    let (names, step) = key.split_last_chunk::<8>()?;
    let mut parts = names.split(|&byte| byte == 0);
    let split = std::str::from_utf8(parts.next()?).ok()?;
    let name = std::str::from_utf8(parts.next()?).ok()?;
    let ends = parts.next()?.is_empty() && parts.next().is_none();
    ends.then(|| (split, name, Step::new(u64::from_be_bytes(*step))))
}

/// Runs `work` on a thread of its own; a panic becomes an error and prints nothing.
pub(crate) fn guarded<T: Send>(
    work: impl FnOnce() -> Result<T, IndexError> + Send,
) -> Result<T, IndexError> {
    silence();
    let outcome = thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name(THREAD_NAME.to_string())
            .spawn_scoped(scope, || panic::catch_unwind(AssertUnwindSafe(work)));
        thread.map(thread::ScopedJoinHandle::join)
    });
    match outcome {
        Ok(Ok(Ok(result))) => result,
        Ok(Ok(Err(panic)) | Err(panic)) => Err(IndexError::Panicked(text(panic.as_ref()))),
        Err(error) => Err(IndexError::Build(format!("no thread: {error}"))),
    }
}

/// Keeps panics of sled off the terminal: they are expected on damaged files and handled.
pub(super) fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let thread = thread::current();
            let ours = thread
                .name()
                .is_some_and(|name| name == THREAD_NAME || name.starts_with("sled"));
            if !ours {
                before(info);
            }
        }));
    });
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
        .to_string()
}

impl From<StoreError> for IndexError {
    fn from(error: StoreError) -> Self {
        IndexError::Build(error.to_string())
    }
}

#[cfg(test)]
#[path = "index/tests.rs"]
mod tests;
