//! The devices of this machine as slots, and the slots of a run.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;

use super::decide::Claim;
use super::folder::{Attempt, Folder, Lock, Turn, is_removed};
use super::queue::Queue;
use super::record;
use super::wait::{COURTESY, Wait};
use super::{Device, Holding, Listing, Place, Request, SlotError};

/// Names the folder, before all else.
const FOLDER_VARIABLE: &str = "TRAINER_SLOTS_DIR";

/// How long a listing waits for the turn.
const LIST_PATIENCE: Duration = Duration::from_secs(10);

/// The slots of this machine, for all runs of this user.
#[derive(Clone, Debug)]
pub struct Pool {
    folder: Arc<Folder>,
    courtesy: Duration,
}

impl Pool {
    /// Where the lock files are if nobody says otherwise: `$TRAINER_SLOTS_DIR`, else
    /// `/tmp/trainer-slots-<uid>`. Runs that see different ones do not see each other.
    #[must_use]
    pub fn default_folder() -> PathBuf {
        let user = rustix::process::geteuid().as_raw();
        default_folder(|name| std::env::var_os(name), user)
    }

    /// Opens the folder with the lock files, and makes it if it is not there.
    ///
    /// # Errors
    ///
    /// When it is not ours alone, or no folder, or cannot be made.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, SlotError> {
        Ok(Self {
            folder: Arc::new(Folder::open(&folder.into())?),
            courtesy: COURTESY,
        })
    }

    /// Takes all the slots that are wanted, or waits until it is their turn.
    ///
    /// `devices` are those of the machine, best first. While it has to wait, `waiting` is called
    /// several times a second with who comes before, so that a stop is seen soon; `changed` says
    /// whether there is something new to show. It must not block: those behind wait for us. It
    /// returns false to give up; then the result is `None`, and nothing is left in the queue.
    ///
    /// # Errors
    ///
    /// When the want can never be met, or the folder cannot be worked with.
    pub fn acquire(
        &self,
        devices: &[Device],
        request: &Request,
        waiting: &mut dyn FnMut(&Place) -> bool,
    ) -> Result<Option<Held>, SlotError> {
        record::check_devices(devices)?;
        let claim = Claim::new(&request.want, devices)?;
        if claim.count() == 0 {
            return Ok(Some(Held::new(
                Vec::new(),
                Vec::new(),
                &self.folder,
                [0; 2],
            )));
        }
        Wait::run(&self.folder, claim, request, self.courtesy, waiting)
    }

    /// Who holds which of these devices, and everyone who waits.
    ///
    /// # Errors
    ///
    /// When the folder cannot be worked with.
    pub fn list(&self, devices: &[Device]) -> Result<Listing, SlotError> {
        record::check_devices(devices)?;
        let turn = self.folder.turn_or_fail(LIST_PATIENCE)?;
        let mut listing = Listing::default();
        for device in devices {
            if let Probe::Held(holding) = probe(&turn, &device.id)? {
                listing.held.push(holding);
            }
        }
        let queue = Queue::default().look(&turn)?;
        listing.queue = queue.iter().map(|entry| entry.waiter.clone()).collect();
        Ok(listing)
    }

    #[cfg(test)]
    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The same with another patience for those who do not take what is theirs.
    #[cfg(test)]
    pub(super) fn with_courtesy(mut self, courtesy: Duration) -> Self {
        self.courtesy = courtesy;
        self
    }
}

/// [`Pool::default_folder`] with these variables and this user.
fn default_folder(variable: impl Fn(&str) -> Option<OsString>, user: u32) -> PathBuf {
    let path = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(folder) = path(FOLDER_VARIABLE) {
        return folder.into();
    }
    // Not the runtime folder of a login: it is removed at its end while runs go on, and what cron starts
    // has none.
    format!("/tmp/trainer-slots-{user}").into()
}

/// What became of looking at a device.
pub(super) enum Probe {
    /// It was free and is ours as long as the lock is kept.
    Free(Lock),
    /// Somebody has it.
    Held(Holding),
}

/// Takes a device if it is free. The turn keeps others from seeing it taken when it is only looked at.
pub(super) fn probe(turn: &Turn, id: &str) -> Result<Probe, SlotError> {
    let folder = turn.folder();
    let name = file_name(id);
    let held = |holder| {
        Probe::Held(Holding {
            device: id.to_string(),
            holder,
        })
    };
    let Some(file) = folder.file(&name, OFlags::CREATE)? else {
        return Ok(held(None));
    };
    Ok(match folder.lock(&name, file)? {
        // Removed since it was opened, so its lock keeps nobody out.
        Attempt::Locked(lock) if is_removed(lock.file()) => held(None),
        Attempt::Locked(lock) => Probe::Free(lock),
        Attempt::Taken(file) => held(record::read_holder(&file)),
    })
}

/// Name of the file of a device: other names make other files, and none leads out of the folder.
fn file_name(id: &str) -> String {
    let mut name = "device-".to_string();
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            name.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}

/// The slots of a run: free when dropped, or when the process ends, however it ends. Processes that
/// are started meanwhile do not inherit them.
#[derive(Debug)]
pub struct Held {
    devices: Vec<String>,
    _locks: Vec<Lock>,
    /// Keeps the folder from being cleaned up.
    _folder: Arc<Folder>,
    #[cfg(test)]
    numbers: [u64; 2],
}

impl Held {
    #[cfg_attr(not(test), expect(unused_variables, reason = "only tests ask for it"))]
    pub(super) fn new(
        devices: Vec<String>,
        locks: Vec<Lock>,
        folder: &Arc<Folder>,
        numbers: [u64; 2],
    ) -> Self {
        Self {
            devices,
            _locks: locks,
            _folder: Arc::clone(folder),
            #[cfg(test)]
            numbers,
        }
    }

    /// Names of the devices, best first.
    #[must_use]
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// When it joined the queue and when it took these, in the folder's own count.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> [u64; 2] {
        self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_names_the_folder() {
        let folder = |slots: &str| default_folder(|_| Some(slots.into()), 7);
        assert_eq!(folder("/a"), PathBuf::from("/a"));
        let usual = PathBuf::from("/tmp/trainer-slots-7");
        assert_eq!(folder(""), usual);
        assert_eq!(default_folder(|_| None, 7), usual);
    }

    #[test]
    fn every_device_has_a_file_of_its_own_within_the_folder() {
        assert_eq!(file_name("GPU-1f.0"), "device-GPU-1f.0");
        assert_eq!(file_name("MIG-GPU-1/2/3"), "device-MIG-GPU-1%2F2%2F3");
        assert_eq!(file_name("../a%2F"), "device-..%2Fa%252F");
    }
}
