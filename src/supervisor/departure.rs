//! What the end of a worker process means: the end of the run, or something to recover from. Part of
//! the decisions: pure.

use std::time::Duration;

use super::death::Death;
use super::ending::Ending;
use super::member::{LastWord, Member, Standing};
use super::recovery::{Action, Finish, Machine};
use crate::run::wire::Outcome;
use crate::run::{Command, Event, Fault, Rank, StateCause};

impl Machine {
    /// The process of a slot is gone: an end, or a death to recover from.
    pub(super) fn gone(
        &mut self,
        slot: Rank,
        ending: &Ending,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        let Some(member) = self.members.remove(&slot) else {
            return;
        };
        match &member.last_word {
            Some(LastWord::Done(Outcome::Released)) => {
                self.exited(slot, &member, ending, false, actions);
                self.form(now, actions);
                return;
            }
            Some(word) => {
                self.exited(slot, &member, ending, false, actions);
                if self.verdict.is_none() {
                    if matches!(word, LastWord::Failed(_)) {
                        // The others would wait for it for ever.
                        self.kill_all(actions);
                    }
                    self.verdict = Some(word.clone());
                }
                self.dismiss(actions);
            }
            None if self.verdict.is_some() || self.cut_short => {
                self.exited(slot, &member, ending, false, actions);
            }
            None if self.wanted.is_some() && self.members.is_empty() => {
                self.exited(slot, &member, ending, false, actions);
                self.left_early(ending, actions);
                return;
            }
            None => {
                self.died(slot, &member, ending.clone(), now, actions);
                if self.verdict.is_none() {
                    return;
                }
            }
        }
        if self.members.is_empty() && self.starting.is_empty() {
            self.conclude(ending, actions);
        }
    }

    /// Ends workers that were to join a training that is over.
    pub(super) fn dismiss(&self, actions: &mut Vec<Action>) {
        let late = self
            .members
            .iter()
            .filter(|(_, member)| member.stays() && member.standing != Standing::Training);
        actions.extend(late.map(|(&slot, _)| Action::Kill(slot)));
    }

    /// All workers are gone.
    fn conclude(&mut self, ending: &Ending, actions: &mut Vec<Action>) {
        match self.verdict.take() {
            Some(LastWord::Done(outcome)) => self.done(outcome, actions),
            Some(LastWord::Failed(fault)) => self.fail(fault, actions),
            None => self.left_early(ending, actions),
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
            Outcome::Paused | Outcome::Stopped | Outcome::Released => (
                StateCause::StopRequested,
                format!("stopped with a checkpoint, {by}"),
            ),
        };
        self.finish(cause, &reason, None, actions);
    }

    /// A run that waits for devices is asked to leave.
    pub(super) fn leave_queue(&mut self, command: Command, by: &str, actions: &mut Vec<Action>) {
        let (cause, what) = match command {
            Command::Checkpoint => return,
            Command::Pause => (StateCause::PauseRequested, "paused"),
            Command::Stop => (StateCause::StopRequested, "stopped"),
        };
        let reason = format!("{what} while it waited for devices, asked for by {by}");
        self.finish(cause, &reason, None, actions);
    }

    /// The workers ended without a last word after somebody asked the run to end: what is on the disk
    /// is good, so there is nothing to recover for.
    fn left_early(&mut self, ending: &Ending, actions: &mut Vec<Action>) {
        let (command, by) = self
            .wanted
            .clone()
            .unwrap_or_else(|| (Command::Pause, "a signal".to_string()));
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

    /// A worker died: another takes its slot, or the run goes on without it, or it ends.
    fn died(
        &mut self,
        slot: Rank,
        member: &Member,
        ending: Ending,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        let window = Duration::from_secs(self.policy.window_s);
        // A host that is lost says nothing about the run.
        let counts = !matches!(ending, Ending::Lost(_));
        self.deaths.extend(counts.then_some(now));
        while self
            .deaths
            .front()
            .is_some_and(|&at| now.saturating_sub(at) > window)
        {
            self.deaths.pop_front();
        }
        let death = Death {
            slot,
            step: member.step,
            hung: member.hung,
            peak_bytes: member.peak_bytes,
            ending,
        };
        let again = self
            .last_death
            .as_ref()
            .is_some_and(|last| death.repeats(last));
        let too_many = self.deaths.len() > self.policy.max_restarts as usize;
        let gives_up = again || too_many;
        let words = death.words();
        self.exited(slot, member, &death.ending, !gives_up, actions);
        if gives_up {
            let why = format!("rank {slot} is not started again ({words})");
            let fault = death.given_up(again, self.deaths.len(), self.policy.window_s);
            if !self.shrink(&why, actions) {
                self.condemn(fault, actions);
                return;
            }
        }
        let reason = format!("rank {slot} died ({words}) and is replaced");
        self.last_death = Some(death);
        self.begin_reform(&format!("rank {slot}: {words}"), member.heard, now);
        if !self.members.values().any(Member::holds_state) {
            // The state is only on the disk: whatever is started begins from there.
            self.attempt = self.attempt.next();
            (self.reform, self.told) = (None, None);
            self.change(StateCause::WorkerLost, &reason, actions);
        }
        self.dissolve(actions);
        self.fill(actions);
        self.form(now, actions);
    }

    /// The run ends with a fault, as soon as all workers are gone.
    pub(super) fn condemn(&mut self, fault: Fault, actions: &mut Vec<Action>) {
        if self.verdict.is_none() {
            self.verdict = Some(LastWord::Failed(fault));
        }
        if self.members.is_empty() && self.starting.is_empty() {
            self.conclude(&Ending::Unknown(String::new()), actions);
        } else {
            self.kill_all(actions);
        }
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

    fn exited(
        &self,
        slot: Rank,
        member: &Member,
        ending: &Ending,
        restarts: bool,
        actions: &mut Vec<Action>,
    ) {
        self.record(
            Event::WorkerExited {
                rank: slot,
                pid: member.pid,
                status: ending.to_string(),
                restarts,
            },
            actions,
        );
    }
}
