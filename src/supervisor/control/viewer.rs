//! Viewers that follow a run. Each has a queue; one that does not keep up is told how much it missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use crate::run::Entry;

/// Entries that wait for a viewer.
const QUEUE_MAX: usize = 1024;

/// What a viewer gets.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::supervisor) enum News {
    /// An entry.
    Entry(Arc<Entry>),
    /// So many were left out here.
    Skipped(u64),
}

/// The feeding side of one viewer.
#[derive(Debug)]
pub(in crate::supervisor) struct Viewer {
    queue: SyncSender<News>,
    /// Left out since the last news that found room.
    skipped: Arc<AtomicU64>,
}

/// The receiving side of one viewer: news, and at the end how many more there were.
#[derive(Debug)]
pub(in crate::supervisor) struct Inbox {
    news: Receiver<News>,
    skipped: Arc<AtomicU64>,
}

impl Viewer {
    /// A viewer, and what it gets.
    pub(in crate::supervisor) fn new() -> (Self, Inbox) {
        let (queue, news) = sync_channel(QUEUE_MAX);
        let skipped = Arc::new(AtomicU64::new(0));
        let viewer = Self {
            queue,
            skipped: Arc::clone(&skipped),
        };
        (viewer, Inbox { news, skipped })
    }

    /// Offers an entry without waiting. False when the viewer is gone.
    fn offer(&mut self, entry: &Arc<Entry>) -> bool {
        let skipped = self.skipped.load(Ordering::Acquire);
        let told = if skipped > 0 {
            let told = self.queue.try_send(News::Skipped(skipped));
            if told.is_ok() {
                self.skipped.store(0, Ordering::Release);
            }
            told
        } else {
            Ok(())
        };
        match told.and_then(|()| self.queue.try_send(News::Entry(Arc::clone(entry)))) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.skipped.fetch_add(1, Ordering::AcqRel);
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

impl Iterator for Inbox {
    type Item = News;

    fn next(&mut self) -> Option<News> {
        if let Ok(news) = self.news.recv() {
            return Some(news);
        }
        let skipped = self.skipped.swap(0, Ordering::AcqRel);
        (skipped > 0).then_some(News::Skipped(skipped))
    }
}

/// All viewers of a run.
#[derive(Debug, Default)]
pub(in crate::supervisor) struct Viewers {
    viewers: Vec<Viewer>,
}

impl Viewers {
    /// Adds one.
    pub(in crate::supervisor) fn add(&mut self, viewer: Viewer) {
        self.viewers.push(viewer);
    }

    /// Offers an entry to all; those that are gone are forgotten.
    pub(in crate::supervisor) fn take(&mut self, entry: &Arc<Entry>) {
        self.viewers.retain_mut(|viewer| viewer.offer(entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Attempt, Event};

    fn entry(seq: u64) -> Arc<Entry> {
        Arc::new(Entry {
            seq,
            time_ms: 0,
            attempt: Attempt::new(1),
            event: Event::Warned {
                message: String::new(),
            },
        })
    }

    #[test]
    fn a_slow_viewer_is_told_what_it_missed_and_loses_nothing_else() {
        let (viewer, mut inbox) = Viewer::new();
        let mut viewers = Viewers::default();
        viewers.add(viewer);
        let count = QUEUE_MAX as u64 + 500;
        (0..count).for_each(|seq| viewers.take(&entry(seq)));
        let mut got: Vec<News> = inbox.by_ref().take(QUEUE_MAX).collect();
        // Room again: first it is told what it missed. Then it falls behind until the end.
        (0..QUEUE_MAX as u64 + 7).for_each(|more| viewers.take(&entry(count + more)));
        drop(viewers);
        got.extend(inbox);
        let (mut next, mut missed) = (0, Vec::new());
        for news in got {
            match news {
                News::Entry(entry) => {
                    assert_eq!(entry.seq, next);
                    next += 1;
                }
                News::Skipped(skipped) => {
                    missed.push(skipped);
                    next += skipped;
                }
            }
        }
        assert_eq!(missed, [500, 8]);
        assert_eq!(next, count + QUEUE_MAX as u64 + 7);
    }

    #[test]
    fn a_viewer_that_left_is_forgotten() {
        let (viewer, news) = Viewer::new();
        let mut viewers = Viewers::default();
        viewers.add(viewer);
        drop(news);
        viewers.take(&entry(0));
        assert!(viewers.viewers.is_empty());
    }
}
