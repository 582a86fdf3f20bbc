//! `trainer logs`: what happened in a run, or what a worker printed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::run::{Entry, Fault, Rank, Reader, RunDir};
use crate::store::{Entries, is_alive};
use crate::ui::{Origin, Plain};

use super::args::Logs;
use super::outcome::{CommandResult, Outcome, Stop};
use super::{json, select};

/// Time between two looks at a file that grows.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Prints events or worker output, and goes on until the run ends if asked to.
pub(super) fn logs(args: &Logs, runs_dir: &Path, out: &mut dyn Write) -> CommandResult {
    let run = select::find(runs_dir, &args.name.run)?;
    match args.rank {
        Some(rank) => worker(&run, Rank::new(rank), args.follow, out),
        None if args.json => as_json(&run, args.follow, out),
        None => as_lines(&run, args.follow),
    }
}

/// Calls `print` for each entry of the journal.
fn events(
    run: &RunDir,
    follow: bool,
    print: &mut dyn FnMut(&Entry) -> Result<(), Stop>,
) -> CommandResult {
    let mut offset = 0;
    loop {
        // Looked at first: what is written before the end is seen by the reading after it.
        let alive = is_alive(run);
        let mut entries = Entries::open_at(run, offset).map_err(Fault::from)?;
        for entry in entries.by_ref() {
            print(&entry.map_err(Fault::from)?)?;
        }
        offset = entries.place().good_end;
        if !follow || !alive {
            return Ok(Outcome::Done);
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Events as JSON lines.
fn as_json(run: &RunDir, follow: bool, out: &mut dyn Write) -> CommandResult {
    events(run, follow, &mut |entry| {
        json::line(entry, out)?;
        if follow {
            out.flush()?;
        }
        Ok(())
    })
}

/// Events as the lines that a run without a terminal prints.
fn as_lines(run: &RunDir, follow: bool) -> CommandResult {
    let output = Watched::default();
    let broken = Arc::clone(&output.broken);
    let runs_dir = run.root().parent().unwrap_or(Path::new("")).to_path_buf();
    let mut plain = Plain::new(Box::new(output), Origin::New { runs_dir });
    events(run, follow, &mut |entry| {
        plain.take(entry);
        if broken.load(Ordering::Relaxed) {
            return Err(Stop::PipeClosed);
        }
        Ok(())
    })
}

/// Standard output that remembers when nobody reads it any more: a display says nothing then, but
/// this command has nothing else to do.
#[derive(Debug, Default)]
struct Watched {
    broken: Arc<AtomicBool>,
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = io::stdout().write(bytes);
        self.broken.fetch_or(written.is_err(), Ordering::Relaxed);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = io::stdout().flush();
        self.broken.fetch_or(flushed.is_err(), Ordering::Relaxed);
        flushed
    }
}

/// What a worker printed, as it is.
fn worker(run: &RunDir, rank: Rank, follow: bool, out: &mut dyn Write) -> CommandResult {
    let path = run.worker_log(rank);
    let failed = |error| Fault::io("read", &path, &error);
    let mut offset = 0;
    loop {
        let alive = is_alive(run);
        let mut file = File::open(&path).map_err(failed)?;
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = file.read(&mut buffer).map_err(failed)?;
            let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else {
                break;
            };
            out.write_all(piece)?;
            offset += piece.len() as u64;
        }
        out.flush()?;
        if !follow || !alive {
            return Ok(Outcome::Done);
        }
        thread::sleep(LOOK_INTERVAL);
    }
}
