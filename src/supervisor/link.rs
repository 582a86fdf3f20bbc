//! The connection to one worker.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;
use std::{fs::OpenOptions, io, io::BufReader, io::Write as _};

use super::input::Input;
use super::launch::Launched;
use crate::run::wire::{self, FromWorker, Job, ToWorker, WireError};
use crate::run::{Event, Rank, RunDir};

/// Longest time that a command may wait for room in the channel. A worker that does not read for so
/// long hangs, and is found out by other means.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// How long after a step nothing else is listened to.
const PACE: Duration = Duration::from_millis(10);

/// Number of a worker process among all that a session has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkId(pub(super) u64);

/// A worker as its supervisor holds it.
pub(super) struct Link {
    /// Which process this is; a slot may have another one later.
    pub(super) id: LinkId,
    /// Process id.
    pub(super) pid: u32,
    channel: UnixStream,
    kill: Box<dyn Fn() + Send>,
    examine: Option<Box<dyn Fn() + Send>>,
}

impl Link {
    /// Sends the job and begins to listen: every message becomes an input, then the end of the
    /// channel, then the end of the process.
    ///
    /// # Errors
    ///
    /// When the channel or a thread cannot be set up; the process is killed then.
    pub(super) fn start(
        launched: Launched,
        id: LinkId,
        job: &Job,
        inputs: &SyncSender<Input>,
    ) -> io::Result<Self> {
        let Launched {
            pid,
            channel,
            kill,
            wait,
            examine,
        } = launched;
        let inputs = inputs.clone();
        let set_up = || -> io::Result<UnixStream> {
            let incoming = channel.try_clone()?;
            channel.set_write_timeout(Some(SEND_TIMEOUT))?;
            Ok(incoming)
        };
        let mut incoming = set_up().inspect_err(|_| kill())?;
        thread::Builder::new()
            .name("worker link".to_string())
            .spawn(move || {
                listen(&mut incoming, id, &inputs);
                let _ = inputs.send(Input::Gone(id, wait()));
            })
            .inspect_err(|_| kill())?;
        let mut link = Self {
            id,
            pid,
            channel,
            kill,
            examine,
        };
        // A worker that is dead already is reported by its thread.
        let _ = wire::send(&mut link.channel, job);
        Ok(link)
    }

    /// Sends a message. A worker that cannot take it is dead or hangs, and is found out.
    pub(super) fn send(&mut self, message: &ToWorker) {
        let _ = wire::send(&mut self.channel, message);
    }

    /// Ends the process at once, and the channel, which a child of the worker may hold open.
    pub(super) fn kill(&self) {
        (self.kill)();
        let _ = self.channel.shutdown(Shutdown::Both);
    }

    /// Writes what the worker's threads do into its log.
    pub(super) fn examine(&self, dir: &RunDir, rank: Rank) {
        match &self.examine {
            Some(elsewhere) => elsewhere(),
            None => examine(self.pid, dir, rank),
        }
    }

    /// Processor time that the worker has used, in seconds, where it can be known.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        match self.examine {
            Some(_) => None,
            None => crate::device::cpu_seconds(self.pid),
        }
    }
}

/// Writes what the threads of a process of this host do into a worker's log.
pub(super) fn examine(pid: u32, dir: &RunDir, rank: Rank) {
    let states = crate::device::thread_states(pid);
    let log = OpenOptions::new().append(true).open(dir.worker_log(rank));
    if let Ok(mut log) = log {
        let _ = writeln!(log, "--- threads of process {pid} ---\n{states}---");
    }
}

/// Passes on what the worker says. A change of threads costs more than what is done about a step, so
/// fast steps are taken several at a time.
fn listen(channel: &mut UnixStream, id: LinkId, inputs: &SyncSender<Input>) {
    let mut channel = BufReader::new(channel);
    loop {
        let input = match wire::receive::<FromWorker>(&mut channel) {
            Ok(message) => Input::Worker(id, message),
            Err(WireError::Closed) => Input::Closed(id, None),
            Err(error) => Input::Closed(id, Some(error.to_string())),
        };
        let ends = matches!(input, Input::Closed(..));
        let rests = is_step(&input) && channel.buffer().is_empty();
        if inputs.send(input).is_err() || ends {
            return;
        }
        if rests {
            thread::sleep(PACE);
        }
    }
}

fn is_step(input: &Input) -> bool {
    match input {
        Input::Worker(_, FromWorker::Event { event, .. }) => {
            matches!(event.as_ref(), Event::StepFinished(_))
        }
        _ => false,
    }
}
