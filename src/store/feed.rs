//! Keeps the index of a live run close behind its journal, on a thread of its own.
//!
//! Refuses to: make the supervisor wait, or fail it. Values collect in memory and are written in
//! batches; when anything goes wrong the index is left behind and rebuilt by the next query.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::history::{MetricRow, for_each_value};
use super::index::{Index, IndexError, THREAD_NAME, silence};
use crate::run::{Entry, Event, RunDir, Step};

/// Values that collect before they are handed to the thread.
const BATCH_ROWS: usize = 4096;

/// Batches that may wait for the thread; more and the index is left behind.
const QUEUE_MAX: usize = 16;

/// Longest time that the end of a run waits for its index.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// What the thread is told.
enum Order {
    Insert(Vec<MetricRow>),
    Truncate(Step),
    /// The journal up to here was handed over; close.
    Finish(u64),
}

/// The feeding side, in the supervisor.
#[derive(Debug)]
pub struct Feed {
    rows: Vec<MetricRow>,
    orders: Option<SyncSender<Order>>,
    done: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// Starts the thread. The index is opened when there is something to write, not before: that
    /// takes longer than the first steps of a run should wait for the disk. `journal_bytes` is the
    /// length of the journal when feeding starts; an index that does not hold exactly that is rebuilt.
    #[must_use]
    pub fn start(dir: &RunDir, journal_bytes: u64) -> Self {
        let (orders, inbox) = sync_channel(QUEUE_MAX);
        let (finished, done) = sync_channel(1);
        let dir = dir.clone();
        silence();
        let thread = thread::Builder::new()
            .name(THREAD_NAME.to_string())
            .spawn(move || {
                // An error leaves the index unmarked, which is all that need be known.
                let _ = work(&dir, journal_bytes, &inbox);
                let _ = finished.send(());
            })
            .ok();
        Self {
            rows: Vec::new(),
            orders: thread.is_some().then_some(orders),
            done,
            thread,
        }
    }

    /// Takes the values of an entry.
    pub fn take(&mut self, entry: &Entry) {
        if self.orders.is_none() {
            return;
        }
        if let Event::TrainingBegan { step, .. } = entry.event {
            self.hand_over();
            self.order(Order::Truncate(step));
        }
        let rows = &mut self.rows;
        for_each_value(&entry.event, |step, split, name, value| {
            rows.push(MetricRow {
                step,
                split: split.to_string(),
                name: name.to_string(),
                value,
            });
        });
        if self.rows.len() >= BATCH_ROWS {
            self.hand_over();
        }
    }

    /// Writes what is left and closes the index, within a bounded time.
    pub fn finish(mut self, journal_bytes: u64) {
        self.hand_over();
        self.order(Order::Finish(journal_bytes));
        self.orders = None;
        if self.done.recv_timeout(FINISH_TIMEOUT) != Err(RecvTimeoutError::Timeout)
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }

    fn hand_over(&mut self) {
        if !self.rows.is_empty() {
            let rows = std::mem::take(&mut self.rows);
            self.order(Order::Insert(rows));
        }
    }

    fn order(&mut self, order: Order) {
        // Behind or broken: give the index up, never wait for it.
        if self
            .orders
            .as_ref()
            .is_some_and(|to| to.try_send(order).is_err())
        {
            self.orders = None;
            self.rows = Vec::new();
        }
    }
}

fn work(dir: &RunDir, journal_bytes: u64, inbox: &Receiver<Order>) -> Result<(), IndexError> {
    let mut index: Option<Index> = None;
    while let Ok(order) = inbox.recv() {
        let index = match &mut index {
            Some(index) => index,
            // A new run has nothing to build from.
            None if journal_bytes == 0 => index.insert(Index::empty(dir)?),
            None => index.insert(Index::open_or_rebuild(dir, journal_bytes)?),
        };
        match order {
            Order::Insert(rows) => index.insert(&rows)?,
            Order::Truncate(step) => index.truncate(step)?,
            Order::Finish(journal_bytes) => return index.mark(journal_bytes),
        }
    }
    Ok(())
}
