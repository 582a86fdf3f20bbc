//! Tells a worker that hangs from one that is merely slow. Pure: times and observations come in.

use std::time::Duration;

use crate::run::Step;
use crate::run::wire::Phase;

/// Share of a processor that counts as being at work in phases that report no progress.
const BUSY_SHARE: f64 = 0.05;

/// What is known of a worker's liveliness. Times are since the supervisor started.
#[derive(Clone, Debug)]
pub(super) struct Health {
    timeout: Option<Duration>,
    heard: Duration,
    progressed: Duration,
    at: (Step, Phase),
    cpu: Option<(Duration, f64)>,
}

impl Health {
    /// A worker that starts `now` from `step`. A timeout of 0 seconds means never.
    pub(super) fn new(timeout_s: u64, step: Step, now: Duration) -> Self {
        Self {
            timeout: (timeout_s > 0).then(|| Duration::from_secs(timeout_s)),
            heard: now,
            progressed: now,
            at: (step, Phase::Preparing),
            cpu: None,
        }
    }

    /// A sign of life. A worker that `waits` for others does what it should: one of those is late.
    pub(super) fn heartbeat(&mut self, step: Step, phase: Phase, waits: bool, now: Duration) {
        self.heard = now;
        if waits || phase == Phase::Waiting || self.at != (step, phase) {
            self.at = (step, phase);
            self.progressed = now;
        }
    }

    /// An event of the worker: it lives and gets on.
    pub(super) fn event(&mut self, now: Duration) {
        self.heard = now;
        self.progressed = now;
    }

    /// Forgets how long ago everything was: the supervisor itself did not run for a while.
    pub(super) fn reset(&mut self, now: Duration) {
        self.heard = now;
        self.progressed = now;
        self.cpu = None;
    }

    /// What is wrong with the worker, if it counts as hung. `cpu_seconds` is the processor time that
    /// it has used so far.
    ///
    /// Reading data and evaluating may take long without a report: there, using the processor counts
    /// as progress. A training step that long, or a save, does not.
    pub(super) fn verdict(&mut self, now: Duration, cpu_seconds: Option<f64>) -> Option<String> {
        let timeout = self.timeout?;
        let (step, phase) = self.at;
        if let Some(used) = cpu_seconds {
            let (since, before) = *self.cpu.get_or_insert((now, used));
            let passed = now.saturating_sub(since);
            if passed >= Duration::from_secs(1) {
                let busy = used - before >= BUSY_SHARE * passed.as_secs_f64();
                if busy && matches!(phase, Phase::Preparing | Phase::Evaluating) {
                    self.progressed = now;
                }
                self.cpu = Some((now, used));
            }
        }
        let doing = match phase {
            Phase::Preparing => "preparing data and model",
            Phase::Waiting => "waiting for its group",
            Phase::Stepping => "training",
            Phase::Evaluating => "evaluating",
            Phase::Saving => "saving a checkpoint",
        };
        let silent = now.saturating_sub(self.heard);
        let still = now.saturating_sub(self.progressed);
        if silent >= timeout {
            Some(format!(
                "gave no sign of life for {} s while {doing} at step {step}",
                silent.as_secs()
            ))
        } else if still >= timeout {
            Some(format!(
                "got nowhere for {} s while {doing} at step {step}",
                still.as_secs()
            ))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn stepping() -> Health {
        let mut health = Health::new(10, Step::new(0), at(0));
        health.heartbeat(Step::new(5), Phase::Stepping, false, at(1));
        health
    }

    #[test]
    fn silence_is_a_hang() {
        let mut health = stepping();
        assert_eq!(health.verdict(at(10), None), None);
        let verdict = health.verdict(at(11), None).unwrap();
        assert!(verdict.contains("no sign of life for 10 s") && verdict.contains("step 5"));
    }

    #[test]
    fn heartbeats_without_progress_are_a_hang() {
        let mut health = stepping();
        for second in 2..11 {
            health.heartbeat(Step::new(5), Phase::Stepping, false, at(second));
            assert_eq!(health.verdict(at(second), Some(0.0)), None);
        }
        health.heartbeat(Step::new(5), Phase::Stepping, false, at(11));
        assert!(
            health
                .verdict(at(11), Some(0.0))
                .unwrap()
                .contains("got nowhere")
        );
    }

    #[test]
    fn a_busy_processor_is_progress_only_where_none_is_reported() {
        for (phase, hangs) in [
            (Phase::Preparing, false),
            (Phase::Evaluating, false),
            (Phase::Stepping, true),
            (Phase::Saving, true),
        ] {
            for (share, busy) in [(0.5, true), (0.001, false)] {
                let mut health = Health::new(10, Step::new(0), at(0));
                let mut hung = false;
                for second in 1..30u32 {
                    health.heartbeat(Step::new(5), phase, false, at(second.into()));
                    let used = f64::from(second) * share;
                    hung |= health.verdict(at(second.into()), Some(used)).is_some();
                }
                assert_eq!(hung, hangs || !busy, "{phase:?} {share}");
            }
        }
    }

    #[test]
    fn events_and_resets_count_and_zero_means_never() {
        let mut health = stepping();
        health.event(at(10));
        assert_eq!(health.verdict(at(19), None), None);
        health.reset(at(100));
        assert_eq!(health.verdict(at(109), None), None);
        assert!(health.verdict(at(110), None).is_some());
        let mut never = Health::new(0, Step::new(0), at(0));
        assert_eq!(never.verdict(at(1_000_000), None), None);
    }

    #[test]
    fn whoever_waits_for_others_is_not_the_one_that_hangs() {
        let mut health = stepping();
        for second in 2..60 {
            health.heartbeat(Step::new(5), Phase::Stepping, true, at(second));
            assert_eq!(health.verdict(at(second), Some(0.0)), None);
        }
        // A stopped process sends no heartbeat, whatever it waited for.
        assert!(health.verdict(at(70), Some(0.0)).is_some());
    }
}
