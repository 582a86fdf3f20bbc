//! The main loop of a supervisor: one channel of inputs, a pure decision, then actions.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::control::{Server, Viewer};
use super::ending::Ending;
use super::launch::Launch;
use super::link::Link;
use super::recorder::Recorder;
use super::recovery::{Action, Cause, Finish, Machine, RANK};
use super::signal::Listening;
use crate::device::{ProbeOptions, cpu_seconds, probe, step_back};
use crate::run::wire::{FromWorker, Job, WIRE_VERSION};
use crate::run::{
    Attempt, Command, ControlReply, ControlRequest, Environment, Event, Fault, RunDir, RunState,
    Step, WorldSize,
};

/// Inputs that may wait. Together with the socket's buffer this is how far a worker gets ahead of a
/// supervisor that waits for a disk.
const INPUTS_MAX: usize = 8192;

/// Inputs that are taken between two writes to the journal.
const BATCH_MAX: usize = 256;

/// Time between two looks at the worker's health.
const TICK: Duration = Duration::from_secs(1);

/// Longest time that the beginning of an attempt waits for the facts about the machine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time that the end of an attempt waits for them.
const PROBE_GRACE: Duration = Duration::from_secs(2);

/// Everything that can happen to a supervisor.
pub(super) enum Input {
    /// A worker says something.
    Worker(Attempt, FromWorker),
    /// A worker closed its channel, or garbled it.
    Closed(Attempt, Option<String>),
    /// A worker process is gone.
    Gone(Attempt, Ending),
    /// A signal asks to leave.
    Signal(&'static str),
    /// Another process asks for something.
    Control(ControlRequest, SyncSender<ControlReply>),
    /// Another process wants to follow.
    Follow(Viewer),
    /// More is known about the machine; `true` when that is all.
    Probed(Box<Environment>, bool),
}

/// How a run ended, for this supervisor.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Its directory.
    pub dir: RunDir,
    /// Last state.
    pub state: RunState,
    /// Why, in words.
    pub reason: String,
    /// The fault that ended it; decides the exit code.
    pub fault: Option<Fault>,
    /// Whether training began, in any attempt.
    pub began: bool,
}

/// What a session is about.
pub(super) struct Plan {
    /// Files of the run.
    pub(super) dir: RunDir,
    /// Resolved config as TOML.
    pub(super) config: String,
    /// Its hash.
    pub(super) config_sha256: String,
    /// Decisions, before the first.
    pub(super) machine: Machine,
    /// Why the run starts, in words.
    pub(super) reason: String,
    /// Checkpoint that the first worker must continue from; later ones take the newest.
    pub(super) checkpoint: Option<String>,
    /// Facts that the probe cannot find out.
    pub(super) probe: ProbeOptions,
}

/// A supervisor at work.
pub(super) struct Session<'a> {
    plan: Plan,
    launcher: &'a mut dyn Launch,
    recorder: Recorder,
    inputs: Receiver<Input>,
    sender: SyncSender<Input>,
    /// Inputs that came while something else was waited for.
    deferred: VecDeque<Input>,
    worker: Option<Link>,
    begun: Instant,
    ticked: Instant,
    environment: Environment,
    /// Whether the environment is as complete as it gets.
    probed: bool,
    /// Attempt that waits for the environment to be recorded.
    unannounced: Option<Attempt>,
    /// Who waits for a checkpoint of this step or a later one.
    waiting: Vec<(Step, SyncSender<ControlReply>)>,
    finish: Option<Finish>,
}

impl<'a> Session<'a> {
    /// A session that has not begun.
    pub(super) fn new(plan: Plan, launcher: &'a mut dyn Launch, recorder: Recorder) -> Self {
        let (sender, inputs) = sync_channel(INPUTS_MAX);
        let now = Instant::now();
        Self {
            plan,
            launcher,
            recorder,
            inputs,
            sender,
            deferred: VecDeque::new(),
            worker: None,
            begun: now,
            ticked: now,
            environment: Environment::default(),
            probed: false,
            unannounced: None,
            waiting: Vec::new(),
            finish: None,
        }
    }

    /// Runs until the run is over for this supervisor.
    ///
    /// # Errors
    ///
    /// When the last word could not be written to the journal.
    pub(super) fn run(mut self) -> Result<Finished, Fault> {
        let reason = std::mem::take(&mut self.plan.reason);
        let actions = self.plan.machine.begin(&reason);
        self.perform(actions);
        // The worker has started; what follows runs beside it.
        self.start_probe();
        let signals = Listening::start(&self.sender);
        let server = Server::start(&self.plan.dir, &self.sender);
        if let Err(error) = &server {
            self.recorder.warn(format!(
                "no control socket: {error}; `trainer pause`, `stop` and `checkpoint` do not reach \
                 this run, signals do"
            ));
        }
        while self.finish.is_none() {
            self.turn();
        }
        drop(signals);
        let ended = ControlReply::Refused("the run has ended".to_string());
        self.answer_waiting(Step::new(u64::MAX), &ended);
        self.end(server.ok())
    }

