//! The tickets of those who wait.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::decide::Claim;
use super::folder::{Attempt, Folder, Lock, NUMBER_MAX, Turn};
use super::record::{self, Ticket};
use super::{SlotError, Waiter};

/// Start of a ticket's file name.
const PREFIX: &str = "ticket-";

/// Most tickets that are looked at.
const TICKETS_MAX: usize = 4096;

/// Somebody who waits.
#[derive(Debug)]
pub(super) struct Entry {
    /// Number of its ticket.
    pub(super) number: u64,
    /// Who it is.
    pub(super) waiter: Waiter,
    /// What it is entitled to.
    pub(super) claim: Claim,
}

impl Entry {
    /// Those with a lower rank come first.
    pub(super) fn rank(&self) -> (Reverse<i32>, u64) {
        (Reverse(self.waiter.priority), self.number)
    }
}

/// The queue as it was last seen. Remembers what tickets say: that never changes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    known: HashMap<u64, Arc<Entry>>,
    /// Greatest number that was seen, also on a ticket that made no sense.
    last: u64,
}

impl Queue {
    /// Everyone who waits, first one first. Removes the tickets of the dead.
    pub(super) fn look(&mut self, turn: &Turn) -> Result<Vec<Arc<Entry>>, SlotError> {
        let folder = turn.folder();
        let mut living = HashMap::new();
        let names = folder.names()?;
        let numbers = names.iter().filter_map(|name| number_of(name));
        for number in numbers.take(TICKETS_MAX) {
            let name = name_of(number);
            let attempt = match folder.file(&name, OFlags::empty()) {
                Ok(Some(file)) => folder.lock(&name, file)?,
                Ok(None) => continue,
                // What cannot be opened is no ticket of ours, and no reason to fail.
                Err(_) => {
                    self.last = self.last.max(number);
                    continue;
                }
            };
            match attempt {
                Attempt::Locked(_dead) => folder.remove(&name)?,
                Attempt::Taken(file) => {
                    self.last = self.last.max(number);
                    let known = self.known.remove(&number);
                    if let Some(entry) = known.or_else(|| read(number, &file)) {
                        living.insert(number, entry);
                    }
                }
            }
        }
        self.known = living;
        let mut entries: Vec<_> = self.known.values().cloned().collect();
        entries.sort_unstable_by_key(|entry| entry.rank());
        Ok(entries)
    }

    /// Puts somebody at the end of those of its priority. The queue must have been looked at in this
    /// turn.
    pub(super) fn join(
        &self,
        turn: &Turn,
        folder: &Arc<Folder>,
        ticket: &Ticket,
    ) -> Result<OwnTicket, SlotError> {
        if self.known.len() >= TICKETS_MAX {
            return Err(SlotError::Crowded {
                path: folder.path().to_path_buf(),
                waiting: self.known.len(),
            });
        }
        let number = turn.next_number(self.last)?;
        OwnTicket::create(folder, number, ticket)
    }
}

fn read(number: u64, file: &File) -> Option<Arc<Entry>> {
    let ticket = record::read_ticket(file)?;
    // One that could never be served would hold up everybody behind it.
    let claim = Claim::new(&ticket.waiter.want, &ticket.devices).ok()?;
    Some(Arc::new(Entry {
        number,
        waiter: ticket.waiter,
        claim,
    }))
}

fn name_of(number: u64) -> String {
    format!("{PREFIX}{number}")
}

fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix(PREFIX)?.parse().ok()?;
    // Not `+1` or `01`, which are names of other files.
    (number <= NUMBER_MAX && name_of(number) == name).then_some(number)
}

/// A ticket of this process: locked, and removed when dropped.
#[derive(Debug)]
pub(super) struct OwnTicket {
    folder: Arc<Folder>,
    number: u64,
    lock: Lock,
}

impl OwnTicket {
    fn create(folder: &Arc<Folder>, number: u64, ticket: &Ticket) -> Result<Self, SlotError> {
        let name = name_of(number);
        let path = folder.path().join(&name);
        let busy = || SlotError::Busy { path: path.clone() };
        let file = folder
            .file(&name, OFlags::CREATE | OFlags::EXCL)?
            .ok_or_else(busy)?;
        let Attempt::Locked(lock) = folder.lock(&name, file)? else {
            return Err(busy());
        };
        let own = Self {
            folder: Arc::clone(folder),
            number,
            lock,
        };
        record::write(own.lock.file(), ticket).map_err(SlotError::io("write", &path))?;
        Ok(own)
    }

    /// Its number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for OwnTicket {
    fn drop(&mut self) {
        // If this fails, the lock goes all the same, and the next one who looks removes the ticket.
        let _ = self.folder.remove(&name_of(self.number));
    }
}

/// The ticket of somebody who has to go first.
#[derive(Debug)]
pub(super) struct Blocker(Option<File>);

impl Blocker {
    /// Opens a ticket.
    pub(super) fn open(folder: &Folder, number: u64) -> Self {
        Self(
            folder
                .file(&name_of(number), OFlags::empty())
                .unwrap_or_default(),
        )
    }

    /// Whether its owner does not wait any more.
    pub(super) fn is_gone(&self) -> bool {
        let Some(file) = &self.0 else {
            return true;
        };
        // Shared, as several may ask at the same moment.
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => false,
            Ok(()) => {
                let _ = file.unlock();
                true
            }
            Err(TryLockError::Error(_)) => true,
        }
    }
}
