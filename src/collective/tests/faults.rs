//! What happens when ranks do not do their part. Each test runs over shared memory, TCP, and NCCL's stand-in.

use std::time::Instant;

use super::*;

/// Long enough for a busy machine, short enough for a test.
const SHORT: Duration = Duration::from_millis(300);

type Make = fn(u32, usize, usize, Duration) -> Group;

const KINDS: [(&str, Make); 3] = [("shm", shm), ("tcp", tcp), ("nccl", nccl)];

type Act = fn(&mut dyn Collective) -> Result<(), CollectiveError>;

/// Calls in which rank 0 waits for rank 1, with one node buffer of 100 floats.
const WAITS: [Act; 6] = [
    |rank| rank.barrier(),
    |rank| rank.gather(b"x").map(|_| ()),
    |rank| rank.broadcast(Rank::new(1), &mut Vec::new()),
    |rank| rank.sum(&canonical(2, rank.world_size()), 100).map(|_| ()),
    |rank| rank.recv(Rank::new(1)).map(|_| ()),
    // More than any buffer between two ranks holds.
    |rank| rank.send(Rank::new(1), &vec![0; 64 << 20]),
];

#[test]
fn a_waiting_rank_is_aborted_at_once() {
    for (name, make) in KINDS {
        for (place, wait) in WAITS.into_iter().enumerate() {
            // The best of a few: a busy machine may keep us waiting, but not each time.
            let best = (0..4)
                .map(|_| time_to_abort(&mut make(2, 100, 1, LONG), wait))
                .min();
            let best = best.unwrap();
            assert!(
                best < Duration::from_millis(5),
                "{name}, call {place}: {best:?}"
            );
        }
    }
}

fn time_to_abort(group: &mut Group, wait: Act) -> Duration {
    let (first, _others) = group.split_at_mut(1);
    let handle = first[0].handle();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let result = wait(first[0].as_mut());
            (Instant::now(), result)
        });
        while !handle.position().waiting {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(handle.missing(), [Rank::new(1)]);
        let start = Instant::now();
        handle.abort();
        let (end, result) = waiting.join().unwrap();
        assert!(
            matches!(result, Err(CollectiveError::Aborted)),
            "{result:?}"
        );
        end - start
    })
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    for (name, make) in KINDS {
        for (place, wait) in WAITS.into_iter().take(4).enumerate() {
            let mut group = make(3, 100, 1, SHORT);
            let mut absent = group.remove(1);
            each(&mut group, |rank| {
                let start = Instant::now();
                let result = wait(rank);
                assert!(start.elapsed() >= SHORT);
                match result {
                    Err(CollectiveError::TimedOut {
                        number: 1, missing, ..
                    }) => {
                        assert_eq!(missing, [Rank::new(1)], "{name}, call {place}");
                    }
                    other => panic!("{name}, call {place}: {other:?}"),
                }
                assert_eq!(rank.handle().missing(), [Rank::new(1)]);
                assert!(matches!(rank.barrier(), Err(CollectiveError::Aborted)));
                assert!(matches!(
                    rank.node_buffers(1, 1),
                    Err(CollectiveError::Aborted)
                ));
            });
            drop(group);
            // The one that was late may still find all others there, but not go on alone.
            let late = wait(absent.as_mut()).and_then(|()| absent.barrier());
            assert!(late.is_err(), "{name}, call {place}");
        }
    }
}

#[test]
fn a_rank_that_has_left_is_named_at_once() {
    for (name, make) in KINDS {
        for (place, wait) in WAITS.into_iter().enumerate() {
            let mut group = make(3, 100, 1, LONG);
            each(&mut group, |rank| rank.barrier().unwrap());
            drop(group.remove(1));
            group.truncate(1);
            match wait(group[0].as_mut()) {
                Err(CollectiveError::Closed { rank, .. }) => assert_eq!(rank, Rank::new(1)),
                other => panic!("{name}, call {place}: {other:?}"),
            }
        }
    }
}

#[test]
fn ranks_that_disagree_all_learn_of_it() {
    fn sum(rank: &mut dyn Collective, shards: u32, len: usize) -> Result<(), CollectiveError> {
        let reduction = canonical(shards, rank.world_size());
        rank.sum(&reduction, len).map(|_| ())
    }
    let pairs: [(Act, Act); 6] = [
        (
            |rank| rank.barrier(),
            |rank| rank.gather(&vec![1; 100_000]).map(|_| ()),
        ),
        (|rank| sum(rank, 3, 90), |rank| sum(rank, 3, 91)),
        (|rank| sum(rank, 3, 0), |rank| sum(rank, 3, 1)),
        (|rank| sum(rank, 3, 90), |rank| sum(rank, 2, 90)),
        (|rank| sum(rank, 3, 90), |rank| rank.barrier()),
        (
            |rank| rank.broadcast(Rank::new(0), &mut vec![5; 600_000]),
            |rank| rank.broadcast(Rank::new(1), &mut vec![5; 600_000]),
        ),
    ];
    for (name, make) in KINDS {
        for (place, (odd, usual)) in pairs.into_iter().enumerate() {
            let mut group = make(3, 100, 1, LONG);
            each(&mut group, |rank| {
                let is_odd = rank.rank() == Rank::new(1);
                let result = if is_odd { odd(rank) } else { usual(rank) };
                match result {
                    Err(CollectiveError::Mismatch { rank, theirs, mine }) => {
                        assert_ne!(theirs, mine);
                        assert!(is_odd || rank == Rank::new(1), "{name}, pair {place}");
                    }
                    other => panic!("{name}, pair {place}: {other:?}"),
                }
                assert!(matches!(rank.barrier(), Err(CollectiveError::Aborted)));
            });
        }
    }
}

#[test]
fn a_message_between_other_collectives_is_no_match() {
    for (name, make) in KINDS {
        let mut group = make(2, 0, 0, LONG);
        let results = each(&mut group, |rank| {
            if rank.rank() == Rank::new(0) {
                rank.send(Rank::new(1), b"late")?;
                rank.barrier()
            } else {
                rank.barrier()?;
                rank.recv(Rank::new(0)).map(|_| ())
            }
        });
        let found = results.iter().find_map(|result| match result {
            Err(CollectiveError::Mismatch { theirs, .. }) => Some(theirs),
            _ => None,
        });
        assert_eq!(
            found.map(String::as_str),
            Some("number 0: send"),
            "{name}: {results:?}"
        );
    }
}
