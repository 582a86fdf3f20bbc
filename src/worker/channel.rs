//! The channel to the supervisor.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{FileType, fstat};
use rustix::process::{Signal, getpid, kill_process, set_parent_process_death_signal};

use crate::collective::Handle;
use crate::run::wire::{
    self, Formation, FromWorker, Job, Phase, Position, ToWorker, WIRE_VERSION, WireError,
};
use crate::run::{Command, Event, Fault, Place, Step, WORKER_COMMAND};
use crate::train::Reporter;

/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Longest wait for the job.
const JOB_TIMEOUT: Duration = Duration::from_secs(30);

/// Commands that may wait to be looked at. A supervisor that sends more waits.
const COMMANDS_MAX: usize = 64;

/// Groups that may wait to be joined; there is one at a time.
const GROUPS_MAX: usize = 8;

/// The sending side, shared between training and heartbeat.
///
/// Messages are written to the socket by whoever has something to say. The supervisor reads them at
/// once and holds thousands, so training waits only for a supervisor that is stopped or dead.
#[derive(Debug)]
pub(super) struct Channel {
    stream: Mutex<UnixStream>,
    step: AtomicU64,
    phase: AtomicU8,
    group: Mutex<GroupState>,
}

/// The group that this worker is in.
#[derive(Debug, Default)]
struct GroupState {
    /// Its number and what ends it.
    current: Option<(u64, Handle)>,
    /// Number of the last group that was to be left.
    aborted: u64,
}

/// What comes after a group.
pub(super) enum Next {
    /// Another one.
    Form(Formation),
    /// Nothing.
    Leave,
}

/// What training is given.
pub(super) struct Reports<'a> {
    channel: &'a Channel,
    /// With the number of the group whose first worker is asked.
    commands: Receiver<(u64, Command)>,
    groups: Receiver<Next>,
    /// Number of the group that this worker is in.
    number: u64,
}

impl Channel {
    /// Takes the channel over from standard input, greets the supervisor, waits for the job.
    ///
    /// # Errors
    ///
    /// When standard input is no socket, or there is nobody at its other end.
    pub(super) fn open() -> Result<(Self, Job), Fault> {
        let broken = |error: &dyn std::fmt::Display| {
            Fault::machine(format!("cannot talk to the supervisor: {error}"))
        };
        let input = io::stdin();
        let kind = fstat(input.as_fd()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        if kind != Ok(FileType::Socket) {
            return Err(Fault::usage(format!(
                "`{WORKER_COMMAND}` is started by `trainer run`, not by hand"
            )));
        }
        // With the supervisor's end of the channel closing, the second of two ways to notice its
        // death; this one also works when training holds the process still.
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| broken(&error))?;
        let descriptor: OwnedFd = input
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| broken(&error))?;
        let mut stream = UnixStream::from(descriptor);
        let hello = FromWorker::Hello {
            version: WIRE_VERSION,
            pid: std::process::id(),
        };
        wire::send(&mut stream, &hello).map_err(|error| broken(&error))?;
        let job = receive_job(&mut stream).map_err(|error| broken(&error))?;
        let channel = Self {
            stream: Mutex::new(stream),
            step: AtomicU64::new(0),
            phase: AtomicU8::new(code(Phase::Preparing)),
            group: Mutex::default(),
        };
        Ok((channel, job))
    }

    /// Starts the threads that listen for commands and send heartbeats.
    ///
    /// # Errors
    ///
    /// When there are no threads to be had.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<Reports<'_>> {
        let mut incoming = self.lock().try_clone()?;
        let (command_sender, commands) = sync_channel(COMMANDS_MAX);
        let (group_sender, groups) = sync_channel(GROUPS_MAX);
        let listener = Listener {
            channel: Arc::clone(self),
            commands: command_sender,
            groups: group_sender,
            number: 0,
        };
        thread::Builder::new()
            .name("commands".to_string())
            .spawn(move || listener.listen(&mut incoming))?;
        let channel = Arc::clone(self);
        thread::Builder::new()
            .name("heartbeat".to_string())
            .spawn(move || {
                loop {
                    thread::sleep(HEARTBEAT);
                    channel.send(&FromWorker::Heartbeat {
                        step: channel.step(),
                        phase: phase(channel.phase.load(Ordering::Relaxed)),
                        position: channel.position(),
                    });
                }
            })?;
        Ok(Reports {
            channel: self,
            commands,
            groups,
            number: 0,
        })
    }

    /// Sends a message. Nothing is done about a supervisor that is gone: its end is noticed where
    /// commands are read.
    pub(super) fn send(&self, message: &FromWorker) {
        let _ = wire::send(&mut *self.lock(), message);
    }

    /// Finished steps.
    pub(super) fn step(&self) -> Step {
        Step::new(self.step.load(Ordering::Relaxed))
    }

    /// Where this worker stands in its group.
    fn position(&self) -> Option<Position> {
        let group = self.group();
        let (_, handle) = group.current.as_ref()?;
        let position = handle.position();
        Some(Position {
            number: position.number,
            kind: position.kind.to_string(),
            waiting: position.waiting,
        })
    }

    /// Ends the group `number`, also if this worker is not in it yet.
    fn abort(&self, number: u64) {
        let mut group = self.group();
        group.aborted = group.aborted.max(number);
        if let Some((current, handle)) = &group.current
            && *current <= number
        {
            handle.abort();
        }
    }

    fn group(&self) -> std::sync::MutexGuard<'_, GroupState> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A panic while the lock was held leaves at worst half a message, and the process ends anyway.
    fn lock(&self) -> std::sync::MutexGuard<'_, UnixStream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn receive_job(stream: &mut UnixStream) -> Result<Job, WireError> {
    stream.set_read_timeout(Some(JOB_TIMEOUT))?;
    let job = wire::receive(stream)?;
    stream.set_read_timeout(None)?;
    Ok(job)
}

