//! A stand-in for NCCL: ranks in one process, arrays in host memory, and trouble on demand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use super::*;
use crate::collective::nccl::library::{Progress, Refusal};
use crate::run::WorldSize;

/// What ranks share.
#[derive(Default)]
pub(super) struct Hub {
    /// Ranks that have begun, by group.
    begun: BTreeMap<Id, Vec<Rank>>,
    /// Floats on their way.
    sent: BTreeMap<(Id, Rank, Rank), VecDeque<Vec<f32>>>,
    /// Vectors to be summed by the library, by group and number of the sum.
    summed: BTreeMap<(Id, usize), BTreeMap<Rank, Vec<f32>>>,
    /// Ranks that were aborted.
    gone: Vec<(Id, Rank)>,
    /// What was called, but for questions.
    pub(super) calls: Vec<(Rank, &'static str)>,
    /// Names given so far.
    ids: u8,
}

/// What goes wrong with a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing.
    None,
    /// Its device is never done with a sum.
    Stalls,
    /// It never becomes a rank.
    NeverJoins,
    /// The library refuses this call.
    Refuses(&'static str),
    /// Its threads find an error while a sum is under way.
    Fails,
    /// As before, and another rank is the cause.
    FailsRemotely,
}

/// One rank's view.
pub(super) struct StandIn {
    hub: Arc<Mutex<Hub>>,
    trouble: Trouble,
    me: Rank,
    group: Option<(Id, WorldSize)>,
    array: Vec<f32>,
    waiting: Vec<Transfer>,
    sum: Option<Range<usize>>,
    sums: usize,
    freed: bool,
}

impl StandIn {
    pub(super) fn new(hub: &Arc<Mutex<Hub>>, me: Rank, trouble: Trouble) -> Self {
        Self {
            hub: Arc::clone(hub),
            trouble,
            me,
            group: None,
            array: Vec::new(),
            waiting: Vec::new(),
            sum: None,
            sums: 0,
            freed: false,
        }
    }

    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap()
    }

    fn called(&self, what: &'static str) -> Result<(), Refusal> {
        self.hub().calls.push((self.me, what));
        if self.trouble == Trouble::Refuses(what) {
            return Err(refusal(false));
        }
        Ok(())
    }

    fn group(&self) -> (Id, WorldSize) {
        assert!(!self.freed, "used after it was freed");
        self.group.unwrap()
    }

    /// Nothing may be asked while the device is at work.
    fn assert_idle(&self) {
        assert!(self.waiting.is_empty() && self.sum.is_none());
    }
}

pub(super) fn refusal(remote: bool) -> Refusal {
    Refusal {
        doing: "do as told",
        reason: "the stand-in refuses".to_string(),
        remote,
    }
}

impl Library for StandIn {
    fn id(&mut self) -> Result<Id, Refusal> {
        self.called("id")?;
        let mut hub = self.hub();
        hub.ids += 1;
        Ok([hub.ids; ID_BYTES])
    }

    fn begin(&mut self, id: &Id, rank: Rank, world: WorldSize) -> Result<(), Refusal> {
        assert_eq!(rank, self.me);
        self.called("begin")?;
        self.hub().begun.entry(*id).or_default().push(rank);
        self.group = Some((*id, world));
        Ok(())
    }

    fn progress(&mut self) -> Result<Progress, Refusal> {
        let (id, world) = self.group();
        let hub = self.hub();
        let busy = self.sum.is_some() || !self.waiting.is_empty();
        match self.trouble {
            Trouble::Fails if busy => return Err(refusal(false)),
            Trouble::FailsRemotely if busy => return Err(refusal(true)),
            Trouble::NeverJoins => return Ok(Progress::UnderWay),
            _ => {}
        }
        if busy
            && hub
                .gone
                .iter()
                .any(|(of, rank)| *of == id && *rank != self.me)
        {
            return Err(refusal(true));
        }
        let all = hub.begun[&id].len() == world.get() as usize;
        Ok(if all {
            Progress::Settled
        } else {
            Progress::UnderWay
        })
    }

    fn is_idle(&mut self) -> Result<bool, Refusal> {
        let (id, world) = self.group();
        let mut hub = self.hub.lock().unwrap();
        if self.trouble == Trouble::Stalls && (self.sum.is_some() || !self.waiting.is_empty()) {
            return Ok(false);
        }
        while let Some(next) = self.waiting.first() {
            let way = hub.sent.entry((id, next.peer, self.me)).or_default();
            let Some(values) = way.pop_front() else {
                return Ok(false);
            };
            self.array[next.range.clone()].copy_from_slice(&values);
            self.waiting.remove(0);
        }
        if let Some(range) = &self.sum {
            let of_all = &hub.summed[&(id, self.sums)];
            if of_all.len() < world.get() as usize {
                return Ok(false);
            }
            // Another order than any of ours: from the last rank to the first.
            for (place, sum) in self.array[range.clone()].iter_mut().enumerate() {
                let values = of_all.values().rev().map(|values| values[place]);
                *sum = values.reduce(|a, b| a + b).unwrap();
            }
            self.sum = None;
        }
        Ok(true)
    }

    fn reserve(&mut self, floats: usize) -> Result<(), Refusal> {
        self.assert_idle();
        self.called("reserve")?;
        if self.array.len() < floats {
            // Nobody may rely on what is there.
            self.array = vec![f32::NAN; floats];
        }
        Ok(())
    }

    fn upload(&mut self, at: usize, values: &[f32]) -> Result<(), Refusal> {
        self.assert_idle();
        self.called("upload")?;
        self.array[at..at + values.len()].copy_from_slice(values);
        Ok(())
    }

    fn download(&mut self, at: usize, values: &mut [f32]) -> Result<(), Refusal> {
        self.assert_idle();
        self.called("download")?;
        values.copy_from_slice(&self.array[at..at + values.len()]);
        Ok(())
    }

    fn transfer(&mut self, transfers: &[Transfer]) -> Result<(), Refusal> {
        self.assert_idle();
        let (id, _) = self.group();
        self.called("transfer")?;
        let mut hub = self.hub();
        for transfer in transfers {
            assert!(!transfer.range.is_empty() && transfer.peer != self.me);
            if transfer.way == Way::Out {
                let values = self.array[transfer.range.clone()].to_vec();
                let way = hub.sent.entry((id, self.me, transfer.peer)).or_default();
                way.push_back(values);
            }
        }
        drop(hub);
        let into = transfers.iter().filter(|transfer| transfer.way == Way::In);
        self.waiting.extend(into.cloned());
        Ok(())
    }

    fn all_reduce(&mut self, range: Range<usize>) -> Result<(), Refusal> {
        self.assert_idle();
        let (id, _) = self.group();
        self.sums += 1;
        self.called("all_reduce")?;
        let mut hub = self.hub();
        let of_all = hub.summed.entry((id, self.sums)).or_default();
        of_all.insert(self.me, self.array[range.clone()].to_vec());
        drop(hub);
        self.sum = Some(range);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Refusal> {
        self.assert_idle();
        self.called("finish")
    }

    fn free(&mut self) {
        assert!(!std::mem::replace(&mut self.freed, true));
        self.hub().calls.push((self.me, "free"));
    }

    fn abort(&mut self) {
        assert!(!std::mem::replace(&mut self.freed, true));
        let mut hub = self.hub();
        hub.calls.push((self.me, "abort"));
        if let Some((id, _)) = self.group {
            hub.gone.push((id, self.me));
        }
    }
}
