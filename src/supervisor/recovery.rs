//! The decisions of a supervisor: what happened comes in, what to do comes out. Pure: no clock, no
//! process, no file, so that every case is a line of a table in the tests.

use std::collections::VecDeque;
use std::time::Duration;

use super::death::Death;
use super::ending::Ending;
use super::hang::Health;
use crate::config::Recovery;
use crate::run::wire::{FromWorker, Outcome, Phase, WIRE_VERSION};
use crate::run::{Attempt, Command, Event, Fault, Rank, RunState, StateCause, Step};

/// The only rank of this version.
pub(super) const RANK: Rank = Rank::new(0);

/// How long a worker may take to leave after its last word.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A longer time between two ticks means that the supervisor itself was stopped or starved.
const TICK_GAP_MAX: Duration = Duration::from_secs(5);

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cause {
    /// The worker process runs.
    Launched { pid: u32 },
    /// It could not be started.
    NotLaunched(Fault),
    /// It says something.
    Message(FromWorker),
    /// It closed its end of the channel, or sent what nobody understands.
    Closed(Option<String>),
    /// Its process is gone.
    Gone(Ending),
    /// Somebody asks for something; with who, in words.
    Asked(Command, String),
    /// A signal asks to leave; with its name.
    Signal(String),
    /// Time passed. With the processor time of the worker, where it is known.
    Tick { cpu_seconds: Option<f64> },
}

/// Something to do, in this order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Write to the journal, before anything that follows.
    Record(Attempt, Event),
    /// Start a worker process.
    Launch(Attempt),
    /// Tell the worker.
    Send(Command),
    /// Record what the worker's threads are doing.
    Examine,
    /// End the worker process at once.
    Kill,
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

/// What a worker said last.
#[derive(Clone, Debug, PartialEq)]
enum LastWord {
    Done(Outcome),
    Failed(Fault),
}

/// All that decisions depend on.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    policy: Recovery,
    state: RunState,
    attempt: Attempt,
    step: Option<Step>,
    pid: u32,
    health: Health,
    last_tick: Duration,
    /// Since when the worker should be leaving.
    leaving: Option<Duration>,
    last_word: Option<LastWord>,
    /// What was asked of the run: a pause or its end.
    wanted: Option<(Command, String)>,
    signals: u32,
    /// Killed because it hung.
    hung: bool,
    /// Killed because a second signal came.
    cut_short: bool,
    /// When workers died, within the window.
    deaths: VecDeque<Duration>,
    last_death: Option<Death>,
}

impl Machine {
    /// A run in `state` that is about to begin `attempt`.
    pub(super) fn new(policy: Recovery, state: RunState, attempt: Attempt) -> Self {
        Self {
            health: Health::new(policy.hang_timeout_s, Step::new(0), Duration::ZERO),
            policy,
            state,
            attempt,
            step: None,
            pid: 0,
            last_tick: Duration::ZERO,
            leaving: None,
            last_word: None,
            wanted: None,
            signals: 0,
            hung: false,
            cut_short: false,
            deaths: VecDeque::new(),
            last_death: None,
        }
    }

    /// Attempt that runs.
    pub(super) fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// State of the run.
    pub(super) fn state(&self) -> RunState {
        self.state
    }

    /// Begins.
    pub(super) fn begin(&mut self, reason: &str) -> Vec<Action> {
        let mut actions = Vec::new();
        self.change(StateCause::Started, reason, &mut actions);
        actions.push(Action::Launch(self.attempt));
        actions
    }

    /// Decides what to do about `cause`, `now` (since the supervisor started).
    pub(super) fn decide(&mut self, cause: Cause, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        match cause {
            Cause::Launched { pid } => self.launched(pid, now, &mut actions),
            Cause::NotLaunched(fault) => self.fail(fault, &mut actions),
            Cause::Message(message) => self.message(message, now, &mut actions),
            Cause::Closed(trouble) => self.closed(trouble, now, &mut actions),
            Cause::Gone(ending) => self.gone(ending, now, &mut actions),
            Cause::Asked(command, by) => self.asked(command, by, &mut actions),
            Cause::Signal(name) => self.signal(name, &mut actions),
            Cause::Tick { cpu_seconds } => self.tick(cpu_seconds, now, &mut actions),
        }
        actions
    }

