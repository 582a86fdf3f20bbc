//! The folder, its lock files, and the turn. All files are opened relative to the folder that was
//! checked, so nobody can put another one in its place afterwards.

use std::fs::{File, TryLockError};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::SlotError;

/// Name of the file whose lock is the turn and whose content is the counter.
const TURN: &str = "turn";

/// How long to stand by while somebody has the turn.
const TURN_PAUSE: Duration = Duration::from_millis(1);

/// How long to wait for whoever is cleaning the folder up.
const CLEANER_PATIENCE: Duration = Duration::from_secs(2);

/// Greatest number of a ticket; there will never be so many.
pub(super) const NUMBER_MAX: u64 = 1_000_000_000_000_000_000;

/// Digits of the counter: its length never changes, so it is replaced in one write.
const COUNTER_DIGITS: usize = 20;

/// A folder that was checked.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    fd: OwnedFd,
}

impl Folder {
    /// Makes the folder if need be and checks that it is ours alone.
    pub(super) fn open(path: &Path) -> Result<Self, SlotError> {
        // With a slash at its end, a link would be followed after all.
        let path: PathBuf = path.components().collect();
        let refuse = |problem: String| SlotError::Folder {
            path: path.clone(),
            problem,
        };
        if !path.is_absolute() {
            return Err(refuse("is not an absolute path".to_string()));
        }
        match rustix::fs::mkdir(&path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(SlotError::io("make", &path)(error)),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd = match rustix::fs::openat(CWD, &path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(refuse("is a symbolic link or a file".to_string()));
            }
            Err(error) => return Err(SlotError::io("open", &path)(error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(SlotError::io("examine", &path))?;
        let user = rustix::process::geteuid().as_raw();
        if stat.st_uid != user {
            let owner = stat.st_uid;
            return Err(refuse(format!(
                "belongs to user {owner}, but this is user {user}"
            )));
        }
        if stat.st_mode & 0o077 != 0 {
            let mode = stat.st_mode & 0o777;
            return Err(refuse(format!("is open to other users (mode {mode:03o})")));
        }
        let folder = Self { path, fd };
        folder.keep();
        Ok(folder)
    }

    /// Takes the folder's own lock, shared: systemd-tmpfiles then spares what is in it, however long
    /// a run takes. Goes on without it where that is not possible.
    fn keep(&self) {
        let until = Instant::now() + CLEANER_PATIENCE;
        while rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockShared)
            == Err(Errno::WOULDBLOCK)
            && Instant::now() < until
        {
            thread::sleep(TURN_PAUSE);
        }
    }

    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file of the folder for reading and writing; `None` when it is not there.
    pub(super) fn file(&self, name: &str, how: OFlags) -> Result<Option<File>, SlotError> {
        let path = self.path.join(name);
        let foreign = |problem| SlotError::Foreign {
            path: path.clone(),
            problem,
        };
        // Without NONBLOCK, a named pipe put here could hold us up.
        let flags = how | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => fd,
            Err(Errno::NOENT) if !how.contains(OFlags::CREATE) => return Ok(None),
            Err(Errno::NOENT) => return Err(self.removed()),
            Err(Errno::LOOP) => return Err(foreign("is a symbolic link")),
            Err(Errno::ISDIR) => return Err(foreign("is a folder")),
            Err(error) => return Err(SlotError::io("open", &path)(error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(SlotError::io("examine", &path))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(foreign("is not a regular file"));
        }
        Ok(Some(File::from(fd)))
    }

    /// Takes the lock of a file of the folder, unless somebody has it.
    pub(super) fn lock(&self, name: &str, file: File) -> Result<Attempt, SlotError> {
        match file.try_lock() {
            Ok(()) => Ok(Attempt::Locked(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(Attempt::Taken(file)),
            Err(TryLockError::Error(error)) => {
                Err(SlotError::io("lock", &self.path.join(name))(error))
            }
        }
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &str) -> Result<(), SlotError> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(SlotError::io("remove", &self.path.join(name))(error)),
        }
    }

    /// Names of all files, in no order.
    pub(super) fn names(&self) -> Result<Vec<String>, SlotError> {
        let mut names = Vec::new();
        let entries =
            rustix::fs::Dir::read_from(&self.fd).map_err(SlotError::io("read", &self.path))?;
        for entry in entries {
            let entry = entry.map_err(SlotError::io("read", &self.path))?;
            // Ours are plain ASCII.
            if let Ok(name) = entry.file_name().to_str() {
                names.push(name.to_string());
            }
        }
        Ok(names)
    }

    /// Takes the turn; `None` when somebody keeps it for longer than `patience`.
    pub(super) fn turn(&self, patience: Duration) -> Result<Option<Turn<'_>>, SlotError> {
        let until = Instant::now() + patience;
        loop {
            if let Some(file) = self.file(TURN, OFlags::CREATE)?
                && let Attempt::Locked(lock) = self.lock(TURN, file)?
            {
                if is_removed(&self.fd) {
                    return Err(self.removed());
                }
                // If somebody removed the file in between, another one may be locked by others.
                if !is_removed(lock.file()) {
                    return Ok(Some(Turn { folder: self, lock }));
                }
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            thread::sleep(TURN_PAUSE);
        }
    }

    /// As [`Folder::turn`], for those who cannot go on without.
    pub(super) fn turn_or_fail(&self, patience: Duration) -> Result<Turn<'_>, SlotError> {
        self.turn(patience)?.ok_or_else(|| SlotError::Busy {
            path: self.path.join(TURN),
        })
    }

    fn removed(&self) -> SlotError {
        SlotError::Removed {
            path: self.path.clone(),
        }
    }
}

/// Whether a file or folder that is open has no name any more.
pub(super) fn is_removed(fd: impl AsFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_nlink == 0)
}

/// A lock that is held until dropped.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// The file that is locked.
    pub(super) fn file(&self) -> &File {
        &self.0
    }
}

/// What became of an attempt to lock a file.
#[derive(Debug)]
pub(super) enum Attempt {
    /// It is ours.
    Locked(Lock),
    /// Somebody else has it locked.
    Taken(File),
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would not do: a child between fork and exec has a copy of the descriptor.
        let _ = self.0.unlock();
    }
}

/// The right to look at the folder and to change it, for a moment.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    folder: &'a Folder,
    lock: Lock,
}

impl Turn<'_> {
    /// The folder.
    pub(super) fn folder(&self) -> &Folder {
        self.folder
    }

    /// A number that was never given before and is greater than `floor`.
    pub(super) fn next_number(&self, floor: u64) -> Result<u64, SlotError> {
        let path = self.folder.path.join(TURN);
        let mut digits = [0; COUNTER_DIGITS];
        let length = self
            .lock
            .file()
            .read_at(&mut digits, 0)
            .map_err(SlotError::io("read", &path))?;
        // Whatever else it holds counts as nothing: `floor` still keeps the queue in order.
        let last: u64 = std::str::from_utf8(&digits[..length])
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|last| *last < NUMBER_MAX)
            .unwrap_or(0);
        let next = last.max(floor) + 1;
        if next > NUMBER_MAX {
            return Err(SlotError::Foreign {
                path,
                problem: "has no numbers left",
            });
        }
        self.lock
            .file()
            .write_all_at(format!("{next:0COUNTER_DIGITS$}").as_bytes(), 0)
            .map_err(SlotError::io("write", &path))?;
        Ok(next)
    }
}
