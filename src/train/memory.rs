//! The most memory this process has held.

use std::time::{Duration, Instant};

use crate::run::{Event, Rank};

/// How often the peak is looked at.
const PERIOD: Duration = Duration::from_secs(10);

/// Reports the peak when it has grown.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    rank: Rank,
    last: Option<Instant>,
    reported: u64,
}

impl MemoryWatch {
    /// Of the worker process `rank`.
    pub(super) fn new(rank: Rank) -> Self {
        Self {
            rank,
            last: None,
            reported: 0,
        }
    }

    /// The event to send now, if any: at the first call, then at most once per [`PERIOD`] and only
    /// when the peak grew by more than 1 %; with `always` whenever it grew at all.
    pub(super) fn look(&mut self, always: bool) -> Option<Event> {
        if !always && self.last.is_some_and(|last| last.elapsed() < PERIOD) {
            return None;
        }
        self.last = Some(Instant::now());
        let peak_bytes = peak_bytes()?;
        let grown = if always {
            self.reported
        } else {
            self.reported + self.reported / 100
        };
        if peak_bytes <= grown {
            return None;
        }
        self.reported = peak_bytes;
        Some(Event::MemoryMeasured {
            rank: self.rank,
            peak_bytes,
        })
    }
}

/// Peak resident set of this process; `None` where the system does not say.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_reported_once() {
        let mut watch = MemoryWatch::new(Rank::new(0));
        let Some(Event::MemoryMeasured { peak_bytes, .. }) = watch.look(false) else {
            panic!("nothing measured");
        };
        assert!(peak_bytes > 1 << 20);
        assert_eq!(watch.look(false), None);
    }
}
