//! Checkpoints of a running training: copied at a step boundary, written behind it.

use std::path::Path;
use std::time::Instant;

use super::due::Due;
use super::job::Reporter;
use crate::checkpoint::{Snapshot, Writer};
use crate::config::Checkpoint;
use crate::plan::Timetable;
use crate::run::{Event, Fault, Step};

/// Writes checkpoints and knows which step the newest one holds.
pub(super) struct Saver {
    writer: Option<Writer>,
    due: Due,
    /// Step of the newest checkpoint that was submitted or resumed from.
    newest: Option<Step>,
    /// Step and reason of the newest checkpoint that could not be written.
    failed: Option<(Step, String)>,
}

impl Saver {
    /// A writer into `directory` for a training that continues at `start`.
    pub(super) fn start(directory: &Path, config: &Checkpoint, start: Step) -> Self {
        Self {
            writer: Some(Writer::start(directory.to_path_buf(), config)),
            due: Due::new(config.every),
            newest: (start.get() > 0).then_some(start),
            failed: None,
        }
    }

    /// Whether a checkpoint is due by the config.
    pub(super) fn is_due(&self, step: Step, timetable: &Timetable) -> bool {
        self.due.at(step, timetable)
    }

    /// Whether a checkpoint of this step exists or is being written.
    pub(super) fn has(&self, step: Step) -> bool {
        self.newest == Some(step)
    }

    /// Hands over a snapshot whose copying began at `began`. Waits for the one before it.
    pub(super) fn submit(
        &mut self,
        snapshot: Snapshot,
        began: Instant,
        reporter: &mut dyn Reporter,
    ) {
        self.newest = Some(snapshot.step);
        self.due.done();
        if let Some(writer) = &mut self.writer {
            writer.submit(snapshot, began.elapsed().as_secs_f64());
        }
        self.poll(reporter);
    }

    /// Passes on what has become of checkpoints since the last call.
    pub(super) fn poll(&mut self, reporter: &mut dyn Reporter) {
        let events = self.writer.as_mut().map(Writer::poll).unwrap_or_default();
        self.pass_on(events, reporter);
    }

    /// Waits until everything is on disk.
    ///
    /// # Errors
    ///
    /// When the checkpoint of `step`, which nothing will replace, could not be written.
    pub(super) fn finish(&mut self, step: Step, reporter: &mut dyn Reporter) -> Result<(), Fault> {
        let events = self.writer.take().map(Writer::finish).unwrap_or_default();
        self.pass_on(events, reporter);
        match &self.failed {
            Some((failed, reason)) if *failed == step => Err(Fault::machine(format!(
                "the checkpoint of the last step could not be written: {reason}"
            ))
            .at(step)
            .advise(
                "remove the cause, then `trainer resume` repeats the steps since the newest good checkpoint",
            )),
            _ => Ok(()),
        }
    }

    fn pass_on(&mut self, events: Vec<Event>, reporter: &mut dyn Reporter) {
        for event in events {
            if let Event::CheckpointFailed { step, reason } = &event {
                self.failed = Some((*step, reason.clone()));
                if self.newest == Some(*step) {
                    self.newest = None;
                }
            }
            reporter.event(None, event);
        }
    }
}