    fn launched(&mut self, pid: u32, now: Duration, actions: &mut Vec<Action>) {
        self.pid = pid;
        self.leaving = None;
        self.hung = false;
        self.step = None;
        self.health = Health::new(self.policy.hang_timeout_s, Step::new(0), now);
        self.record(Event::WorkerStarted { rank: RANK, pid }, actions);
    }

    fn message(&mut self, message: FromWorker, now: Duration, actions: &mut Vec<Action>) {
        match message {
            FromWorker::Hello { version, .. } => {
                self.health.event(now);
                if version != WIRE_VERSION {
                    self.last_word = Some(LastWord::Failed(Fault::machine(format!(
                        "the worker speaks version {version} of the protocol, the supervisor {WIRE_VERSION}"
                    )).advise("the executable was replaced while the run was alive: start `trainer resume` again")));
                    actions.push(Action::Kill);
                }
            }
            FromWorker::Heartbeat { step, phase } => self.health.heartbeat(step, phase, now),
            FromWorker::Event(event) => self.event(*event, now, actions),
            FromWorker::Done(outcome) => {
                self.last_word = Some(LastWord::Done(outcome));
                self.leaving = Some(now);
            }
            FromWorker::Failed(fault) => {
                let mut fault = *fault;
                fault.rank.get_or_insert(RANK);
                self.last_word = Some(LastWord::Failed(fault));
                self.leaving = Some(now);
            }
        }
    }

    fn event(&mut self, event: Event, now: Duration, actions: &mut Vec<Action>) {
        self.health.event(now);
        let began = match &event {
            Event::TrainingBegan { step, .. } => {
                self.step = Some(*step);
                self.health.heartbeat(*step, Phase::Stepping, now);
                true
            }
            Event::StepFinished(report) => {
                self.step = Some(report.step);
                self.health.step(report.step, now);
                false
            }
            _ => false,
        };
        self.record(event, actions);
        if began && self.state == RunState::Starting {
            self.change(StateCause::TrainingBegan, "training began", actions);
        }
    }

    fn closed(&mut self, trouble: Option<String>, now: Duration, actions: &mut Vec<Action>) {
        self.leaving.get_or_insert(now);
        if let Some(trouble) = trouble {
            let message = format!("the channel to rank {RANK} broke: {trouble}");
            self.record(Event::Warned { message }, actions);
            actions.push(Action::Kill);
        }
    }

