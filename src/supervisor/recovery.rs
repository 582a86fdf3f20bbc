//! The decisions of a supervisor: what happened comes in, what to do comes out. Pure: no clock, no
//! process, no file, so that every case is a line of a table in the tests.
//!
//! Workers are known by the number of their slot. Once all that are wanted are ready, they are told to
//! form a group. When one is lost, the others are told to leave the group; they keep their state in
//! memory, and with a replacement they form the next one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::death::Death;
use super::ending::Ending;
use super::known::Known;
use super::member::{LastWord, Member, Standing};
use super::reform::Reform;
use crate::config::{Recovery, SumOrder};
use crate::run::wire::{FromWorker, Phase, WIRE_VERSION};
use crate::run::{
    Attempt, Command, Event, Fault, Place, Rank, RunState, StateCause, Step, WorldSize,
};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cause {
    /// The worker process of a slot runs.
    Launched { slot: Rank, pid: u32 },
    /// It could not be started.
    NotLaunched(Rank, Fault),
    /// What a group needs could not be had.
    NotFormed(Fault),
    /// It says something.
    Message(Rank, FromWorker),
    /// It closed its end of the channel, or sent what nobody understands.
    Closed(Rank, Option<String>),
    /// Its process is gone.
    Gone(Rank, Ending),
    /// Somebody asks for something; with who, in words.
    Asked(Command, String),
    /// Somebody asks for another number of workers; with who, in words.
    Resize(u32, String),
    /// Other runs have the devices; with the news to record.
    Queued(Event),
    /// There are places for this number of workers.
    Capacity(u32),
    /// A signal asks to leave; with its name.
    Signal(String),
    /// Time passed. With the processor time of the workers, where it is known.
    Tick { cpu_seconds: BTreeMap<Rank, f64> },
}

/// Something to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Write to the journal, before anything that follows.
    Record(Attempt, Event),
    /// Start a worker process.
    Launch(Attempt, Rank),
    /// Tell a worker.
    Send(Rank, Command),
    /// Make these workers a group, in the order of their ranks.
    Form {
        number: u64,
        slots: Vec<Rank>,
        vector_len: u64,
    },
    /// Tell a worker to leave the group of this number.
    Abort(Rank, u64),
    /// Tell a worker that waits for a group that it is not needed.
    Release(Rank),
    /// Record what the worker's threads are doing.
    Examine(Rank),
    /// End the worker process at once.
    Kill(Rank),
    /// The run is over for this supervisor.
    Finish(Finish),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finish {
    /// Last state.
    pub(super) state: RunState,
    /// Why, in words.
    pub(super) reason: String,
    /// The fault that ended it.
    pub(super) fault: Option<Fault>,
}

/// All that decisions depend on.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) policy: Recovery,
    pub(super) state: RunState,
    pub(super) attempt: Attempt,
    /// Number of workers that is wanted.
    pub(super) size: u32,
    /// Number of workers that was asked for; fewer are wanted while some cannot be had.
    pub(super) asked: u32,
    /// Largest number of workers that can share a step.
    pub(super) size_max: u32,
    /// Slots in which no process can be started at the moment.
    pub(super) barred: BTreeSet<Rank>,
    /// Living workers by slot.
    pub(super) members: BTreeMap<Rank, Member>,
    /// Slots whose process is being started.
    pub(super) starting: BTreeSet<Rank>,
    /// Number of the last group.
    pub(super) number: u64,
    /// Order in which gradients are summed.
    pub(super) order: SumOrder,
    /// Workers of the last group that the journal knows of.
    pub(super) world: Option<WorldSize>,
    /// Slots of the present group by rank; empty while there is none.
    pub(super) group: Vec<Rank>,
    /// The last event that all workers know alike.
    pub(super) told: Option<Place>,
    /// What the journal has.
    pub(super) known: Known,
    /// A recovery that is under way.
    pub(super) reform: Option<Reform>,
    pub(super) last_tick: Duration,
    /// What was asked of the run: a pause or its end.
    pub(super) wanted: Option<(Command, String)>,
    /// Whether a checkpoint was asked for that is not there yet.
    pub(super) checkpoint_wanted: bool,
    signals: u32,
    /// The last word of the worker that spoke first.
    pub(super) verdict: Option<LastWord>,
    /// Killed because a second signal came.
    pub(super) cut_short: bool,
    /// When workers died, within the window.
    pub(super) deaths: VecDeque<Duration>,
    pub(super) last_death: Option<Death>,
}