/// The receiving side.
struct Listener {
    channel: Arc<Channel>,
    commands: SyncSender<(u64, Command)>,
    groups: SyncSender<Next>,
    /// Number of the last group.
    number: u64,
}

impl Listener {
    fn listen(mut self, incoming: &mut UnixStream) {
        loop {
            // Training has ended when nobody takes what is sent any more.
            match wire::receive(incoming) {
                Ok(ToWorker::Command(command)) => {
                    let _ = self.commands.send((self.number, command));
                }
                Ok(ToWorker::Form(formation)) => {
                    self.number = formation.number;
                    let _ = self.groups.send(Next::Form(formation));
                }
                Ok(ToWorker::Leave) => {
                    let _ = self.groups.send(Next::Leave);
                }
                Ok(ToWorker::Abort(number)) => self.channel.abort(number),
                Err(_) => die(),
            }
        }
    }
}

impl Reports<'_> {
    /// Says that this worker can be one of a group, and waits for one.
    pub(super) fn next_group(
        &mut self,
        vector_len: usize,
        step: Option<Step>,
        address: Option<SocketAddr>,
    ) -> Next {
        self.channel
            .phase
            .store(code(Phase::Waiting), Ordering::Relaxed);
        self.channel.send(&FromWorker::Ready {
            vector_len: vector_len as u64,
            step,
            address,
        });
        // The listener ends with the process.
        self.groups.recv().unwrap_or(Next::Leave)
    }

    /// This worker is in the group `number` from now on.
    pub(super) fn enter(&mut self, number: u64, handle: Handle) {
        self.number = number;
        let mut group = self.channel.group();
        if number <= group.aborted {
            handle.abort();
        }
        group.current = Some((number, handle));
    }

    /// This worker is in no group.
    pub(super) fn leave(&mut self) {
        self.channel.group().current = None;
    }
}

/// The supervisor is gone. A signal ends the process without waiting for anything in it.
fn die() {
    let _ = kill_process(getpid(), Signal::KILL);
}

