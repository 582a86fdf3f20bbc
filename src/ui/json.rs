//! The display for programs: every event as one line of JSON.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::{Origin, RunView};
use crate::run::{Entry, Reader, RunId};

/// Version of the lines. It grows when a field changes its meaning or goes; new fields and new events
/// may come at any time.
pub const JSON_FORMAT: u32 = 1;

/// Writes each entry of the journal as one JSON object on one line. The first line has the fields
/// `format`, `id`, `name` and `directory` in addition.
pub struct Json {
    out: Option<Box<dyn Write + Send>>,
    origin: Origin,
    view: RunView,
    begun: bool,
}

/// The first line: an entry, and which run it belongs to.
#[derive(Serialize)]
struct First<'a> {
    format: u32,
    id: Option<RunId>,
    name: &'a str,
    directory: &'a Path,
    seq: u64,
    time_ms: u64,
    attempt: crate::run::Attempt,
    event: &'a crate::run::Event,
}

impl Json {
    /// A display that writes to `out`.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, origin: Origin) -> Self {
        Self {
            out: Some(out),
            view: origin.view(),
            origin,
            begun: false,
        }
    }

    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        // One write per line: the reader of a pipe never sees half of one.
        let mut line = if self.begun {
            serde_json::to_vec(entry)?
        } else {
            // Until the run has a name, which is the first thing that happens to it.
            self.view.take(entry);
            serde_json::to_vec(&First {
                format: JSON_FORMAT,
                id: self.view.id,
                name: &self.view.name,
                directory: &self.origin.directory(&self.view.name),
                seq: entry.seq,
                time_ms: entry.time_ms,
                attempt: entry.attempt,
                event: &entry.event,
            })?
        };
        self.begun = true;
        line.push(b'\n');
        out.write_all(&line)?;
        out.flush()
    }
}

impl Reader for Json {
    fn take(&mut self, entry: &Entry) {
        if self.write(entry).is_err() {
            // Nobody reads any more; the run goes on.
            self.out = None;
        }
    }
}