impl Machine {
    /// A run in `state` that is about to begin `attempt` with `size` workers, and that can have at
    /// most `size_max`.
    pub(super) fn new(
        policy: Recovery,
        state: RunState,
        attempt: Attempt,
        size: u32,
        size_max: u32,
    ) -> Self {
        Self {
            policy,
            state,
            attempt,
            size: size.max(1),
            asked: size.max(1),
            barred: BTreeSet::new(),
            size_max: size_max.max(1),
            members: BTreeMap::new(),
            starting: BTreeSet::new(),
            number: 0,
            order: SumOrder::Canonical,
            world: None,
            group: Vec::new(),
            told: None,
            known: Known::default(),
            reform: None,
            last_tick: Duration::ZERO,
            wanted: None,
            checkpoint_wanted: false,
            signals: 0,
            verdict: None,
            cut_short: false,
            deaths: VecDeque::new(),
            last_death: None,
        }
    }

    /// The run has this many devices: no more workers than that.
    pub(super) fn staff(&mut self, devices: u32) {
        self.size_max = self.size_max.min(devices.max(1));
        self.size = self.size.min(self.size_max);
        self.asked = self.size;
    }

    /// The run waits for devices.
    fn queued(&mut self, event: Event, actions: &mut Vec<Action>) {
        if self.state != RunState::Queued {
            self.change(
                StateCause::SlotsAwaited,
                "other runs have the devices",
                actions,
            );
        }
        self.record(event, actions);
    }

    /// Begins.
    pub(super) fn begin(&mut self, reason: &str) -> Vec<Action> {
        let mut actions = Vec::new();
        self.change(StateCause::Started, reason, &mut actions);
        for slot in (0..self.size).map(Rank::new) {
            self.launch(slot, &mut actions);
        }
        actions
    }

    /// Decides what to do about `cause`, `now` (since the supervisor started).
    pub(super) fn decide(&mut self, cause: Cause, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        match cause {
            Cause::Launched { slot, pid } => self.launched(slot, pid, now, &mut actions),
            Cause::NotLaunched(slot, fault) => self.not_launched(slot, fault, now, &mut actions),
            Cause::NotFormed(fault) => self.condemn(fault, &mut actions),
            Cause::Message(slot, message) => self.message(slot, message, now, &mut actions),
            Cause::Closed(slot, trouble) => self.closed(slot, trouble, now, &mut actions),
            Cause::Gone(slot, ending) => self.gone(slot, &ending, now, &mut actions),
            Cause::Asked(command, by) => self.asked(command, by, &mut actions),
            Cause::Resize(size, by) => self.resize(size, &by, now, &mut actions),
            Cause::Queued(event) => self.queued(event, &mut actions),
            Cause::Capacity(places) => self.grow(places, &mut actions),
            Cause::Signal(name) => self.signal(name, &mut actions),
            Cause::Tick { cpu_seconds } => self.tick(&cpu_seconds, now, &mut actions),
        }
        actions
    }

    pub(super) fn launch(&mut self, slot: Rank, actions: &mut Vec<Action>) {
        self.starting.insert(slot);
        actions.push(Action::Launch(self.attempt, slot));
    }

    fn launched(&mut self, slot: Rank, pid: u32, now: Duration, actions: &mut Vec<Action>) {
        self.starting.remove(&slot);
        let member = Member::new(pid, self.policy.hang_timeout_s, now);
        self.members.insert(slot, member);
        self.record(Event::WorkerStarted { rank: slot, pid }, actions);
        if self.verdict.is_some() || self.cut_short {
            actions.push(Action::Kill(slot));
        }
    }

    fn message(
        &mut self,
        slot: Rank,
        message: FromWorker,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        let Some(member) = self.members.get_mut(&slot) else {
            return;
        };
        member.heard = now;
        match message {
            FromWorker::Hello { version, .. } => {
                member.health.event(now);
                if version != WIRE_VERSION {
                    member.last_word = Some(LastWord::Failed(Fault::machine(format!(
                        "the worker speaks version {version} of the protocol, the supervisor {WIRE_VERSION}"
                    )).advise("the executable was replaced while the run was alive: start `trainer resume` again")));
                    actions.push(Action::Kill(slot));
                }
            }
            FromWorker::Heartbeat {
                step,
                phase,
                position,
            } => {
                let waits = position.is_some_and(|position| position.waiting);
                member.health.heartbeat(step, phase, waits, now);
            }
            FromWorker::Ready {
                vector_len, step, ..
            } => {
                member.health.event(now);
                let left = member.standing == Standing::Training;
                member.standing = Standing::Ready(vector_len, step);
                self.ready(slot, left, now, actions);
            }
            FromWorker::Agreed => {
                member.health.event(now);
                if let Some(reform) = &mut self.reform {
                    reform.agreed(now);
                }
            }
            FromWorker::Event { place, event } => self.event(slot, place, *event, now, actions),
            FromWorker::Done(outcome) => {
                member.last_word = Some(LastWord::Done(outcome));
                member.leaving = Some(now);
            }
            FromWorker::Failed(fault) => {
                let mut fault = *fault;
                fault.rank.get_or_insert(slot);
                member.last_word = Some(LastWord::Failed(fault));
                member.leaving = Some(now);
            }
        }
    }

