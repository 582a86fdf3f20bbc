//! Steps prepared ahead of the training thread, delivered in order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::batch::{AugmentKey, Batch, Part};
use super::dataset::Dataset;
use crate::plan::{StepPlan, Timetable, shards_of};
use crate::run::{Fault, Seat, ShardId, Step};

/// Most threads that prepare steps.
const THREADS_MAX: usize = 4;

/// All that a step needs from the data.
#[derive(Clone, Debug, PartialEq)]
pub struct StepBatch {
    /// Which samples, in which shards.
    pub plan: StepPlan,
    /// This worker's first shard.
    pub first: ShardId,
    /// The batches of this worker's shards, none of them empty; there may be none.
    pub shards: Vec<Batch>,
}

impl StepBatch {
    /// This worker's shards with their ids.
    pub fn shards(&self) -> impl Iterator<Item = (ShardId, &Batch)> {
        let ids = (self.first.get()..).map(ShardId::new);
        ids.zip(&self.shards)
    }
}

/// Prepares the steps of a timetable, at most `ahead` of them before they are asked for.
///
/// What is delivered depends on the data, the timetable and the seed alone: not on `ahead`, and not
/// on threads. A fault is delivered in the place of its step.
#[derive(Debug)]
pub struct Prefetcher {
    work: Arc<Work>,
    next: u64,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads share.
#[derive(Debug)]
struct Work {
    dataset: Arc<Dataset>,
    timetable: Timetable,
    seed: u64,
    seat: Seat,
    ahead: u64,
    state: Mutex<State>,
    /// A step is ready, or a thread is gone.
    ready: Condvar,
    /// There is room for another step.
    room: Condvar,
}

#[derive(Debug)]
struct State {
    /// The next step that nobody works on.
    unclaimed: u64,
    /// The next step that is delivered.
    wanted: u64,
    done: BTreeMap<u64, Result<StepBatch, Fault>>,
    stop: bool,
}

impl Prefetcher {
    /// Begins with the step that follows `from` finished ones, for one worker of a group. With `ahead` 0 there is no thread
    /// and steps are prepared when they are asked for; so they are where no thread can be started.
    #[must_use]
    pub fn start(
        dataset: Arc<Dataset>,
        timetable: Timetable,
        seed: u64,
        from: Step,
        ahead: usize,
        seat: Seat,
    ) -> Self {
        let work = Arc::new(Work {
            dataset,
            timetable,
            seed,
            seat,
            ahead: ahead as u64,
            state: Mutex::new(State {
                unclaimed: from.get(),
                wanted: from.get(),
                done: BTreeMap::new(),
                stop: false,
            }),
            ready: Condvar::new(),
            room: Condvar::new(),
        });
        let threads = (0..ahead.min(THREADS_MAX))
            .map_while(|place| {
                let work = Arc::clone(&work);
                std::thread::Builder::new()
                    .name(format!("prefetch-{place}"))
                    .spawn(move || work.run())
                    .ok()
            })
            .collect();
        Self {
            work,
            next: from.get(),
            threads,
        }
    }

    /// The next step. Waits until it is ready.
    ///
    /// # Errors
    ///
    /// What went wrong with the samples of this step.
    #[expect(
        clippy::should_implement_trait,
        reason = "there is always a next step: it is no iterator"
    )]
    pub fn next(&mut self) -> Result<StepBatch, Fault> {
        let step = self.next;
        self.next += 1;
        // Threads do not go beyond the end of the timetable.
        if self.threads.is_empty() || step >= self.work.timetable.steps_total() {
            return self.work.prepare(step);
        }
        let mut state = self.work.lock();
        loop {
            if let Some(result) = state.done.remove(&step) {
                state.wanted = step + 1;
                drop(state);
                self.work.room.notify_all();
                return result;
            }
            state = self
                .work
                .ready
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        self.work.lock().stop = true;
        self.work.room.notify_all();
        for thread in self.threads.drain(..) {
            // A thread's panic was already turned into a fault.
            let _ = thread.join();
        }
    }
}

impl Work {
    /// No code panics while it holds the lock, so a poisoned one holds a sound state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One thread: claims steps until it is told to stop.
    fn run(&self) {
        while let Some(step) = self.claim() {
            let result =
                catch_unwind(AssertUnwindSafe(|| self.prepare(step))).unwrap_or_else(|_| {
                    Err(Fault::internal("the preparation of a batch panicked").at(Step::new(step)))
                });
            self.lock().done.insert(step, result);
            self.ready.notify_all();
        }
    }

    /// Waits for room and takes the next step; nothing when it is time to stop.
    fn claim(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.stop || state.unclaimed >= self.timetable.steps_total() {
                return None;
            }
            if state.unclaimed < state.wanted + self.ahead {
                state.unclaimed += 1;
                return Some(state.unclaimed - 1);
            }
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Computes a step; gives up between shards when it is time to stop.
    fn prepare(&self, step: u64) -> Result<StepBatch, Fault> {
        let plan = self.timetable.at(Step::new(step));
        let augment = AugmentKey {
            seed: self.seed,
            epoch: plan.epoch,
        };
        let own = shards_of(plan.filled(), self.seat.rank, self.seat.world);
        let first = ShardId::new(own.start);
        let mut shards = Vec::with_capacity(own.len());
        for shard in own.map(ShardId::new) {
            if self.lock().stop {
                return Err(Fault::internal("the prefetcher was stopped").at(plan.step));
            }
            let batch = self
                .dataset
                .batch(Part::Train, plan.shard(shard), Some(augment))
                .map_err(|fault| fault.at(plan.step))?;
            shards.push(batch);
        }
        Ok(StepBatch {
            plan,
            first,
            shards,
        })
    }
}