impl Reporter for Reports<'_> {
    fn event(&mut self, place: Option<Place>, event: Event) {
        if let Event::StepFinished(report) = &event {
            self.channel
                .step
                .store(report.step.get(), Ordering::Relaxed);
        }
        self.channel.send(&FromWorker::Event {
            place,
            event: Box::new(finite(event)),
        });
    }

    fn agreed(&mut self) {
        self.channel.send(&FromWorker::Agreed);
    }

    fn command(&mut self) -> Option<Command> {
        loop {
            let (number, command) = self.commands.try_recv().ok()?;
            // What the first worker of an earlier group was asked is asked again by the supervisor.
            if number == self.number {
                return Some(command);
            }
        }
    }

    fn phase(&mut self, step: Step, phase: Phase) {
        self.channel.step.store(step.get(), Ordering::Relaxed);
        self.channel.phase.store(code(phase), Ordering::Relaxed);
    }
}

/// Leaves out metric values that are no numbers: JSON has no word for them.
fn finite(mut event: Event) -> Event {
    match &mut event {
        Event::StepFinished(report) => report.metrics.retain(|_, value| value.is_finite()),
        Event::Evaluated { metrics, .. } => metrics.retain(|_, value| value.is_finite()),
        _ => {}
    }
    event
}

const PHASES: [Phase; 5] = [
    Phase::Preparing,
    Phase::Waiting,
    Phase::Stepping,
    Phase::Evaluating,
    Phase::Saving,
];

fn code(phase: Phase) -> u8 {
    match phase {
        Phase::Preparing => 0,
        Phase::Waiting => 1,
        Phase::Stepping => 2,
        Phase::Evaluating => 3,
        Phase::Saving => 4,
    }
}

fn phase(code: u8) -> Phase {
    PHASES
        .get(usize::from(code))
        .copied()
        .unwrap_or(Phase::Preparing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Epoch;
    use std::collections::BTreeMap;

    #[test]
    fn phases_survive_their_codes() {
        for known in PHASES {
            assert_eq!(phase(code(known)), known);
        }
    }

    fn pair() -> (Arc<Channel>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let channel = Channel {
            stream: Mutex::new(ours),
            step: AtomicU64::new(0),
            phase: AtomicU8::new(0),
            group: Mutex::default(),
        };
        (Arc::new(channel), theirs)
    }

    #[test]
    fn reports_commands_and_heartbeats_pass() {
        let (channel, mut supervisor) = pair();
        let mut reports = channel.start().unwrap();
        assert_eq!(reports.command(), None);
        reports.phase(Step::new(7), Phase::Evaluating);
        let place = Place {
            step: Step::new(7),
            index: 1,
        };
        let evaluated = Event::Evaluated {
            step: Step::new(7),
            epoch: Epoch::new(0),
            split: "valid".to_string(),
            samples: 1,
            seconds: 0.1,
            metrics: BTreeMap::from([("loss".to_string(), 0.5), ("auroc".to_string(), f64::NAN)]),
        };
        reports.event(Some(place), evaluated);
        match wire::receive(&mut supervisor).unwrap() {
            FromWorker::Event {
                place: Some(found),
                event,
            } if found == place => match *event {
                Event::Evaluated { metrics, .. } => assert_eq!(metrics.len(), 1),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
        let heartbeat = FromWorker::Heartbeat {
            step: Step::new(7),
            phase: Phase::Evaluating,
            position: None,
        };
        assert_eq!(
            wire::receive::<FromWorker>(&mut supervisor).unwrap(),
            heartbeat
        );
        let command = ToWorker::Command(Command::Checkpoint);
        wire::send(&mut supervisor, &command).unwrap();
        while reports.command() != Some(Command::Checkpoint) {
            thread::yield_now();
        }
        // The end of this channel would end the process.
        std::mem::forget(supervisor);
    }
}