    /// One turn: waits for an input or the next deadline, takes what is there, writes, acts.
    fn turn(&mut self) {
        self.recorder.flush();
        self.recorder.settle();
        let mut batch = std::mem::take(&mut self.deferred);
        if batch.is_empty()
            && let Ok(input) = self.inputs.recv_timeout(self.patience())
        {
            batch.push_back(input);
        }
        while batch.len() < BATCH_MAX
            && let Ok(input) = self.inputs.try_recv()
        {
            batch.push_back(input);
        }
        // A worker is judged only when everything it said has been heard.
        let heard_all = batch.len() < BATCH_MAX;
        for input in batch {
            self.take(input);
        }
        if heard_all && self.ticked.elapsed() >= TICK {
            self.tick();
        }
    }

    fn patience(&self) -> Duration {
        let tick = TICK.saturating_sub(self.ticked.elapsed());
        match self.recorder.due() {
            Some(due) => tick.min(due.saturating_duration_since(Instant::now())),
            None => tick,
        }
    }

    fn take(&mut self, input: Input) {
        let current = self.plan.machine.attempt();
        match input {
            Input::Worker(attempt, message) if attempt == current => {
                self.notice_checkpoint(&message);
                self.decide(Cause::Message(message));
            }
            Input::Closed(attempt, trouble) if attempt == current => {
                self.decide(Cause::Closed(trouble));
            }
            Input::Gone(attempt, ending) if attempt == current => {
                self.worker = None;
                self.await_probe();
                self.decide(Cause::Gone(ending));
            }
            // The last words of a worker that was replaced.
            Input::Worker(..) | Input::Closed(..) | Input::Gone(..) => {}
            Input::Signal(name) => self.decide(Cause::Signal(name.to_string())),
            Input::Control(request, reply) => self.answer(request, reply),
            Input::Follow(viewer) => self.recorder.follow(viewer),
            Input::Probed(environment, complete) => self.learn(*environment, complete),
        }
    }

    fn tick(&mut self) {
        self.ticked = Instant::now();
        if !self.probed && self.begun.elapsed() >= PROBE_TIMEOUT {
            self.probed = true;
            self.recorder.warn(
                "the facts about this machine could not be found out in time; what is known is recorded",
            );
            self.announce();
        }
        let cpu_seconds = self
            .worker
            .as_ref()
            .and_then(|worker| cpu_seconds(worker.pid));
        self.decide(Cause::Tick { cpu_seconds });
    }

