//! Waiting for a word in shared memory: a short spin, then sleep.
//!
//! A rank that spins answers within a microsecond, but holds a core that its peers may need. So it soon
//! lets others run between two looks, and the whole spin is bounded by the time that a few context
//! switches cost; it is shorter when it was in vain lately. This does as well with more ranks than cores.

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

/// Shortest spin, and how long a spin keeps its core.
const SPIN_MIN: Duration = Duration::from_micros(1);

/// Looks between two at the clock.
const LOOKS: u32 = 16;

/// How long this rank spins.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { limit: SPIN_MAX }
    }

    /// Spins until `done`, for a while; gives whether it came about.
    pub(super) fn spin(&self, start: Instant, mut done: impl FnMut() -> bool) -> bool {
        loop {
            for _ in 0..LOOKS {
                if done() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let spun = start.elapsed();
            if spun >= self.limit {
                return false;
            }
            if spun >= SPIN_MIN {
                // Whoever is awaited may need this very core.
                thread::yield_now();
            }
        }
    }

    /// Learns from a wait: a spin that was in vain is halved the next time.
    pub(super) fn learn(&mut self, waited: Duration) {
        self.limit = if waited <= SPIN_MAX {
            SPIN_MAX
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
