//! What time brings to light: workers that hang, and workers that do not leave. Part of the decisions:
//! pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::recovery::{Action, Machine};
use crate::run::{Event, Rank};

/// How long a worker may take to leave after its last word.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A longer time between two ticks means that the supervisor itself was stopped or starved.
const TICK_GAP_MAX: Duration = Duration::from_secs(5);

impl Machine {
    /// Time passed.
    pub(super) fn tick(
        &mut self,
        cpu_seconds: &BTreeMap<Rank, f64>,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        let gap = now.saturating_sub(self.last_tick);
        self.last_tick = now;
        if gap > TICK_GAP_MAX {
            self.members
                .values_mut()
                .for_each(|member| member.health.reset(now));
        }
        let mut hung = Vec::new();
        for (&slot, member) in &mut self.members {
            if let Some(since) = member.leaving {
                if now.saturating_sub(since) >= EXIT_TIMEOUT {
                    member.leaving = Some(now);
                    actions.push(Action::Kill(slot));
                }
            } else if !member.hung
                && !self.cut_short
                && let Some(found) = member.health.verdict(now, cpu_seconds.get(&slot).copied())
            {
                member.hung = true;
                hung.push((slot, member.pid, found));
            }
        }
        for (slot, pid, found) in hung {
            self.hung(slot, pid, &found, actions);
        }
    }

    /// A worker hangs: what it and the others do is written down, then it is killed.
    fn hung(&self, slot: Rank, pid: u32, found: &str, actions: &mut Vec<Action>) {
        let message = format!(
            "rank {slot} (process {pid}) {found}; it is replaced, and what its threads did is in \
             logs/rank-{slot}.log"
        );
        self.record(Event::Warned { message }, actions);
        actions.push(Action::Examine(slot));
        let others = self.group.iter().filter(|other| **other != slot);
        actions.extend(others.copied().map(Action::Examine));
        actions.push(Action::Kill(slot));
    }
}
