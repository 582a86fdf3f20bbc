//! When workers are made a group, and what happens to the group when one comes, goes or is lost. Part
//! of the decisions: pure.

use std::time::Duration;

use super::member::Standing;
use super::recovery::{Action, Machine};
use crate::config::SumOrder;
use crate::run::{Event, Fault, Rank, RecoveryTiming, Step, WorldSize};

/// A recovery that is under way, with the times of its parts.
#[derive(Clone, Debug)]
pub(super) struct Reform {
    cause: String,
    /// Last sign of life of what was lost.
    heard: Duration,
    noticed: Duration,
    formed: Option<Duration>,
    agreed: Option<Duration>,
}

impl Reform {
    fn new(cause: String, heard: Duration, now: Duration) -> Self {
        Self {
            cause,
            heard,
            noticed: now,
            formed: None,
            agreed: None,
        }
    }

    /// Whether the new group was formed.
    pub(super) fn is_formed(&self) -> bool {
        self.formed.is_some()
    }

    /// The workers of the new group hold the same state.
    pub(super) fn agreed(&mut self, now: Duration) {
        self.agreed.get_or_insert(now);
    }

    /// The event to record when the first step is finished.
    pub(super) fn recovered(self, step: Step, world: usize, now: Duration) -> Event {
        let formed = self.formed.unwrap_or(now);
        let agreed = self.agreed.unwrap_or(formed);
        let seconds = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64();
        Event::Recovered {
            cause: self.cause,
            step,
            world_size: WorldSize::new(u32::try_from(world).unwrap_or(u32::MAX)),
            timing: RecoveryTiming {
                detect: seconds(self.heard, self.noticed),
                regroup: seconds(self.noticed, formed),
                transfer: seconds(formed, agreed),
                first_step: seconds(agreed, now),
            },
        }
    }
}

impl Machine {
    /// A worker can be one of a group. `left` says that it was in one a moment ago.
    pub(super) fn ready(
        &mut self,
        slot: Rank,
        left: bool,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        if left && self.group.contains(&slot) {
            // It noticed before us that the group came apart, or waited for too long.
            self.dissolve(actions);
        }
        self.form(now, actions);
    }

    /// Tells all workers that train to leave their group.
    pub(super) fn dissolve(&mut self, actions: &mut Vec<Action>) {
        for slot in std::mem::take(&mut self.group) {
            let trains = self
                .members
                .get(&slot)
                .is_some_and(|member| member.stays() && member.standing == Standing::Training);
            if trains {
                actions.push(Action::Abort(slot, self.number));
            }
        }
    }

    /// Begins a recovery, unless one is under way.
    pub(super) fn begin_reform(&mut self, cause: &str, heard: Duration, now: Duration) {
        if self.reform.as_ref().is_none_or(Reform::is_formed) {
            self.reform = Some(Reform::new(cause.to_string(), heard, now));
        }
    }

    /// Makes a group as soon as all that are wanted are there and none is in another group.
    pub(super) fn form(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if !self.starting.is_empty() || self.verdict.is_some() || self.cut_short {
            return;
        }
        let waiting = |standing: Standing| matches!(standing, Standing::Ready(..));
        let staying = self.members.values().filter(|member| member.stays());
        if !self.group.is_empty() {
            // Newcomers are ready, and the others train: they are to become one group.
            let comes = staying.clone().any(|member| waiting(member.standing));
            let prepares = staying
                .clone()
                .any(|member| member.standing == Standing::Preparing);
            if comes && !prepares {
                self.begin_reform("workers were added", now, now);
                self.dissolve(actions);
            }
            return;
        }
        let everybody_waits = self
            .members
            .values()
            .all(|member| member.stays() && waiting(member.standing));
        let count = u32::try_from(staying.count()).unwrap_or(u32::MAX);
        if !everybody_waits || count < self.size {
            return;
        }
        let mut slots: Vec<Rank> = self.members.keys().copied().collect();
        for slot in slots.split_off(self.size as usize) {
            if let Some(member) = self.members.get_mut(&slot) {
                member.leaving = Some(now);
            }
            actions.push(Action::Release(slot));
        }
        self.form_of(slots, now, actions);
    }

