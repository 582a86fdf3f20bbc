//! Displays run on a thread of their own, so that a terminal that stands still does not stop training.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::run::{Entry, Reader};

/// Entries that may wait for a slow display before some are left out. The journal has them all.
const QUEUE_MAX: usize = 1 << 16;

/// How long nothing is shown after something was: faster than the eye sees, and a change of threads for
/// each step of a fast training would cost more than all that is done about it.
const PACE: Duration = Duration::from_millis(20);

/// Time between two ticks.
const TICK: Duration = Duration::from_millis(200);

/// The feeding side of the displays. When it is dropped they show what they have and end; the scope
/// waits for that.
pub(super) struct Displays {
    queue: Option<SyncSender<Arc<Entry>>>,
}

impl Displays {
    /// Starts the thread; without readers there is none.
    pub(super) fn start<'scope, 'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        readers: &'env mut [Box<dyn Reader + Send>],
    ) -> Self {
        if readers.is_empty() {
            return Self { queue: None };
        }
        let (queue, entries) = sync_channel(QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("displays".to_string())
            .spawn_scoped(scope, move || show(readers, &entries));
        Self {
            queue: thread.is_ok().then_some(queue),
        }
    }

    /// Shows an entry, sooner or later; one that finds no room is left out.
    pub(super) fn take(&self, entry: &Arc<Entry>) {
        if let Some(queue) = &self.queue {
            let _ = queue.try_send(Arc::clone(entry));
        }
    }
}

fn show(readers: &mut [Box<dyn Reader + Send>], entries: &Receiver<Arc<Entry>>) {
    let mut readers: Vec<_> = readers.iter_mut().collect();
    let mut ticked = Instant::now();
    loop {
        let first = entries.recv_timeout(TICK.saturating_sub(ticked.elapsed()));
        if first == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        if let Ok(first) = first {
            for entry in std::iter::once(first).chain(entries.try_iter()) {
                keep_sane(&mut readers, |reader| reader.take(&entry));
            }
            std::thread::sleep(PACE);
        }
        if ticked.elapsed() >= TICK {
            ticked = Instant::now();
            keep_sane(&mut readers, |reader| reader.tick());
        }
    }
}

/// Calls each reader; one that panics is not called again.
fn keep_sane(
    readers: &mut Vec<&mut Box<dyn Reader + Send>>,
    mut call: impl FnMut(&mut dyn Reader),
) {
    readers.retain_mut(|reader| {
        panic::catch_unwind(AssertUnwindSafe(|| call(reader.as_mut()))).is_ok()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Attempt, Event};
    use std::sync::Mutex;
    use std::sync::mpsc;

    fn entry(seq: u64) -> Arc<Entry> {
        Arc::new(Entry {
            seq,
            time_ms: 0,
            attempt: Attempt::new(1),
            event: Event::Warned {
                message: "x".to_string(),
            },
        })
    }

    struct Stuck(Mutex<mpsc::Receiver<()>>, Arc<Mutex<usize>>);

    impl Reader for Stuck {
        fn take(&mut self, _: &Entry) {
            let _ = self.0.lock().unwrap().recv();
            *self.1.lock().unwrap() += 1;
        }
    }

    #[test]
    fn a_display_that_stands_still_is_not_waited_for() {
        let (release, stuck) = mpsc::channel();
        let shown = Arc::new(Mutex::new(0));
        let mut readers: Vec<Box<dyn Reader + Send>> =
            vec![Box::new(Stuck(Mutex::new(stuck), Arc::clone(&shown)))];
        std::thread::scope(|scope| {
            let displays = Displays::start(scope, &mut readers);
            let count = QUEUE_MAX + 1000;
            for seq in 0..count {
                displays.take(&entry(seq as u64));
            }
            assert_eq!(*shown.lock().unwrap(), 0);
            drop(release);
        });
        let shown = *shown.lock().unwrap();
        assert!((QUEUE_MAX..QUEUE_MAX + 1000).contains(&shown), "{shown}");
    }

    struct Fragile(Arc<Mutex<u64>>);

    impl Reader for Fragile {
        fn take(&mut self, entry: &Entry) {
            assert!(entry.seq != 1, "a mistake in a display");
            *self.0.lock().unwrap() += 1;
        }
    }

    #[test]
    fn a_display_that_panics_is_left_out() {
        let (fragile, sound) = (Arc::default(), Arc::new(Mutex::new(0)));
        let (never, stuck) = mpsc::channel();
        drop(never);
        let mut readers: Vec<Box<dyn Reader + Send>> = vec![
            Box::new(Fragile(Arc::clone(&fragile))),
            Box::new(Stuck(Mutex::new(stuck), Arc::clone(&sound))),
        ];
        std::thread::scope(|scope| {
            let displays = Displays::start(scope, &mut readers);
            (0..4).for_each(|seq| displays.take(&entry(seq)));
        });
        assert_eq!(*fragile.lock().unwrap(), 1);
        assert_eq!(*sound.lock().unwrap(), 4);
    }
}
