//! The way from files to batches, with nobody who trains on them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::config::{Backend, Config, Length};
use crate::data::{Dataset, Part, Prefetcher};
use crate::ops;
use crate::plan::Timetable;
use crate::run::{Fault, Seat, Step};

/// What batches cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Loading {
    /// `table`, `images` or `text`.
    pub kind: String,
    /// Samples of the training part.
    pub samples: u64,
    /// Seconds until the data were read, split, validated and prepared.
    pub open_seconds: f64,
    /// Batches that were delivered.
    pub batches: u64,
    /// Samples in them.
    pub delivered: u64,
    /// Wall time they took.
    pub seconds: f64,
    /// Processor time they took, over all threads.
    pub core_seconds: f64,
}

impl Loading {
    /// Samples per second of wall time.
    #[must_use]
    pub fn samples_per_s(&self) -> f64 {
        to_f64(self.delivered) / self.seconds
    }

    /// Samples per second of processor time. 0 where the system counts no processor time.
    #[must_use]
    pub fn samples_per_core_s(&self) -> f64 {
        if self.core_seconds > 0.0 {
            to_f64(self.delivered) / self.core_seconds
        } else {
            0.0
        }
    }
}

/// Opens the data as a fresh run does and takes training batches as fast as they come, in the order and
/// sizes of a run, for this long.
///
/// # Errors
///
/// When the data cannot be read.
pub fn loading(config: &Config, for_seconds: u64) -> Result<Loading, Fault> {
    // The threads that decode are those that compute, in a run too.
    ops::device::open(Backend::Flex, 0, config.resources.threads)?;
    let mut config = config.clone();
    config.train.length = Length::Steps(u64::MAX >> 1);
    let dataset = Arc::new(Dataset::open(&config.data, config.seed, None)?);
    let summary = dataset.summary();
    let (kind, open_seconds) = (summary.kind.clone(), summary.seconds);
    let samples = dataset.samples(Part::Train);
    if samples == 0 {
        return Err(Fault::usage("the training part of the data is empty")
            .advise("check `[data]` with `trainer data inspect`"));
    }
    let timetable = Timetable::new(&config, samples);
    let ahead = config.train.prefetch as usize;
    let start = Step::new(0);
    let mut batches = Prefetcher::start(dataset, timetable, config.seed, start, ahead, Seat::ALONE);
    // What is prepared ahead of the first batch is made up for by what is left after the last.
    batches.next()?;
    let (clock, cores) = (Instant::now(), processor_time());
    let (mut count, mut delivered) = (0, 0);
    while count == 0 || clock.elapsed() < Duration::from_secs(for_seconds) {
        delivered += batches.next()?.plan.samples.len() as u64;
        count += 1;
    }
    let seconds = clock.elapsed().as_secs_f64();
    Ok(Loading {
        kind,
        samples,
        open_seconds,
        batches: count,
        delivered,
        seconds,
        core_seconds: processor_time() - cores,
    })
}

/// Processor time of all threads of this process so far, in seconds.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).map_or(0.0, |time| time.as_secs_f64())
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
fn to_f64(count: u64) -> f64 {
    count as f64
}
