//! Waits for devices: looks, takes all or none, and sleeps in between.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::decide::{Claim, Verdict, decide};
use super::folder::{Folder, Lock, Turn};
use super::pool::{self, Held, Probe};
use super::queue::{Blocker, Entry, OwnTicket, Queue};
use super::record::{self, Ticket};
use super::{Holder, Place, Request, SlotError, Waiter};

/// How long to wait for the turn at first. Others have it for milliseconds.
const JOIN_PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait for the turn at a later look; there will be another one.
const LOOK_PATIENCE: Duration = Duration::from_millis(50);

/// Time between two looks of somebody who could be next.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time between two looks of somebody who has to follow another one: only to show its place.
const FOLLOWER_LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time between two questions whether the one before is gone.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// How long somebody who has been offered devices may let others wait. It looks ten times a second,
/// so by then it is stopped (Ctrl-Z) or its output is blocked; its devices are then set aside and
/// the others pass.
pub(super) const COURTESY: Duration = Duration::from_secs(10);

/// Somebody who waits, for as long as it waits.
pub(super) struct Wait {
    folder: Arc<Folder>,
    claim: Claim,
    name: String,
    courtesy: Duration,
    number: u64,
    ticket: Option<OwnTicket>,
    queue: Queue,
    place: Place,
    after_others_since: Option<Instant>,
    blocker: Option<Blocker>,
}

/// What a look came to.
enum Look {
    Taken(Held),
    NotYet,
}

impl Wait {
    /// Queues up and waits; `None` when `waiting` gave up.
    pub(super) fn run(
        folder: &Arc<Folder>,
        claim: Claim,
        request: &Request,
        courtesy: Duration,
        waiting: &mut dyn FnMut(&Place) -> bool,
    ) -> Result<Option<Held>, SlotError> {
        let turn = folder.turn_or_fail(JOIN_PATIENCE)?;
        let mut queue = Queue::default();
        queue.look(&turn)?;
        let ticket = Ticket {
            waiter: Waiter {
                name: record::clean(&request.name),
                pid: std::process::id(),
                since_unix_ms: record::now_unix_ms(),
                priority: request.priority,
                want: request.want.clone(),
            },
            devices: claim.devices().to_vec(),
        };
        let own = queue.join(&turn, folder, &ticket)?;
        let mut wait = Self {
            folder: Arc::clone(folder),
            claim,
            courtesy,
            number: own.number(),
            ticket: Some(own),
            name: ticket.waiter.name,
            queue,
            place: Place::default(),
            after_others_since: None,
            blocker: None,
        };
        let mut look = wait.look(&turn)?;
        drop(turn);
        wait.place.changed = true;
        loop {
            if let Look::Taken(held) = look {
                return Ok(Some(held));
            }
            if !wait.doze(waiting) {
                return Ok(None);
            }
            look = match folder.turn(LOOK_PATIENCE)? {
                Some(turn) => wait.look(&turn)?,
                None => Look::NotYet,
            };
        }
    }

    /// Sleeps until it is worth looking again; false when `waiting` gave up.
    fn doze(&mut self, waiting: &mut dyn FnMut(&Place) -> bool) -> bool {
        let (nap, sleep) = match (&self.blocker, self.after_others_since) {
            (Some(_), _) => (ASK_EVERY, FOLLOWER_LOOK_EVERY),
            (None, Some(_)) => (ASK_EVERY, ASK_EVERY),
            (None, None) => (LOOK_EVERY, LOOK_EVERY),
        };
        let until = Instant::now() + sleep;
        loop {
            let goes_on = waiting(&self.place);
            self.place.changed = false;
            if !goes_on {
                return false;
            }
            thread::sleep(nap);
            if Instant::now() >= until || self.blocker.as_ref().is_some_and(Blocker::is_gone) {
                return true;
            }
        }
    }

    /// Takes the devices if it is time, or sees what there is to wait for.
    fn look(&mut self, turn: &Turn) -> Result<Look, SlotError> {
        let ahead = self.ahead(turn)?;
        let mut free = HashMap::new();
        let mut held = Vec::new();
        for device in self.claim.devices() {
            match pool::probe(turn, &device.id)? {
                Probe::Free(lock) => {
                    free.insert(device.id.as_str(), lock);
                }
                Probe::Held(holding) => held.push(holding),
            }
        }
        let claims: Vec<&Claim> = ahead.iter().map(|entry| &entry.claim).collect();
        let verdict = decide(&self.claim, &claims, &free.keys().copied().collect());
        let since = self.after_others_since.take();
        let chosen = match verdict {
            Verdict::Take(chosen) => Some(chosen),
            Verdict::AfterOthers(chosen) => {
                let since = since.unwrap_or_else(Instant::now);
                self.after_others_since = Some(since);
                (since.elapsed() >= self.courtesy).then_some(chosen)
            }
            Verdict::Wait => None,
        };
        if let Some(chosen) = chosen {
            let held = self.take(turn, chosen, &mut free)?;
            drop(free);
            self.ticket = None;
            return Ok(Look::Taken(held));
        }
        drop(free);
        self.blocker = ahead
            .iter()
            .rfind(|entry| self.claim.must_follow(&entry.claim))
            .map(|entry| Blocker::open(&self.folder, entry.number));
        let seen = Place {
            ahead: ahead.iter().map(|entry| entry.waiter.clone()).collect(),
            held,
            changed: self.place.changed,
        };
        if seen != self.place {
            self.place = seen;
            self.place.changed = true;
        }
        Ok(Look::NotYet)
    }

    /// Those who come before us and whom our devices concern.
    fn ahead(&mut self, turn: &Turn) -> Result<Vec<Arc<Entry>>, SlotError> {
        let mut entries = self.queue.look(turn)?;
        let own = self.number;
        match entries.iter().position(|entry| entry.number == own) {
            Some(position) => entries.truncate(position),
            // Somebody removed our ticket or wrote over it; we wait on as if we came last.
            None => entries.retain(|entry| entry.number != own),
        }
        entries.retain(|entry| entry.claim.touches(&self.claim));
        Ok(entries)
    }

    fn take(
        &self,
        turn: &Turn,
        chosen: Vec<String>,
        free: &mut HashMap<&str, Lock>,
    ) -> Result<Held, SlotError> {
        let serial = turn.next_number(self.number)?;
        let holder = Holder {
            name: self.name.clone(),
            pid: std::process::id(),
            since_unix_ms: record::now_unix_ms(),
            serial,
        };
        let wanted: HashSet<&str> = chosen.iter().map(String::as_str).collect();
        let locks: Vec<Lock> = free
            .extract_if(|id, _| wanted.contains(id))
            .map(|(_, lock)| lock)
            .collect();
        for lock in &locks {
            // Only for display: a full disk is no reason not to train.
            let _ = record::write(lock.file(), &holder);
        }
        Ok(Held::new(
            chosen,
            locks,
            &self.folder,
            [self.number, serial],
        ))
    }
}