    fn event(
        &mut self,
        slot: Rank,
        place: Option<Place>,
        event: Event,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        if let Some(member) = self.members.get_mut(&slot) {
            member.health.event(now);
            if let Event::MemoryMeasured { peak_bytes, .. } = event {
                member.peak_bytes = peak_bytes;
            }
        }
        if place.is_some() && place <= self.told {
            // Said once more by a worker that took the place of the one that had said it.
            return;
        }
        self.told = self.told.max(place);
        if self.known.has(&event) {
            return;
        }
        self.known.take(&event);
        let began = match &event {
            Event::TrainingBegan { step, .. } => {
                self.progressed(*step, now);
                true
            }
            Event::StepFinished(report) => {
                self.progressed(report.step, now);
                false
            }
            Event::CheckpointCommitted(_) | Event::CheckpointFailed { .. } => {
                self.checkpoint_wanted = false;
                false
            }
            _ => false,
        };
        let finished = match &event {
            Event::StepFinished(report) => Some(report.step),
            _ => None,
        };
        self.record(event, actions);
        if began && self.state == RunState::Starting {
            self.change(StateCause::TrainingBegan, "training began", actions);
        }
        if let Some(step) = finished
            && let Some(reform) = self.reform.take_if(|reform| reform.is_formed())
        {
            let world = self.group.len();
            self.record(reform.recovered(step, world, now), actions);
        }
    }

    /// The group has finished a step.
    fn progressed(&mut self, step: Step, now: Duration) {
        for slot in &self.group {
            if let Some(member) = self.members.get_mut(slot) {
                member.step = Some(step);
                member.health.heartbeat(step, Phase::Stepping, false, now);
            }
        }
    }

    fn closed(
        &mut self,
        slot: Rank,
        trouble: Option<String>,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        if let Some(member) = self.members.get_mut(&slot) {
            member.leaving.get_or_insert(now);
        }
        if let Some(trouble) = trouble {
            let message = format!("the channel to rank {slot} broke: {trouble}");
            self.record(Event::Warned { message }, actions);
            actions.push(Action::Kill(slot));
        }
    }

    fn asked(&mut self, command: Command, by: String, actions: &mut Vec<Action>) {
        if self.state == RunState::Queued && self.members.is_empty() && self.starting.is_empty() {
            self.leave_queue(command, &by, actions);
            return;
        }
        match command {
            Command::Checkpoint => self.checkpoint_wanted = true,
            Command::Pause => {
                if self.wanted.is_some() {
                    return;
                }
                let reason = format!("a pause was asked for by {by}");
                self.change(StateCause::PauseRequested, &reason, actions);
                self.wanted = Some((command, by));
            }
            Command::Stop => {
                if matches!(self.wanted, Some((Command::Stop, _))) {
                    return;
                }
                let message = format!("the end of the run was asked for by {by}");
                self.record(Event::Warned { message }, actions);
                self.wanted = Some((command, by));
            }
        }
        // Without a group it is said to the next one.
        if let Some(&first) = self.group.first() {
            actions.push(Action::Send(first, command));
        }
    }

    fn signal(&mut self, name: String, actions: &mut Vec<Action>) {
        self.signals += 1;
        if self.signals == 1 {
            self.asked(Command::Pause, name, actions);
        } else if !self.cut_short {
            self.cut_short = true;
            self.kill_all(actions);
        }
    }

    pub(super) fn kill_all(&self, actions: &mut Vec<Action>) {
        actions.extend(self.members.keys().copied().map(Action::Kill));
    }

    pub(super) fn record(&self, event: Event, actions: &mut Vec<Action>) {
        actions.push(Action::Record(self.attempt, event));
    }

    /// Moves the state. A cause without a transition leaves it, which the table of the tests shows
    /// not to happen.
    pub(super) fn change(&mut self, cause: StateCause, reason: &str, actions: &mut Vec<Action>) {
        if let Ok(next) = self.state.next(cause) {
            let from = std::mem::replace(&mut self.state, next);
            self.record(
                Event::StateChanged {
                    from,
                    to: next,
                    cause,
                    reason: reason.to_string(),
                },
                actions,
            );
        }
    }
}

#[cfg(test)]
#[path = "recovery/tests.rs"]
mod tests;
