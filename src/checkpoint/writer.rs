//! The thread that writes checkpoints while training goes on.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::Snapshot;
use super::disk::{Disk, Local};
use super::recover;
use super::write::Committer;
use crate::config;
use crate::run::{Event, Step};

/// Writes checkpoints behind the training, at most one at a time, and applies the keep-policy.
///
/// Dropping it waits for the one that is being written; [`Writer::finish`] also says how it went.
pub struct Writer {
    committer: Arc<Committer>,
    in_flight: Option<InFlight>,
    events: Vec<Event>,
}

struct InFlight {
    step: Step,
    thread: JoinHandle<Vec<Event>>,
}

impl Writer {
    /// A writer for the folder `dir`, which is made when the first checkpoint is written. Leftovers of
    /// processes that are gone are removed. No other process may write to the folder.
    #[must_use]
    pub fn start(dir: PathBuf, config: &config::Checkpoint) -> Self {
        Self::on(Box::new(Local), dir, config)
    }

    pub(super) fn on(disk: Box<dyn Disk>, dir: PathBuf, config: &config::Checkpoint) -> Self {
        let pid = std::process::id();
        recover::clean(&dir, disk.as_ref(), pid);
        Self {
            committer: Arc::new(Committer {
                dir,
                disk,
                keep: config.keep.clone(),
                goal: config.goal,
                pid,
            }),
            in_flight: None,
            events: Vec::new(),
        }
    }

    /// Hands a snapshot over. Waits only while the one before is still being written, and adds that
    /// time to `blocked_seconds`, the time that training stood still to take the snapshot.
    pub fn submit(&mut self, snapshot: Snapshot, blocked_seconds: f64) {
        let waiting = Instant::now();
        self.wait();
        let blocked_seconds = blocked_seconds + waiting.elapsed().as_secs_f64();

        let step = snapshot.step;
        let snapshot = Arc::new(snapshot);
        let (committer, moved) = (Arc::clone(&self.committer), Arc::clone(&snapshot));
        let thread = thread::Builder::new()
            .name("checkpoint".into())
            .spawn(move || committer.commit(&moved, blocked_seconds));
        if let Ok(thread) = thread {
            self.in_flight = Some(InFlight { step, thread });
        } else {
            // No room for another thread: training waits, and nothing is lost.
            let events = self.committer.commit(&snapshot, blocked_seconds);
            self.events.extend(events);
        }
    }

    /// Whether a checkpoint is being written.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.in_flight
            .as_ref()
            .is_some_and(|in_flight| !in_flight.thread.is_finished())
    }

    /// What happened since the last call: checkpoints committed, failed, removed. Does not wait.
    pub fn poll(&mut self) -> Vec<Event> {
        if !self.is_busy() {
            self.wait();
        }
        mem::take(&mut self.events)
    }

    /// Waits for the checkpoint that is being written, and says what happened.
    #[must_use]
    pub fn finish(mut self) -> Vec<Event> {
        self.wait();
        mem::take(&mut self.events)
    }

    fn wait(&mut self) {
        let Some(InFlight { step, thread }) = self.in_flight.take() else {
            return;
        };
        match thread.join() {
            Ok(events) => self.events.extend(events),
            Err(_) => self.events.push(Event::CheckpointFailed {
                step,
                reason: "the thread that wrote it panicked".into(),
            }),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.wait();
    }
}
