//! A disk that breaks at a chosen moment.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::super::disk::{Disk, Local, Output};

/// What happens at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The process is killed: this operation is half done, and nothing is done after it.
    Kill,
    /// The machine loses power: as [`Trouble::Kill`], and what was not synced is lost.
    PowerLoss,
    /// This operation fails with an error number; the next ones work.
    Once(i32),
    /// This operation and all writes after it fail with an error number; removing works.
    FromHere(i32),
}

#[derive(Default)]
struct Inner {
    operations: usize,
    dead: bool,
    unsynced: BTreeSet<PathBuf>,
    log: Vec<String>,
}

/// The real disk until operation number `at`.
#[derive(Clone)]
pub(super) struct Faulty {
    at: usize,
    trouble: Trouble,
    exchanges: bool,
    free: Option<u64>,
    inner: Arc<Mutex<Inner>>,
}

/// What an operation is to do.
enum Turn {
    Go,
    Half,
    Fail(io::Error),
}

impl Faulty {
    pub(super) fn new(at: usize, trouble: Trouble) -> Self {
        Self {
            at,
            trouble,
            exchanges: true,
            free: None,
            inner: Arc::default(),
        }
    }

    /// A disk whose file system cannot exchange two names.
    pub(super) fn without_exchange(self) -> Self {
        Self {
            exchanges: false,
            ..self
        }
    }

    /// A disk that says it has this many bytes left.
    pub(super) fn with_free(self, bytes: u64) -> Self {
        Self {
            free: Some(bytes),
            ..self
        }
    }

    /// Operations so far.
    pub(super) fn operations(&self) -> usize {
        self.inner.lock().unwrap().operations
    }

    /// What was done, in order.
    pub(super) fn log(&self) -> Vec<String> {
        self.inner.lock().unwrap().log.clone()
    }

    fn turn(&self, what: &str, path: &Path) -> Turn {
        let mut inner = self.inner.lock().unwrap();
        if inner.dead {
            return Turn::Fail(io::Error::other("the process is gone"));
        }
        let number = inner.operations;
        inner.operations += 1;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        inner.log.push(format!("{what} {name}"));
        match self.trouble {
            Trouble::Kill | Trouble::PowerLoss if number == self.at => {
                inner.dead = true;
                if self.trouble == Trouble::PowerLoss {
                    for path in std::mem::take(&mut inner.unsynced) {
                        if let Ok(file) = OpenOptions::new().write(true).open(path) {
                            file.set_len(0).unwrap();
                        }
                    }
                }
                Turn::Half
            }
            Trouble::Once(error) if number == self.at => {
                Turn::Fail(io::Error::from_raw_os_error(error))
            }
            Trouble::FromHere(error) if number >= self.at && what != "remove" => {
                Turn::Fail(io::Error::from_raw_os_error(error))
            }
            _ => Turn::Go,
        }
    }

    /// For operations that are done in one moment: half done is not done.
    fn whole(&self, what: &str, path: &Path) -> io::Result<()> {
        match self.turn(what, path) {
            Turn::Go => Ok(()),
            Turn::Half => Err(io::Error::other("the process is gone")),
            Turn::Fail(error) => Err(error),
        }
    }
}

impl Disk for Faulty {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.whole("make folder", path)?;
        Local.make_folder(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        self.whole("create", path)?;
        self.inner.lock().unwrap().unsynced.insert(path.into());
        // Unbuffered, so that every piece reaches the file before the next operation.
        fs::File::create_new(path)?;
        Ok(Box::new(FaultyFile {
            disk: self.clone(),
            path: path.into(),
        }))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.whole("sync", path)?;
        Local.sync_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.whole("rename", from)?;
        Local.rename(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.whole("exchange", one)?;
        if self.exchanges {
            Local.exchange(one, other)
        } else {
            Err(io::Error::from_raw_os_error(libc::EINVAL))
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.turn("remove", path) {
            Turn::Go => Local.remove(path),
            Turn::Half => {
                // Half of the files are gone.
                if let Ok(entries) = fs::read_dir(path) {
                    for entry in entries.flatten().step_by(2) {
                        fs::remove_file(entry.path()).unwrap();
                    }
                }
                Err(io::Error::other("the process is gone"))
            }
            Turn::Fail(error) => Err(error),
        }
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<Option<u64>> {
        Ok(self.free)
    }
}

struct FaultyFile {
    disk: Faulty,
    path: PathBuf,
}

impl FaultyFile {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        use std::io::Write;
        OpenOptions::new()
            .append(true)
            .open(&self.path)?
            .write_all(bytes)
    }
}

impl Output for FaultyFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.disk.turn("append", &self.path) {
            Turn::Go => self.write(bytes),
            Turn::Half => {
                self.write(&bytes[..bytes.len() / 2])?;
                Err(io::Error::other("the process is gone"))
            }
            Turn::Fail(error) => Err(error),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.whole("sync", &self.path)?;
        self.disk.inner.lock().unwrap().unsynced.remove(&self.path);
        Ok(())
    }
}
