//! Who works on a run: its supervisor holds a lock on the file `lock` as long as it lives.
//!
//! The kernel drops the lock when the process ends, however it ends, so there is nothing stale to
//! clean up. Onlookers take it shared for a moment to see whether it is free; a starter therefore
//! tries for a moment before it believes that the run is alive.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::StoreError;
use crate::run::{Rank, RunDir};

/// How long a starter waits for onlookers to let go.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long a worker waits for the one before it to be gone. It was killed, so the kernel is at it.
const WORKER_PATIENCE: Duration = Duration::from_secs(10);

/// The right to work on a run, until dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a run.
    ///
    /// # Errors
    ///
    /// When a supervisor is alive, or the lock file cannot be made.
    pub fn take(dir: &RunDir) -> Result<Self, StoreError> {
        acquire(&dir.lock(), PATIENCE)?.ok_or_else(|| StoreError::Alive {
            name: super::runs::shown_name(dir),
        })
    }

    /// Takes the lock of a worker. It keeps a new worker from the files of one that is killed but not
    /// gone yet, as after the death of a supervisor.
    ///
    /// # Errors
    ///
    /// When the worker before stays, or the lock file cannot be made.
    pub fn take_worker(dir: &RunDir, rank: Rank) -> Result<Self, StoreError> {
        let path = dir.logs().join(format!("rank-{rank}.lock"));
        acquire(&path, WORKER_PATIENCE)?.ok_or_else(|| StoreError::Alive {
            name: super::runs::shown_name(dir),
        })
    }
}

/// Takes a lock; `None` when somebody has it and keeps it for the time of `patience`.
fn acquire(path: &Path, patience: Duration) -> Result<Option<Lock>, StoreError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(StoreError::io("open", path))?;
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", path)(error)),
        }
    }
}

/// Whether a supervisor works on a run. A run whose lock cannot be examined counts as dead.
#[must_use]
pub fn is_alive(dir: &RunDir) -> bool {
    File::open(dir.lock())
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_alive_while_its_lock_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::new(folder.path());
        assert!(!is_alive(&dir));
        let lock = Lock::take(&dir).unwrap();
        assert!(is_alive(&dir));
        assert!(matches!(Lock::take(&dir), Err(StoreError::Alive { .. })));
        drop(lock);
        assert!(!is_alive(&dir));
        Lock::take(&dir).unwrap();
    }
}
