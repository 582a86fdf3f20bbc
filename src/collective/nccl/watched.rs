//! A communicator that never waits blindly: while the library is at work it is asked for errors, the
//! handle for an abort, and the clock.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::library::{Library, Progress, Refusal};
use crate::collective::status::Status;
use crate::collective::{CollectiveError, Kind, Limits};

/// Between two looks, once the first few have found nothing.
const PAUSE: Duration = Duration::from_micros(50);

/// How long looks follow each other without a pause: a sum of a few kilobytes is done by then.
const EAGER: Duration = Duration::from_micros(200);

/// Longest time to leave a group in peace.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// A communicator on its way from the first call to its end.
pub(super) struct Watched {
    library: Box<dyn Library>,
    status: Arc<Status>,
    /// Whether there is a communicator to free.
    live: bool,
}

impl Watched {
    pub(super) fn new(library: Box<dyn Library>, status: Arc<Status>) -> Self {
        Self {
            library,
            status,
            live: false,
        }
    }

    /// Something that is done when the library returns.
    pub(super) fn call<T>(
        &mut self,
        act: impl FnOnce(&mut dyn Library) -> Result<T, Refusal>,
    ) -> Result<T, CollectiveError> {
        self.status.check()?;
        act(self.library.as_mut()).map_err(|refusal| self.refused(refusal))
    }

    /// Becomes a rank of a group.
    pub(super) fn join(
        &mut self,
        limits: &Limits,
        id: &super::library::Id,
        timeout: Duration,
    ) -> Result<(), CollectiveError> {
        self.status.check()?;
        // From here on there may be something to free, also where the library refuses at once.
        self.live = true;
        let begin = |library: &mut dyn Library| library.begin(id, limits.rank, limits.world);
        self.start(limits, Kind::Join, timeout, begin)
    }

    /// Something that goes on when the library returns; waits until the device is done with it.
    pub(super) fn start(
        &mut self,
        limits: &Limits,
        kind: Kind,
        timeout: Duration,
        act: impl FnOnce(&mut dyn Library) -> Result<(), Refusal>,
    ) -> Result<(), CollectiveError> {
        self.call(act)?;
        self.status.set_waiting(true);
        let settled = self.settle(limits, kind, timeout);
        self.status.set_waiting(false);
        settled
    }

    fn settle(
        &mut self,
        limits: &Limits,
        kind: Kind,
        timeout: Duration,
    ) -> Result<(), CollectiveError> {
        let begun = Instant::now();
        loop {
            if let Err(error) = self.status.check() {
                self.abort();
                return Err(error);
            }
            if self.call(is_done)? {
                return Ok(());
            }
            let waited = begun.elapsed();
            if waited >= timeout {
                self.abort();
                return Err(CollectiveError::TimedOut {
                    number: self.status.position().number,
                    kind,
                    // The library does not say which of them it waits for.
                    missing: limits.ranks().filter(|&rank| rank != limits.rank).collect(),
                });
            }
            if waited < EAGER {
                thread::yield_now();
            } else {
                thread::sleep(PAUSE);
            }
        }
    }

    /// After a refusal the communicator is of no use, and others that wait for it should not.
    fn refused(&mut self, refusal: Refusal) -> CollectiveError {
        self.abort();
        let Refusal {
            doing,
            reason,
            remote,
        } = refusal;
        if remote {
            CollectiveError::Lost { reason }
        } else {
            CollectiveError::Library { doing, reason }
        }
    }

    /// Ends the communicator; later calls fail.
    pub(super) fn abort(&mut self) {
        self.status.fail();
        if std::mem::take(&mut self.live) {
            self.library.abort();
        }
    }

    /// Leaves in peace, if the others let it.
    fn finish(&mut self) -> Result<bool, Refusal> {
        let until = Instant::now() + FINISH_TIMEOUT;
        self.library.finish()?;
        while self.library.progress()? == Progress::UnderWay {
            if Instant::now() >= until {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
        Ok(true)
    }
}

fn is_done(library: &mut dyn Library) -> Result<bool, Refusal> {
    Ok(library.progress()? == Progress::Settled && library.is_idle()?)
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.live {
            return;
        }
        if self.status.check().is_ok() && matches!(self.finish(), Ok(true)) {
            self.library.free();
        } else {
            self.library.abort();
        }
    }
}
