//! The main loop of a supervisor: one channel of inputs, a pure decision, then actions.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::brief::Plan;
use super::control::Server;
use super::group;
use super::input::Input;
use super::launch::Launch;
use super::link::{Link, LinkId};
use super::queue::{Waiting, Wanted};
use super::recorder::Recorder;
use super::recovery::{Action, Cause, Finish};
use super::signal::Listening;
use crate::device::{Held, probe, step_back};
use crate::run::wire::{Formation, FromWorker, Job, ToWorker, WIRE_VERSION};
use crate::run::{
    Attempt, ControlReply, Environment, Event, Fault, Rank, RunDir, RunState, Seat, Step, WorldSize,
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

/// A supervisor at work.
pub(super) struct Session<'a> {
    pub(super) plan: Plan,
    launcher: &'a mut dyn Launch,
    pub(super) recorder: Recorder,
    inputs: Receiver<Input>,
    sender: SyncSender<Input>,
    /// Inputs that came while something else was waited for.
    deferred: VecDeque<Input>,
    /// Living workers by slot.
    workers: BTreeMap<Rank, Link>,
    /// Processes started so far.
    launches: u64,
    /// Where workers wait for the others of their next group.
    addresses: BTreeMap<Rank, SocketAddr>,
    /// The wait for devices.
    queue: Option<Waiting>,
    /// Devices of this run, by slot, kept from other runs as long as this lives.
    held: Option<Held>,
    /// Memory that the workers of the present group share.
    segment: Option<OwnedFd>,
    begun: Instant,
    ticked: Instant,
    environment: Environment,
    /// Whether the environment is as complete as it gets.
    probed: bool,
    /// Last attempt that has begun.
    announced: Option<Attempt>,
    /// Attempt that waits for the environment to be recorded.
    unannounced: Option<Attempt>,
    /// Who waits for a checkpoint of this step or a later one.
    pub(super) waiting: Vec<(Step, SyncSender<ControlReply>)>,
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
            workers: BTreeMap::new(),
            launches: 0,
            addresses: BTreeMap::new(),
            queue: None,
            held: None,
            segment: None,
            begun: now,
            ticked: now,
            environment: Environment::default(),
            probed: false,
            announced: None,
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
        self.launcher.listen(&self.sender);
        match self.plan.wanted.take() {
            Some(wanted) => self.await_slots(wanted),
            None => self.begin(),
        }
        // Workers have started; what follows runs beside them.
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
        let fault = self
            .finish
            .as_ref()
            .and_then(|finish| finish.fault.as_ref());
        let code = fault.map_or(0, |fault| fault.class.code());
        self.launcher.finish(code);
        let ended = ControlReply::Refused("the run has ended".to_string());
        self.answer_waiting(Step::new(u64::MAX), &ended);
        self.end(server.ok())
    }

    fn begin(&mut self) {
        let reason = std::mem::take(&mut self.plan.reason);
        let actions = self.plan.machine.begin(&reason);
        self.perform(actions);
    }

    fn await_slots(&mut self, wanted: Wanted) {
        match Waiting::start(wanted, &self.sender) {
            Ok(waiting) => self.queue = Some(waiting),
            Err(fault) => self.decide(Cause::NotFormed(fault)),
        }
    }

    /// What became of the wait for devices.
    fn slots(&mut self, taken: Result<Option<Held>, Fault>) {
        self.queue = None;
        match taken {
            Ok(Some(held)) => {
                let devices = held.devices().to_vec();
                let count = u32::try_from(devices.len()).unwrap_or(u32::MAX);
                // Workers of other hosts have devices of their own.
                let elsewhere = self.plan.machine.asked.saturating_sub(self.plan.per_node);
                self.plan.machine.staff(count.saturating_add(elsewhere));
                self.recorder
                    .record(self.plan.machine.attempt, Event::SlotsTaken { devices });
                self.held = Some(held);
                self.begin();
            }
            // Whoever asked the run to leave has had its answer.
            Ok(None) => {}
            Err(fault) => self.decide(Cause::NotFormed(fault)),
        }
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

    /// The slot of a worker, if it has not been replaced.
    fn slot_of(&self, id: LinkId) -> Option<Rank> {
        let mut workers = self.workers.iter();
        workers
            .find(|(_, link)| link.id == id)
            .map(|(&slot, _)| slot)
    }

    fn take(&mut self, input: Input) {
        let slot = match &input {
            Input::Worker(id, _) | Input::Closed(id, _) | Input::Gone(id, _) => self.slot_of(*id),
            _ => None,
        };
        match (input, slot) {
            (Input::Worker(_, message), Some(slot)) => {
                if let FromWorker::Ready { address, .. } = &message {
                    self.addresses.remove(&slot);
                    self.addresses
                        .extend(address.map(|address| (slot, address)));
                }
                self.notice_checkpoint(&message);
                self.decide(Cause::Message(slot, message));
            }
            (Input::Closed(_, trouble), Some(slot)) => self.decide(Cause::Closed(slot, trouble)),
            (Input::Gone(_, ending), Some(slot)) => {
                self.workers.remove(&slot);
                self.await_probe();
                self.decide(Cause::Gone(slot, ending));
            }
            // The last words of a worker that was replaced.
            (Input::Worker(..) | Input::Closed(..) | Input::Gone(..), None) => {}
            (Input::Queued(event), _) => self.decide(Cause::Queued(event)),
            (Input::Slots(taken), _) => self.slots(taken),
            (Input::Asked(command, by), _) => self.decide(Cause::Asked(command, by)),
            (Input::Signal(name), _) => self.decide(Cause::Signal(name.to_string())),
            (Input::Control(request, reply), _) => self.answer(request, reply),
            (Input::Follow(viewer), _) => self.recorder.follow(viewer),
            (Input::Probed(environment, complete), _) => self.learn(*environment, complete),
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
            .workers
            .iter()
            .filter_map(|(&slot, worker)| Some((slot, worker.cpu_seconds()?)))
            .collect();
        if let Some(places) = self.launcher.capacity() {
            self.decide(Cause::Capacity(places));
        }
        self.decide(Cause::Tick { cpu_seconds });
    }

    pub(super) fn decide(&mut self, cause: Cause) {
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
                Action::Launch(attempt, slot) => self.launch(attempt, slot),
                Action::Form {
                    number,
                    slots,
                    vector_len,
                } => self.form(number, &slots, vector_len),
                Action::Send(slot, command) => self.send(slot, &ToWorker::Command(command)),
                Action::Abort(slot, number) => self.send(slot, &ToWorker::Abort(number)),
                Action::Release(slot) => self.send(slot, &ToWorker::Leave),
                Action::Examine(slot) => {
                    if let Some(worker) = self.workers.get(&slot) {
                        worker.examine(&self.plan.dir, slot);
                    }
                }
                Action::Kill(slot) => {
                    if let Some(worker) = self.workers.get(&slot) {
                        worker.kill();
                    }
                }
                Action::Finish(finish) => self.finish = Some(finish),
            }
        }
    }

    fn send(&mut self, slot: Rank, message: &ToWorker) {
        if let Some(worker) = self.workers.get_mut(&slot) {
            worker.send(message);
        }
    }

    /// Makes workers a group: those of one host share memory that ends with them.
    fn form(&mut self, number: u64, slots: &[Rank], vector_len: u64) {
        let world = WorldSize::new(u32::try_from(slots.len()).unwrap_or(u32::MAX));
        let addresses = slots.iter().map(|slot| self.addresses.get(slot).copied());
        let peers: Vec<SocketAddr> = addresses.collect::<Option<_>>().unwrap_or_default();
        let shares = peers.is_empty();
        let shared = group::share(
            world,
            vector_len,
            (self.plan.shards, self.plan.order),
            shares,
        );
        let (segment, nodes_max) = match shared {
            Ok(shared) => shared,
            Err(fault) => return self.decide(Cause::NotFormed(fault)),
        };
        let path = segment.as_ref().map(group::path);
        for (rank, slot) in (0..).map(Rank::new).zip(slots) {
            let formation = Formation {
                number,
                seat: Seat { rank, world },
                vector_len,
                nodes_max,
                segment: path.clone(),
                peers: peers.clone(),
                timeout_ms: self.plan.timeout_ms,
            };
            self.send(*slot, &ToWorker::Form(formation));
        }
        // The group before has been left: its memory is no longer needed.
        self.segment = segment;
    }

    fn launch(&mut self, attempt: Attempt, slot: Rank) {
        if self.announced < Some(attempt) {
            self.announced = Some(attempt);
            self.unannounced = Some(attempt);
        }
        self.launches += 1;
        let id = LinkId(self.launches);
        let world = self.plan.machine.size;
        // Any worker may be the one that looks for a checkpoint; a named one is for the first.
        let checkpoint = match slot.get() {
            0 => self.plan.checkpoint.take(),
            _ => None,
        };
        let job = Job {
            version: WIRE_VERSION,
            config: self.plan.config.clone(),
            config_sha256: self.plan.config_sha256.clone(),
            run_dir: self.plan.dir.root().to_path_buf(),
            rank: slot,
            world_size: WorldSize::new(world),
            attempt,
            checkpoint,
            threads: self.plan.threads(world),
            device: self
                .held
                .as_ref()
                .and_then(|held| held.devices().get(slot.get() as usize).cloned()),
            network: self.plan.network.clone(),
        };
        let link = self
            .launcher
            .launch(&job)
            .and_then(|launched| Link::start(launched, id, &job, &self.sender));
        match link {
            Ok(link) => {
                let pid = link.pid;
                self.workers.insert(slot, link);
                self.decide(Cause::Launched { slot, pid });
            }
            Err(error) => {
                let fault = Fault::machine(format!("cannot start a worker process: {error}"))
                    .advise("check the limits on processes and open files (`ulimit -a`)");
                self.decide(Cause::NotLaunched(slot, fault));
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

    fn end(mut self, server: Option<Server>) -> Result<Finished, Fault> {
        // An attempt that ended before the machine was known is announced with what is.
        self.probed = true;
        self.announce();
        let finish = self.finish.take();
        let dir = self.plan.dir.clone();
        let state = self.plan.machine.state;
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