    fn form_of(&mut self, slots: Vec<Rank>, now: Duration, actions: &mut Vec<Action>) {
        let (mut vector_len, mut newest) = (0, None);
        for slot in &slots {
            if let Some(member) = self.members.get_mut(slot) {
                if let Standing::Ready(length, step) = member.standing {
                    vector_len = vector_len.max(length);
                    newest = newest.max(step);
                }
                member.standing = Standing::Training;
                member.health.event(now);
            }
        }
        self.number += 1;
        self.group.clone_from(&slots);
        if let Some(reform) = &mut self.reform {
            reform.formed = Some(now);
            reform.agreed = None;
        }
        let world = WorldSize::new(u32::try_from(slots.len()).unwrap_or(u32::MAX));
        let before = self.world.replace(world).filter(|&before| before != world);
        if slots.len() > 1 || self.number > 1 || before.is_some() {
            let formed = Event::GroupFormed {
                world_size: world,
                slots: slots.clone(),
                step: newest,
            };
            self.record(formed, actions);
        }
        if let Some(before) = before
            && self.order == SumOrder::Fast
        {
            let message = format!(
                "the number of workers is {world} after {before}, and with train.reduction = \"fast\" the \
                 last bits of the result follow from it: they are no longer those of {before} throughout"
            );
            self.record(Event::Warned { message }, actions);
        }
        let first = slots.first().copied();
        actions.push(Action::Form {
            number: self.number,
            slots,
            vector_len,
        });
        if let Some(first) = first {
            let checkpoint = self
                .checkpoint_wanted
                .then_some(crate::run::Command::Checkpoint);
            let wanted = self.wanted.as_ref().map(|(command, _)| *command);
            let commands = checkpoint.into_iter().chain(wanted);
            actions.extend(commands.map(|command| Action::Send(first, command)));
        }
    }

    /// Another number of workers is wanted.
    pub(super) fn resize(&mut self, size: u32, by: &str, now: Duration, actions: &mut Vec<Action>) {
        let size = size.clamp(1, self.size_max);
        if size == self.size {
            return;
        }
        let fewer = size < self.size;
        (self.size, self.asked) = (size, size);
        self.barred.clear();
        if fewer {
            if !self.group.is_empty() {
                self.begin_reform(&format!("workers were released by {by}"), now, now);
                self.dissolve(actions);
            }
            self.form(now, actions);
        } else {
            self.fill(actions);
        }
    }

    /// A host has come back: as many workers as were asked for, if there are places for them.
    pub(super) fn grow(&mut self, places: u32, actions: &mut Vec<Action>) {
        let size = self.asked.min(places);
        if size > self.size && self.verdict.is_none() {
            self.size = size;
            self.barred.clear();
            self.fill(actions);
        }
    }

    /// Starts workers in free slots until there are as many as are wanted.
    pub(super) fn fill(&mut self, actions: &mut Vec<Action>) {
        let staying = self.members.values().filter(|member| member.stays());
        let count = u32::try_from(staying.count()).unwrap_or(u32::MAX);
        let starting = u32::try_from(self.starting.len()).unwrap_or(u32::MAX);
        let missing = self.size.saturating_sub(count.saturating_add(starting));
        let free: Vec<Rank> = (0..)
            .map(Rank::new)
            .filter(|slot| {
                !self.members.contains_key(slot)
                    && !self.starting.contains(slot)
                    && !self.barred.contains(slot)
            })
            .take(missing as usize)
            .collect();
        for slot in free {
            self.launch(slot, actions);
        }
    }

    /// A worker process could not be started: the run goes on with fewer, if it may.
    pub(super) fn not_launched(
        &mut self,
        slot: Rank,
        fault: Fault,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.starting.remove(&slot);
        self.barred.insert(slot);
        let why = format!("no worker can be started in slot {slot}: {}", fault.message);
        if self.shrink(&why, actions) {
            self.form(now, actions);
        } else {
            self.condemn(fault, actions);
        }
    }

    /// One worker fewer is wanted, if the policy allows it and somebody is left. The next group is
    /// formed when the others are ready.
    pub(super) fn shrink(&mut self, why: &str, actions: &mut Vec<Action>) -> bool {
        let smaller = self.size.saturating_sub(1);
        let holds = self
            .members
            .values()
            .any(super::member::Member::holds_state);
        if !self.policy.elastic || smaller < self.policy.min_slots.max(1) || !holds {
            return false;
        }
        self.size = smaller;
        let message = format!(
            "{why}; the run goes on with {smaller} workers, and `trainer resize` adds some again"
        );
        self.record(Event::Warned { message }, actions);
        true
    }
}
