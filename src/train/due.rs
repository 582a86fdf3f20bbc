//! Whether something that happens "every n steps, epochs or seconds" is due at a step boundary.

use std::time::Instant;

use crate::config::Every;
use crate::plan::Timetable;
use crate::run::Step;

/// One thing that happens again and again.
#[derive(Debug)]
pub(super) struct Due {
    every: Every,
    last: Instant,
}

impl Due {
    pub(super) fn new(every: Every) -> Self {
        Self {
            every,
            last: Instant::now(),
        }
    }

    /// Whether it is due when `step` steps are finished. Steps and epochs count from the start of
    /// the run, whatever was resumed; seconds count from the last time, in this process.
    pub(super) fn at(&self, step: Step, timetable: &Timetable) -> bool {
        let multiple =
            |period: u64| period > 0 && step.get() > 0 && step.get().is_multiple_of(period);
        match self.every {
            Every::Steps(steps) => multiple(steps),
            Every::Epochs(epochs) => multiple(epochs.saturating_mul(timetable.steps_per_epoch())),
            Every::Seconds(seconds) => self.last.elapsed().as_secs() >= seconds,
            Every::Never => false,
        }
    }

    /// It has just happened.
    pub(super) fn done(&mut self) {
        self.last = Instant::now();
    }
}
