//! The bookkeeping around NCCL, against a stand-in for it. That sums are right with any number of ranks is
//! in the suite of all collectives.

mod stand_in;

use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use self::stand_in::{Hub, StandIn, Trouble};
use super::*;
use crate::collective::tests::{Group, LONG, each, shm};
use crate::collective::{Kind, Solo};

/// Long enough for a busy machine, short enough for a test.
const SHORT: Duration = Duration::from_millis(300);

/// A group whose library is a stand-in, above ranks in shared memory.
pub(in crate::collective) fn nccl(
    world: u32,
    vector_len: usize,
    nodes_max: usize,
    timeout: Duration,
) -> Group {
    let hub = Arc::default();
    let inner = shm(world, vector_len, nodes_max, timeout);
    let joined = join(&hub, inner, &|_| (Trouble::None, timeout));
    joined.into_iter().map(Result::unwrap).collect()
}

type Joined = Result<Box<dyn Collective>, CollectiveError>;

fn join(
    hub: &Arc<Mutex<Hub>>,
    inner: Group,
    setting: &(dyn Fn(u32) -> (Trouble, Duration) + Sync),
) -> Vec<Joined> {
    let one = |inner: Box<dyn Collective>| -> Joined {
        let me = inner.rank();
        let (trouble, timeout) = setting(me.get());
        let library = Box::new(StandIn::new(hub, me, trouble));
        Ok(Box::new(Nccl::through(library, inner, timeout, timeout)?))
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (inner.into_iter())
            .map(|inner| scope.spawn(|| one(inner)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// Three ranks of which the second has trouble, and waits this long.
fn trio(hub: &Arc<Mutex<Hub>>, trouble: Trouble, timeout: Duration) -> Vec<Joined> {
    join(hub, shm(3, 100, 2, LONG), &|rank| match rank {
        1 => (trouble, timeout),
        _ => (Trouble::None, LONG),
    })
}

fn sum(rank: &mut dyn Collective, order: SumOrder) -> Result<(), CollectiveError> {
    let reduction = Reduction::new(3, rank.world_size(), order);
    rank.sum(&reduction, 100).map(|_| ())
}

/// How often a rank called something.
fn count(hub: &Mutex<Hub>, rank: u32, what: &str) -> usize {
    let hub = hub.lock().unwrap();
    let found = hub.calls.iter();
    found
        .filter(|(of, call)| of.get() == rank && *call == what)
        .count()
}

const BOTH: [SumOrder; 2] = [SumOrder::Canonical, SumOrder::Fast];

#[test]
fn a_group_leaves_in_peace() {
    let hub = Arc::default();
    let joined = trio(&hub, Trouble::None, LONG);
    let mut group: Group = joined.into_iter().map(Result::unwrap).collect();
    each(&mut group, |rank| sum(rank, SumOrder::Canonical).unwrap());
    drop(group);
    for rank in 0..3 {
        let ends = ["finish", "free", "abort"].map(|what| count(&hub, rank, what));
        assert_eq!(ends, [1, 1, 0]);
    }
}

#[test]
fn each_group_has_a_name_of_its_own() {
    let hub = Arc::default();
    for _ in 0..3 {
        let joined = trio(&hub, Trouble::None, LONG);
        drop(joined.into_iter().map(Result::unwrap).collect::<Group>());
    }
    // One rank makes it, all begin.
    let made = [0, 1, 2].map(|rank| count(&hub, rank, "id"));
    let begun = [0, 1, 2].map(|rank| count(&hub, rank, "begin"));
    assert_eq!((made, begun), ([3, 0, 0], [3, 3, 3]));
}

#[test]
fn only_the_fast_order_leaves_the_sum_to_the_library() {
    for (order, calls) in [(SumOrder::Canonical, [2, 0]), (SumOrder::Fast, [0, 1])] {
        let hub = Arc::default();
        let joined = trio(&hub, Trouble::None, LONG);
        let mut group: Group = joined.into_iter().map(Result::unwrap).collect();
        each(&mut group, |rank| sum(rank, order).unwrap());
        let found = ["transfer", "all_reduce"].map(|what| count(&hub, 1, what));
        assert_eq!(found, calls, "{order:?}");
    }
}

#[test]
fn the_library_sums_one_vector_of_each_rank() {
    // More ranks than shards: those without take part with zeros.
    for (world, shards) in [(1, 4_u16), (2, 5), (4, 3)] {
        let mut group = nccl(world, 50, 1, LONG);
        let found = each(&mut group, |rank| {
            let reduction = Reduction::new(shards.into(), rank.world_size(), SumOrder::Fast);
            let mine = reduction.shards_of(rank.rank());
            let total: u32 = mine.map(|shard| shard + 1).sum();
            let count = reduction.nodes_of(rank.rank()).len();
            for buffer in rank.node_buffers(count, 50).unwrap() {
                buffer.fill(f32::from(u16::try_from(total).unwrap()));
            }
            rank.sum(&reduction, 50).unwrap().to_vec()
        });
        let expected = f32::from(shards * (shards + 1) / 2);
        assert!(
            found.iter().all(|sum| sum == &[expected; 50]),
            "{world} ranks"
        );
    }
}

#[test]
fn an_abort_reaches_a_rank_whose_library_waits() {
    for order in BOTH {
        let hub = Arc::default();
        let joined = trio(&hub, Trouble::Stalls, LONG);
        let mut group: Group = joined.into_iter().map(Result::unwrap).collect();
        let handle = group[1].handle();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| each(&mut group, |rank| sum(rank, order)));
            // It waits inside the library: all have come, and nobody is missing.
            let inside = |handle: &Handle| {
                let position = handle.position();
                position.waiting && position.kind == Kind::Sum && position.number == 1
            };
            while !inside(&handle) {
                thread::sleep(Duration::from_millis(1));
            }
            handle.abort();
            let results = waiting.join().unwrap();
            assert!(
                matches!(results[1], Err(CollectiveError::Aborted)),
                "{results:?}"
            );
        });
        assert!(matches!(group[1].barrier(), Err(CollectiveError::Aborted)));
        assert_eq!(count(&hub, 1, "abort"), 1);
        drop(group);
        let ends = ["finish", "free", "abort"].map(|what| count(&hub, 1, what));
        assert_eq!(ends, [0, 0, 1], "freed once, by the abort");
    }
}

#[test]
fn a_sum_that_the_library_does_not_finish_runs_into_the_time_limit() {
    for order in BOTH {
        let hub = Arc::default();
        let joined = trio(&hub, Trouble::Stalls, SHORT);
        let mut group: Group = joined.into_iter().map(Result::unwrap).collect();
        let begun = Instant::now();
        let results = each(&mut group, |rank| sum(rank, order));
        assert!(begun.elapsed() >= SHORT);
        match &results[1] {
            Err(CollectiveError::TimedOut {
                number: 1,
                kind,
                missing,
            }) => {
                assert_eq!(*kind, Kind::Sum);
                assert_eq!(*missing, [0, 2].map(Rank::new));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(count(&hub, 1, "abort"), 1);
        assert!(matches!(
            group[1].node_buffers(1, 1),
            Err(CollectiveError::Aborted)
        ));
    }
}

#[test]
fn errors_of_the_librarys_threads_are_told_apart() {
    for order in BOTH {
        for (trouble, remote) in [(Trouble::Fails, false), (Trouble::FailsRemotely, true)] {
            let hub = Arc::default();
            let joined = trio(&hub, trouble, LONG);
            let mut group: Group = joined.into_iter().map(Result::unwrap).collect();
            let results = each(&mut group, |rank| sum(rank, order));
            match &results[1] {
                Err(CollectiveError::Library { .. }) => assert!(!remote),
                Err(CollectiveError::Lost { .. }) => assert!(remote),
                other => panic!("{trouble:?}: {other:?}"),
            }
            // Others that still waited for it have lost a rank; none of them is at fault.
            for result in [&results[0], &results[2]] {
                let fine = matches!(result, Ok(()) | Err(CollectiveError::Lost { .. }));
                assert!(fine, "{trouble:?}: {result:?}");
            }
            assert_eq!(count(&hub, 1, "abort"), 1);
        }
    }
}

#[test]
fn any_refusal_ends_the_communicator() {
    let calls = ["reserve", "upload", "transfer", "download"];
    for what in calls {
        let hub = Arc::default();
        let joined = trio(&hub, Trouble::Refuses(what), LONG);
        let mut group: Group = joined.into_iter().map(Result::unwrap).collect();
        let results = each(&mut group, |rank| {
            for buffer in rank.node_buffers(1, 100).unwrap() {
                buffer.fill(1.0);
            }
            sum(rank, SumOrder::Canonical)
        });
        match &results[1] {
            Err(error @ CollectiveError::Library { .. }) => {
                let text = error.to_string();
                assert_eq!(text, "NCCL cannot do as told: the stand-in refuses");
            }
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(count(&hub, 1, "abort"), 1, "{what}");
        assert!(group[1].barrier().is_err());
    }
}

#[test]
fn a_rank_that_does_not_join_keeps_nobody_waiting_for_ever() {
    let second = |trouble| move |rank| (if rank == 1 { trouble } else { Trouble::None }, SHORT);
    let hub = Arc::default();
    let joined = join(&hub, shm(3, 10, 1, LONG), &second(Trouble::NeverJoins));
    let missed = |joined: &Joined| {
        let kind = |kind: &Kind| *kind == Kind::Join;
        matches!(joined, Err(CollectiveError::TimedOut { kind: of, .. }) if kind(of))
    };
    assert!(missed(&joined[1]));
    assert_eq!(count(&hub, 1, "abort"), 1);
    // The library refuses a rank at once: what it may have left behind is freed.
    let hub = Arc::default();
    let joined = join(
        &hub,
        shm(3, 10, 1, LONG),
        &second(Trouble::Refuses("begin")),
    );
    assert!(matches!(joined[1], Err(CollectiveError::Library { .. })));
    assert!(missed(&joined[0]) && missed(&joined[2]));
    assert_eq!([0, 1, 2].map(|rank| count(&hub, rank, "abort")), [1, 1, 1]);
    // Nobody gives the group a name.
    let hub = Arc::default();
    let joined = join(&hub, shm(2, 10, 1, LONG), &|rank| match rank {
        0 => (Trouble::Refuses("id"), LONG),
        _ => (Trouble::None, LONG),
    });
    assert!(matches!(joined[0], Err(CollectiveError::Library { .. })));
    assert!(matches!(joined[1], Err(CollectiveError::Closed { .. })));
}

#[test]
fn an_abort_reaches_a_rank_that_joins() {
    let hub = Arc::default();
    let inner = shm(2, 10, 1, LONG);
    let handles: Vec<Handle> = inner.iter().map(|rank| rank.handle()).collect();
    thread::scope(|scope| {
        let joining = scope.spawn(|| join(&hub, inner, &|_| (Trouble::NeverJoins, LONG)));
        for handle in &handles {
            while !(handle.position().waiting && handle.position().number == 1) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        // Both may still be in the call that brings the name; either way they leave.
        handles.iter().for_each(Handle::abort);
        let joined = joining.join().unwrap();
        assert!(
            joined
                .iter()
                .all(|one| matches!(one, Err(CollectiveError::Aborted)))
        );
    });
}

#[test]
fn a_rank_alone_has_a_communicator_too() {
    let hub = Arc::default();
    let inner: Group = vec![Box::new(Solo::new(10, 1))];
    let mut joined = join(&hub, inner, &|_| (Trouble::None, LONG));
    let mut rank = joined.remove(0).unwrap();
    for order in BOTH {
        rank.node_buffers(1, 10).unwrap()[0].fill(2.5);
        let reduction = Reduction::new(4, rank.world_size(), order);
        assert_eq!(rank.sum(&reduction, 10).unwrap(), [2.5; 10]);
    }
    assert_eq!(count(&hub, 0, "begin"), 1);
}

#[test]
fn what_is_missing_is_said() {
    // Where the libraries are, that is all there is to see without a GPU.
    if let Err(error) = nccl_is_here() {
        let text = error.to_string();
        assert!(text.starts_with("NCCL cannot be used: "), "{text}");
        let inner: Box<dyn Collective> = Box::new(Solo::new(1, 1));
        let joined = Nccl::join(inner, 0, SHORT, SHORT);
        assert!(matches!(joined, Err(CollectiveError::Library { .. })));
    }
}