    fn decide(&mut self, cause: Cause) {
        let actions = self.plan.machine.decide(cause, self.begun.elapsed());
        self.perform(actions);
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            if let Action::Record(attempt, event) = action {
                self.recorder.record(attempt, event);
                continue;
            }
            // Written before it is acted upon.
            self.recorder.flush();
            match action {
                Action::Record(..) => {}
                Action::Launch(attempt) => self.launch(attempt),
                Action::Send(command) => {
                    if let Some(worker) = &mut self.worker {
                        worker.send(command);
                    }
                }
                Action::Examine => {
                    if let Some(worker) = &self.worker {
                        worker.examine(&self.plan.dir, RANK);
                    }
                }
                Action::Kill => {
                    if let Some(worker) = &self.worker {
                        worker.kill();
                    }
                }
                Action::Finish(finish) => self.finish = Some(finish),
            }
        }
    }

    fn launch(&mut self, attempt: Attempt) {
        self.unannounced = Some(attempt);
        let job = Job {
            version: WIRE_VERSION,
            config: self.plan.config.clone(),
            config_sha256: self.plan.config_sha256.clone(),
            run_dir: self.plan.dir.root().to_path_buf(),
            rank: RANK,
            world_size: WorldSize::new(1),
            attempt,
            checkpoint: self.plan.checkpoint.take(),
            threads: self.plan.probe.threads,
        };
        let link = self
            .launcher
            .launch(&job)
            .and_then(|launched| Link::start(launched, &job, &self.sender));
        match link {
            Ok(link) => {
                let pid = link.pid;
                self.worker = Some(link);
                self.decide(Cause::Launched { pid });
            }
            Err(error) => {
                let fault = Fault::machine(format!("cannot start a worker process: {error}"))
                    .advise("check the limits on processes and open files (`ulimit -a`)");
                self.decide(Cause::NotLaunched(fault));
            }
        }
        self.announce();
    }

    /// Records the beginning of an attempt once the machine is known.
    fn announce(&mut self) {
        if self.probed
            && let Some(attempt) = self.unannounced.take()
        {
            let event = Event::AttemptStarted {
                supervisor_pid: std::process::id(),
                environment: Box::new(self.environment.clone()),
            };
            self.recorder.record(attempt, event);
        }
    }

    /// Takes what is known about the machine so far.
    fn learn(&mut self, environment: Environment, complete: bool) {
        self.environment = environment;
        self.probed |= complete;
        self.announce();
    }

    /// An attempt that ended within moments is announced before its end is recorded.
    fn await_probe(&mut self) {
        let until = Instant::now() + PROBE_GRACE;
        while self.unannounced.is_some() {
            let left = until.saturating_duration_since(Instant::now());
            match self.inputs.recv_timeout(left) {
                Ok(Input::Probed(environment, complete)) => self.learn(*environment, complete),
                Ok(other) => self.deferred.push_back(other),
                Err(_) => {
                    self.probed = true;
                    self.announce();
                }
            }
        }
    }

    fn start_probe(&mut self) {
        let options = self.plan.probe.clone();
        let sender = self.sender.clone();
        let dir = self.plan.dir.clone();
        let thread = std::thread::Builder::new()
            .name("probe".to_string())
            .spawn(move || {
                step_back();
                make_durable(&dir);
                let send = |environment: &Environment, complete| {
                    let _ = sender.send(Input::Probed(Box::new(environment.clone()), complete));
                };
                let environment = probe(&options, |so_far| send(so_far, false));
                send(&environment, true);
            });
        self.probed = thread.is_err();
    }

    fn answer(&mut self, request: ControlRequest, reply: SyncSender<ControlReply>) {
        let answer = match request {
            ControlRequest::Status => match self.recorder.summary() {
                Some(summary) => ControlReply::Status(Box::new(summary.clone())),
                None => ControlReply::Refused("nothing is known yet".to_string()),
            },
            ControlRequest::Pause => {
                self.decide(Cause::Asked(Command::Pause, "`trainer pause`".to_string()));
                ControlReply::Accepted
            }
            ControlRequest::Stop => {
                self.decide(Cause::Asked(Command::Stop, "`trainer stop`".to_string()));
                ControlReply::Accepted
            }
            ControlRequest::Checkpoint => {
                self.decide(Cause::Asked(
                    Command::Checkpoint,
                    "`trainer checkpoint`".to_string(),
                ));
                let step = self.recorder.summary().map(|summary| summary.step);
                self.waiting.push((step.unwrap_or_default(), reply));
                return;
            }
            ControlRequest::Follow => ControlReply::Refused("follow is not a request".to_string()),
        };
        let _ = reply.try_send(answer);
    }

    /// Answers those who wait for a checkpoint.
    fn notice_checkpoint(&mut self, message: &FromWorker) {
        if let FromWorker::Event(event) = message {
            match event.as_ref() {
                Event::CheckpointCommitted(info) => {
                    self.answer_waiting(info.step, &ControlReply::Accepted);
                }
                Event::CheckpointFailed { step, reason } => {
                    self.answer_waiting(*step, &ControlReply::Refused(reason.clone()));
                }
                _ => {}
            }
        }
    }

    /// Answers those who wait for a checkpoint of `step` or an earlier one.
    fn answer_waiting(&mut self, step: Step, answer: &ControlReply) {
        self.waiting.retain(|(since, reply)| {
            let waits = *since > step;
            if !waits {
                let _ = reply.try_send(answer.clone());
            }
            waits
        });
    }

    fn end(mut self, server: Option<Server>) -> Result<Finished, Fault> {
        // An attempt that ended before the machine was known is announced with what is.
        self.probed = true;
        self.announce();
        let finish = self.finish.take();
        let dir = self.plan.dir.clone();
        let state = self.plan.machine.state();
        let began = (self.recorder.summary()).is_some_and(|summary| summary.steps_total > 0);
        let recorded = self.recorder.finish();
        drop(server);
        recorded?;
        Ok(Finished {
            dir,
            state,
            reason: finish
                .as_ref()
                .map(|finish| finish.reason.clone())
                .unwrap_or_default(),
            fault: finish.and_then(|finish| finish.fault),
            began,
        })
    }
}

/// Brings the files of a run that are written once to the disk, with their names. Not waited for: a
/// machine that goes down within the first second of a run takes at worst this run with it.
fn make_durable(dir: &RunDir) {
    let folders = [Some(dir.root()), dir.root().parent()];
    let files = [dir.identity(), dir.config(), dir.config_source()];
    let paths = files.iter().map(PathBuf::as_path);
    for path in paths.chain(folders.into_iter().flatten()) {
        let _ = File::open(path).and_then(|file| file.sync_all());
    }
}
