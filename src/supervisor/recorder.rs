//! From an event to everybody who wants to know: journal first, then summary, index, displays and
//! viewers.

use std::sync::Arc;

use super::control::Viewers;
use super::display::Displays;
use crate::run::{Attempt, Entry, Event, Fault, RunDir, RunSummary};
use crate::store::{Feed, Fold, Folded, Journal, write_summary};

/// The journal of a live run and all that follows from it.
pub(super) struct Recorder {
    dir: RunDir,
    journal: Journal,
    fold: Fold,
    feed: Feed,
    displays: Displays,
    viewers: Viewers,
    /// Appended, not yet written: nobody has seen these.
    pending: Vec<Arc<Entry>>,
    /// Attempt of the last event, for what the recorder itself has to say.
    attempt: Attempt,
    superseded: bool,
    /// Whether the summary on the disk should be renewed.
    stale: bool,
}

impl Recorder {
    /// A recorder that goes on with a journal and what is known from it. `written` are entries that
    /// the journal has and nobody has seen.
    pub(super) fn new(
        dir: &RunDir,
        journal: Journal,
        fold: Fold,
        feed: Feed,
        displays: Displays,
        written: Vec<Entry>,
    ) -> Self {
        Self {
            dir: dir.clone(),
            journal,
            fold,
            feed,
            displays,
            viewers: Viewers::default(),
            pending: written.into_iter().map(Arc::new).collect(),
            attempt: Attempt::new(1),
            superseded: false,
            stale: false,
        }
    }

    /// Adds an event.
    pub(super) fn record(&mut self, attempt: Attempt, event: Event) {
        self.attempt = attempt;
        self.stale |= matches!(
            event,
            Event::StateChanged { .. }
                | Event::CheckpointCommitted(_)
                | Event::ConfigChanged { .. }
        );
        if let Some(entry) = self.journal.append(event, attempt) {
            self.pending.push(Arc::new(entry));
        }
    }

    /// Notes something that a person should know.
    pub(super) fn warn(&mut self, message: impl Into<String>) {
        let message = message.into();
        self.record(self.attempt, Event::Warned { message });
    }

    /// Hands all events to the kernel, then shows them. Afterwards they survive a kill of this
    /// process, and may be acted upon.
    pub(super) fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let notes = self.journal.flush();
        self.publish();
        self.note(notes);
    }

    /// Brings written entries to the disk when that is due, retries what a disk refused, and renews
    /// the summary after a change that a list of runs should show.
    pub(super) fn settle(&mut self) {
        let mut notes = self.journal.flush();
        notes.extend(self.journal.sync_if_due());
        self.note(notes);
        if std::mem::take(&mut self.superseded)
            && let Ok((fold, _)) = Fold::of(&self.dir)
        {
            self.fold = fold;
        }
        if std::mem::take(&mut self.stale) {
            self.write_summary();
        }
    }

    /// When [`Recorder::settle`] has something to do next.
    pub(super) fn due(&self) -> Option<std::time::Instant> {
        self.journal.due()
    }

    /// Lets a viewer follow from now on.
    pub(super) fn follow(&mut self, viewer: super::control::Viewer) {
        self.viewers.add(viewer);
    }

    /// The summary so far.
    pub(super) fn summary(&self) -> Option<&RunSummary> {
        self.fold.summary()
    }

    /// The last word: everything to the disk, summary and index closed.
    ///
    /// # Errors
    ///
    /// When the journal cannot be completed on the disk.
    pub(super) fn finish(mut self) -> Result<(), Fault> {
        self.flush();
        let synced = self.journal.sync();
        self.stale = true;
        self.settle();
        self.feed.finish(self.journal.bytes());
        synced.map_err(Fault::from)
    }

    fn note(&mut self, notes: Vec<String>) {
        if notes.is_empty() {
            return;
        }
        for note in notes {
            self.warn(note);
        }
        self.journal.flush();
        self.publish();
    }

    fn publish(&mut self) {
        for entry in self.pending.drain(..) {
            self.superseded |= self.fold.take(&entry) == Folded::Superseded;
            self.feed.take(&entry);
            self.displays.take(&entry);
            self.viewers.take(&entry);
        }
    }

    /// The cache only saves time: a disk that refuses it has raised its alarm elsewhere.
    fn write_summary(&self) {
        if let Some(summary) = self.fold.summary() {
            let _ = write_summary(&self.dir, summary, self.journal.bytes());
        }
    }
}
