//! What can go wrong with slots.

use std::io;
use std::path::{Path, PathBuf};

use crate::run::Fault;

/// Slots that cannot be had, or not like this.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// The folder must not be used.
    #[error("the folder for device slots, {}, {problem}", path.display())]
    Folder {
        /// Folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The folder was removed while it was in use.
    #[error("the folder for device slots, {}, was removed while this run used it", path.display())]
    Removed {
        /// Folder.
        path: PathBuf,
    },
    /// Something in the folder is not what this program puts there.
    #[error("{} {problem}", path.display())]
    Foreign {
        /// File.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An input or output error.
    #[error("cannot {doing} {}: {error}", path.display())]
    Io {
        /// `open`, `lock`, …
        doing: &'static str,
        /// File or folder.
        path: PathBuf,
        /// Cause.
        #[source]
        error: io::Error,
    },
    /// Somebody keeps the lock that others only hold for a moment.
    #[error("{} stays locked: a process that uses it does not go on", path.display())]
    Busy {
        /// File.
        path: PathBuf,
    },
    /// Too many wait.
    #[error("{waiting} runs wait in {} already", path.display())]
    Crowded {
        /// Folder.
        path: PathBuf,
        /// How many.
        waiting: usize,
    },
    /// More devices are wanted than there are.
    #[error("{wanted} devices are wanted, but there are {there}")]
    TooMany {
        /// Wanted.
        wanted: usize,
        /// There.
        there: usize,
    },
    /// A device is wanted that is not there.
    #[error("there is no device `{id}`; there are: {known}")]
    Unknown {
        /// As asked for.
        id: String,
        /// Names of all devices.
        known: String,
    },
    /// A device has a name that cannot be used.
    #[error("`{id}` is no device name")]
    Name {
        /// As given, shortened and cleaned.
        id: String,
    },
}

impl SlotError {
    /// Wraps an input or output error; for `map_err`.
    pub(super) fn io<'a, E: Into<io::Error>>(
        doing: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(E) -> SlotError + 'a {
        move |error| SlotError::Io {
            doing,
            path: path.to_path_buf(),
            error: error.into(),
        }
    }

    /// What to do, in one sentence without a full stop.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            SlotError::Folder { .. } => {
                "set TRAINER_SLOTS_DIR to a folder of your own that nobody else can open \
                 (chmod 700), the same for all your runs"
            }
            SlotError::Removed { .. } => {
                "start the run again; other runs that used the folder are not known any more, so \
                 see that they are done first"
            }
            SlotError::Foreign { .. } => "remove it while no run is alive",
            SlotError::Io { error, .. } => match error.kind() {
                io::ErrorKind::NotFound => "make the folder above it, or set TRAINER_SLOTS_DIR",
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "check its permissions, or set TRAINER_SLOTS_DIR to a folder of your own"
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "free some disk space, or set TRAINER_SLOTS_DIR to a folder with room"
                }
                _ => "set TRAINER_SLOTS_DIR to a folder on a local disk",
            },
            SlotError::Busy { .. } => {
                "`fuser` or `lslocks` tells which process it is; continue it (kill -CONT) or end it"
            }
            SlotError::Crowded { .. } => "wait until some have started, or end some",
            SlotError::TooMany { .. } => "ask for fewer devices",
            SlotError::Unknown { .. } => "name one of these, or ask for a number of devices",
            SlotError::Name { .. } => {
                "a name has 1 to 80 bytes without control characters, and there are at most 256"
            }
        }
    }
}

impl From<SlotError> for Fault {
    fn from(error: SlotError) -> Self {
        Fault::machine(error.to_string()).advise(error.advice())
    }
}
