//! The journal `events.jsonl`: the truth about a run, one JSON object per line.
//!
//! Entries are numbered without gaps. They reach the kernel before anybody acts on them or is shown
//! them, so a killed process loses none; they reach the disk at once where that matters and within a
//! second otherwise. A disk that is full or broken does not stop training: entries wait in memory,
//! are tried again, and an alarm is raised.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Entries, Fold, StoreError};
use crate::run::{Attempt, Entry, Event, RunDir};

/// Newest journal format that this version writes and reads.
pub const JOURNAL_FORMAT: u32 = 1;

/// Longest time that a step's entry may wait for the disk.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Time between attempts to write to a disk that refused.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Unwritten bytes above which reports of steps are left out. State changes, evaluations and
/// checkpoints are always kept: they are few.
const WAITING_BYTES_MAX: usize = 32 << 20;

/// Where the bytes of a journal go; a trait so that tests can have a full disk.
pub(crate) trait Sink {
    /// Writes some of `bytes` at the end.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Waits until all written bytes are on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl Sink for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The writing side of a journal. There is one, in the supervisor.
#[derive(Debug)]
pub struct Journal {
    core: Core<File>,
}

/// What was found when a journal was opened again.
#[derive(Debug)]
pub struct Reopened {
    /// The journal, repaired.
    pub journal: Journal,
    /// Its entries, folded.
    pub fold: Fold,
    /// What had to be repaired, in words; to be recorded as a warning.
    pub notes: Vec<String>,
}

impl Journal {
    /// Starts the journal of a new run.
    ///
    /// # Errors
    ///
    /// When the file exists or cannot be made.
    pub fn create(dir: &RunDir) -> Result<Self, StoreError> {
        let path = dir.journal();
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(StoreError::io("create", &path))?;
        Ok(Self {
            core: Core::new(file, path, 0, 0),
        })
    }

    /// Tells the journal that its run directory has another name now; for messages.
    pub fn renamed(&mut self, dir: &RunDir) {
        self.core.path = dir.journal();
    }

    /// Opens a journal to go on with it. A last line that a crash cut, or filled with garbage, is
    /// removed; everything before it stays as it is.
    ///
    /// # Errors
    ///
    /// When there is no journal, it is of a newer format, or it does not say which run it is of.
    pub fn open(dir: &RunDir) -> Result<Reopened, StoreError> {
        let path = dir.journal();
        let (fold, place) = Fold::of(dir)?;
        let mut file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(StoreError::io("open", &path))?;
        let mut notes = Vec::new();
        if place.offset > place.good_end {
            file.set_len(place.good_end)
                .map_err(StoreError::io("repair", &path))?;
            notes.push(format!(
                "the last {} bytes of the journal were cut or garbled by a crash and were removed",
                place.offset - place.good_end
            ));
        }
        let mut bytes = place.good_end;
        if place.open_line {
            file.write_all(b"\n")
                .map_err(StoreError::io("repair", &path))?;
            bytes += 1;
        }
        if place.damaged > 0 {
            notes.push(format!(
                "{} lines in the middle of the journal are unreadable; they were left in place",
                place.damaged
            ));
        }
        Ok(Reopened {
            journal: Self {
                core: Core::new(file, path, place.next_seq, bytes),
            },
            fold,
            notes,
        })
    }

    /// Adds an event. It is in memory until [`Journal::flush`]. `None` when the disk has refused for
    /// so long that this report of a step is left out.
    pub fn append(&mut self, event: Event, attempt: Attempt) -> Option<Entry> {
        self.core.append(event, attempt)
    }

    /// Hands what was appended to the kernel, which a kill of this process cannot undo. Cheap when
    /// there is nothing. Returns what a person should know, to be appended as warnings.
    pub fn flush(&mut self) -> Vec<String> {
        self.core.flush(Instant::now())
    }

    /// Waits for the disk if something urgent was written, or the last time is a second ago.
    /// Returns what a person should know, to be appended as warnings.
    pub fn sync_if_due(&mut self) -> Vec<String> {
        self.core.sync_if_due(Instant::now())
    }

    /// Waits for the disk.
    ///
    /// # Errors
    ///
    /// When entries are still unwritten or the disk reports an error.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.core.retry_at = None;
        self.core.flush(Instant::now());
        self.core.sync(Instant::now());
        match self.core.error.take() {
            None => Ok(()),
            Some(error) => Err(StoreError::io("write", &self.core.path)(error)),
        }
    }

    /// When [`Journal::sync_if_due`] has something to do next.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let sync = self
            .core
            .unsynced
            .then(|| self.core.synced_at + SYNC_INTERVAL);
        match (sync, self.core.retry_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Bytes of the journal that the kernel has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.core.bytes
    }
}

/// The journal without its file.
#[derive(Debug)]
struct Core<S> {
    sink: S,
    path: PathBuf,
    next_seq: u64,
    last_ms: u64,
    /// Appended, not yet taken by the kernel. May start in the middle of a line.
    waiting: Vec<u8>,
    bytes: u64,
    unsynced: bool,
    urgent: bool,
    synced_at: Instant,
    sync_failed: bool,
    error: Option<io::Error>,
    retry_at: Option<Instant>,
    left_out: u64,
}

