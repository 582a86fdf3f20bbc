//! Waiting for a word in shared memory: a short spin, then sleep.
//!
//! A rank that spins answers within a microsecond, but holds a core that its peers may need. The spin is
//! bounded by the time two context switches cost, shorter when it was in vain lately, and next to nothing
//! when there are more ranks than cores.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::futex;

/// Longest sleep: how late an abort, the time limit or the end of a peer is noticed.
const SLICE: futex::Timespec = futex::Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

const SPIN_MAX: Duration = Duration::from_micros(50);
const SPIN_MIN: Duration = Duration::from_micros(1);

/// Spins between two looks at the clock.
const SPINS: u32 = 16;

/// How long this rank spins.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    limit_max: Duration,
}

impl Patience {
    /// For a group of `world` ranks on this host.
    pub(super) fn new(world: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let limit_max = if world <= cores { SPIN_MAX } else { SPIN_MIN };
        Self {
            limit: limit_max,
            limit_max,
        }
    }

    /// Spins until `done`, for a while; gives whether it came about.
    pub(super) fn spin(&self, start: Instant, mut done: impl FnMut() -> bool) -> bool {
        loop {
            for _ in 0..SPINS {
                if done() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() >= self.limit {
                return false;
            }
        }
    }

    /// Learns from a wait: a spin that would have been in vain is halved the next time.
    pub(super) fn learn(&mut self, waited: Duration) {
        self.limit = if waited <= self.limit_max {
            self.limit_max
        } else {
            (self.limit / 2).max(SPIN_MIN)
        };
    }
}

/// Two words on which ranks sleep.
pub(super) struct Bell<'a> {
    /// How often it rang.
    pub(super) count: &'a AtomicU32,
    /// Ranks that sleep or are about to; too many when one was killed there, which costs a system call
    /// for each ring and nothing else.
    pub(super) sleepers: &'a AtomicU32,
}

impl Bell<'_> {
    /// Wakes everyone, after a change that they wait for.
    pub(super) fn ring(&self) {
        // With the same fence in `sleep`: either we see the sleeper, or it sees the change.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.count.fetch_add(1, Ordering::SeqCst);
            // Nothing can be done about a failure; sleepers look again by themselves.
            let _ = futex::wake(self.count, futex::Flags::empty(), u32::MAX >> 1);
        }
    }

    /// Sleeps until it rings or for a slice, unless `done` already.
    pub(super) fn sleep(&self, done: impl FnOnce() -> bool) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let count = self.count.load(Ordering::SeqCst);
        if !done() {
            // Woken, timed out, interrupted or rung before: the caller looks again in any case.
            let _ = futex::wait(self.count, futex::Flags::empty(), count, Some(&SLICE));
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}