    fn asked(&mut self, command: Command, by: String, actions: &mut Vec<Action>) {
        match command {
            Command::Checkpoint => {}
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
        actions.push(Action::Send(command));
    }

    fn signal(&mut self, name: String, actions: &mut Vec<Action>) {
        self.signals += 1;
        if self.signals == 1 {
            self.asked(Command::Pause, name, actions);
        } else if !self.cut_short {
            self.cut_short = true;
            actions.push(Action::Kill);
        }
    }

    fn tick(&mut self, cpu_seconds: Option<f64>, now: Duration, actions: &mut Vec<Action>) {
        let gap = now.saturating_sub(self.last_tick);
        self.last_tick = now;
        if gap > TICK_GAP_MAX {
            self.health.reset(now);
        }
        if let Some(since) = self.leaving {
            if now.saturating_sub(since) >= EXIT_TIMEOUT {
                self.leaving = Some(now);
                actions.push(Action::Kill);
            }
            return;
        }
        if self.hung || self.cut_short {
            return;
        }
        if let Some(verdict) = self.health.verdict(now, cpu_seconds) {
            self.hung = true;
            let message = format!(
                "rank {RANK} (process {}) {verdict}; it is replaced, and what its threads did is in \
                 logs/rank-{RANK}.log",
                self.pid
            );
            self.record(Event::Warned { message }, actions);
            actions.push(Action::Examine);
            actions.push(Action::Kill);
        }
    }

    /// The process is gone: an end, or a death to recover from.
    fn gone(&mut self, ending: Ending, now: Duration, actions: &mut Vec<Action>) {
        match self.last_word.take() {
            Some(LastWord::Done(outcome)) => {
                self.exited(&ending, false, actions);
                self.done(outcome, actions);
            }
            Some(LastWord::Failed(fault)) => {
                self.exited(&ending, false, actions);
                self.fail(fault, actions);
            }
            None => match self.wanted.clone() {
                Some((command, by)) => {
                    self.exited(&ending, false, actions);
                    self.left_early(command, &by, &ending, actions);
                }
                None if self.cut_short => {
                    self.exited(&ending, false, actions);
                    self.left_early(Command::Pause, "a signal", &ending, actions);
                }
                None => self.died(ending, now, actions),
            },
        }
    }

    fn done(&mut self, outcome: Outcome, actions: &mut Vec<Action>) {
        let by = match &self.wanted {
            Some((_, by)) => format!("asked for by {by}"),
            None => "decided by the worker".to_string(),
        };
        let stops = matches!(self.wanted, Some((Command::Stop, _)));
        let (cause, reason) = match outcome {
            Outcome::Completed => (
                StateCause::LengthReached,
                "the configured length is reached".to_string(),
            ),
            Outcome::EarlyStopped => (
                StateCause::StoppedEarly,
                "the metric of early stopping no longer improves".to_string(),
            ),
            Outcome::Paused if !stops => (
                StateCause::PauseReached,
                format!("paused with a checkpoint, {by}"),
            ),
            Outcome::Paused | Outcome::Stopped => (
                StateCause::StopRequested,
                format!("stopped with a checkpoint, {by}"),
            ),
        };
        self.finish(cause, &reason, None, actions);
    }

    /// The worker ended without its last word after somebody asked the run to end: what is on the
    /// disk is good, so there is nothing to recover for.
    fn left_early(
        &mut self,
        command: Command,
        by: &str,
        ending: &Ending,
        actions: &mut Vec<Action>,
    ) {
        let how = if self.cut_short {
            "at once, by a second signal".to_string()
        } else {
            format!("early: the worker ended with {ending}")
        };
        let (cause, what) = match command {
            Command::Stop => (StateCause::StopRequested, "stopped"),
            Command::Pause | Command::Checkpoint => (StateCause::PauseReached, "paused"),
        };
        let reason =
            format!("{what} {how} (asked for by {by}); the newest checkpoint is from before that");
        self.finish(cause, &reason, None, actions);
    }

    fn died(&mut self, ending: Ending, now: Duration, actions: &mut Vec<Action>) {
        let window = Duration::from_secs(self.policy.window_s);
        self.deaths.push_back(now);
        while self
            .deaths
            .front()
            .is_some_and(|&at| now.saturating_sub(at) > window)
        {
            self.deaths.pop_front();
        }
        let death = Death {
            step: self.step,
            hung: std::mem::take(&mut self.hung),
            ending,
        };
        let again = self
            .last_death
            .as_ref()
            .is_some_and(|last| death.repeats(last));
        let too_many = self.deaths.len() > self.policy.max_restarts as usize;
        self.exited(&death.ending, !(again || too_many), actions);
        if again || too_many {
            let fault = death.given_up(again, self.deaths.len(), self.policy.window_s);
            self.fail(fault, actions);
            return;
        }
        let reason = format!("rank {RANK} died ({}) and is replaced", death.words());
        self.last_death = Some(death);
        self.attempt = self.attempt.next();
        self.change(StateCause::WorkerLost, &reason, actions);
        actions.push(Action::Launch(self.attempt));
    }

    fn fail(&mut self, fault: Fault, actions: &mut Vec<Action>) {
        self.record(
            Event::FaultRaised {
                fault: fault.clone(),
            },
            actions,
        );
        let reason = fault.message.clone();
        self.finish(StateCause::FaultRaised, &reason, Some(fault), actions);
    }

    fn finish(
        &mut self,
        cause: StateCause,
        reason: &str,
        fault: Option<Fault>,
        actions: &mut Vec<Action>,
    ) {
        self.change(cause, reason, actions);
        actions.push(Action::Finish(Finish {
            state: self.state,
            reason: reason.to_string(),
            fault,
        }));
    }

    fn exited(&self, ending: &Ending, restarts: bool, actions: &mut Vec<Action>) {
        self.record(
            Event::WorkerExited {
                rank: RANK,
                pid: self.pid,
                status: ending.to_string(),
                restarts,
            },
            actions,
        );
    }

    fn record(&self, event: Event, actions: &mut Vec<Action>) {
        actions.push(Action::Record(self.attempt, event));
    }

    /// Moves the state. A cause without a transition leaves it, which the table of the tests shows
    /// not to happen.
    fn change(&mut self, cause: StateCause, reason: &str, actions: &mut Vec<Action>) {
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