impl<S: Sink> Core<S> {
    fn new(sink: S, path: PathBuf, next_seq: u64, bytes: u64) -> Self {
        Self {
            sink,
            path,
            next_seq,
            last_ms: 0,
            waiting: Vec::new(),
            bytes,
            unsynced: false,
            urgent: false,
            synced_at: Instant::now(),
            sync_failed: false,
            error: None,
            retry_at: None,
            left_out: 0,
        }
    }

    fn append(&mut self, event: Event, attempt: Attempt) -> Option<Entry> {
        if self.waiting.len() > WAITING_BYTES_MAX && matches!(event, Event::StepFinished(_)) {
            self.left_out += 1;
            return None;
        }
        // A clock that is set back must not make the record run backwards.
        self.last_ms = self.last_ms.max(now_ms());
        let entry = Entry {
            seq: self.next_seq,
            time_ms: self.last_ms,
            attempt,
            event,
        };
        let before = self.waiting.len();
        if serde_json::to_writer(&mut self.waiting, &entry).is_err() {
            // Cannot happen for plain data; a half line must not stay in any case.
            self.waiting.truncate(before);
            return None;
        }
        self.waiting.push(b'\n');
        self.next_seq += 1;
        self.urgent |= is_urgent(&entry.event);
        Some(entry)
    }

    fn flush(&mut self, now: Instant) -> Vec<String> {
        if self.waiting.is_empty() || self.retry_at.is_some_and(|at| now < at) {
            return Vec::new();
        }
        let failed_before = self.retry_at.is_some();
        let mut done = 0;
        let result = loop {
            if done == self.waiting.len() {
                break Ok(());
            }
            match self.sink.write(&self.waiting[done..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.waiting.drain(..done);
        self.bytes += done as u64;
        self.unsynced |= done > 0;
        match result {
            Ok(()) => {
                self.retry_at = None;
                self.error = None;
                if !failed_before {
                    return Vec::new();
                }
                let mut note = "the journal can be written again".to_string();
                if self.left_out > 0 {
                    note = format!(
                        "{note}; the reports of {} steps were left out",
                        self.left_out
                    );
                    self.left_out = 0;
                }
                vec![note]
            }
            Err(error) => {
                self.retry_at = Some(now + RETRY_INTERVAL);
                let note = format!(
                    "the journal {} cannot be written: {error}; training goes on and entries wait in memory",
                    self.path.display()
                );
                self.error = Some(error);
                if failed_before {
                    Vec::new()
                } else {
                    vec![note]
                }
            }
        }
    }

    fn sync_if_due(&mut self, now: Instant) -> Vec<String> {
        // A disk that just failed is asked once a second, however urgent it is.
        let due = (self.urgent && !self.sync_failed)
            || now.duration_since(self.synced_at) >= SYNC_INTERVAL;
        if !self.unsynced || !due {
            return Vec::new();
        }
        let failed_before = self.sync_failed;
        self.sync(now);
        match &self.error {
            Some(error) if self.sync_failed && !failed_before => vec![format!(
                "the journal {} does not reach the disk: {error}; training goes on",
                self.path.display()
            )],
            _ => Vec::new(),
        }
    }

    fn sync(&mut self, now: Instant) {
        self.synced_at = now;
        if !self.unsynced {
            return;
        }
        match self.sink.sync() {
            Ok(()) => {
                self.unsynced = false;
                self.sync_failed = false;
                self.urgent &= !self.waiting.is_empty();
            }
            Err(error) => {
                self.sync_failed = true;
                self.error = Some(error);
            }
        }
    }
}

/// Whether an event must be on the disk before anything is built on it.
fn is_urgent(event: &Event) -> bool {
    match event {
        Event::RunCreated { .. }
        | Event::StateChanged { .. }
        | Event::AttemptStarted { .. }
        | Event::ConfigChanged { .. }
        | Event::WorkerExited { .. }
        | Event::TrainingBegan { .. }
        | Event::Evaluated { .. }
        | Event::CheckpointCommitted(_)
        | Event::CheckpointFailed { .. }
        | Event::CheckpointRemoved { .. }
        | Event::CheckpointRejected { .. }
        | Event::Improved { .. }
        | Event::FaultRaised { .. } => true,
        Event::WorkerStarted { .. }
        | Event::DataPrepared { .. }
        | Event::ModelBuilt { .. }
        | Event::SlotsAwaited { .. }
        | Event::SlotsTaken { .. }
        | Event::GroupFormed { .. }
        | Event::Recovered { .. }
        | Event::StepFinished(_)
        | Event::MemoryMeasured { .. }
        | Event::Warned { .. } => false,
    }
}

/// Milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |past| {
            u64::try_from(past.as_millis()).unwrap_or(u64::MAX)
        })
}

/// The entries of a run's journal, also while it is being written.
///
/// # Errors
///
/// When there is no journal or it cannot be opened.
pub fn read(dir: &RunDir) -> Result<Entries, StoreError> {
    Entries::open(dir)
}

#[cfg(test)]
#[path = "journal/tests.rs"]
mod tests;
