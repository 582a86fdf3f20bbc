//! Shared memory: sizes, hostile segments, and what is seen from outside.

use std::os::fd::OwnedFd;

use super::*;
use crate::collective::call::CALL_WORDS;

const SHORT: Duration = Duration::from_millis(200);

fn create(world: u32) -> OwnedFd {
    Segment::create(WorldSize::new(world), 100, 2).unwrap()
}

fn join(fd: &OwnedFd, rank: u32) -> Result<Shm, CollectiveError> {
    Shm::join(fd, Rank::new(rank), SHORT)
}

fn reason<T: std::fmt::Debug>(result: Result<T, CollectiveError>) -> String {
    match result {
        Err(CollectiveError::Segment { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

/// A sealed memory that holds these words at its beginning.
fn forged(words: &[u64], bytes: u64) -> OwnedFd {
    let fd = memfd_create("forged", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, bytes).unwrap();
    let header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    rustix::io::pwrite(&fd, &header, 0).unwrap();
    fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
    fd
}

#[test]
fn seats_are_taken_once() {
    let fd = create(2);
    let first = join(&fd, 0).unwrap();
    assert_eq!(reason(join(&fd, 0)), "rank 0 has been taken");
    drop(first);
    assert_eq!(reason(join(&fd, 0)), "rank 0 has been taken");
    assert!(matches!(
        join(&fd, 2),
        Err(CollectiveError::NoSuchRank { .. })
    ));
    join(&fd, 1).unwrap();
}

#[test]
fn impossible_groups_are_refused() {
    for (world, len, nodes) in [
        (0, 1, 1),
        (65, 1, 1),
        (2, usize::MAX, 1),
        (2, 1 << 40, 1 << 40),
    ] {
        reason(Segment::create(WorldSize::new(world), len, nodes));
    }
}

#[test]
fn other_files_are_refused() {
    let plain = tempfile::tempfile().unwrap();
    plain.set_len(1 << 20).unwrap();
    assert_eq!(reason(Segment::peek(&plain)), "it is not sealed");
    let unsealed = memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).unwrap();
    assert_eq!(reason(Segment::peek(&unsealed)), "it is not sealed");
    assert_eq!(reason(Segment::peek(forged(&[], 8))), "it is too short");
    let not_made = "it was not made by this program";
    assert_eq!(
        reason(Segment::peek(forged(&[1, 2, 3, 4, 5], 1 << 20))),
        not_made
    );
    let words = [MAGIC, VERSION + 1, 2, 100, 2];
    let version = format!("its version is {}, this program's {VERSION}", VERSION + 1);
    assert_eq!(reason(Segment::peek(forged(&words, 1 << 20))), version);
    for lie in [
        [MAGIC, VERSION, 2, u64::MAX, 2],
        [MAGIC, VERSION, 64, 100, 2],
    ] {
        let sizes = "its sizes contradict each other";
        assert_eq!(reason(Segment::peek(forged(&lie, 1 << 20))), sizes);
        assert_eq!(reason(join(&forged(&lie, 1 << 20), 0)), sizes);
    }
}

#[test]
fn nobody_can_shrink_the_memory() {
    let fd = create(2);
    assert!(ftruncate(&fd, 4096).is_err());
    assert!(ftruncate(&fd, 1 << 30).is_err());
}

#[test]
fn a_ring_whose_counters_lie_is_noticed() {
    let fd = create(2);
    let mut rank = join(&fd, 0).unwrap();
    let other = join(&fd, 1).unwrap();
    let ring = other.segment.layout.ring(Rank::new(1), Rank::new(0));
    let word = other.segment.word(ring.written);
    word.store(u64::MAX / 2, Ordering::Relaxed);
    assert_eq!(
        reason(rank.recv(Rank::new(1))),
        "the counters of a ring disagree"
    );
    assert!(matches!(rank.barrier(), Err(CollectiveError::Aborted)));
}

#[test]
fn lengths_that_lie_are_noticed() {
    let fd = create(2);
    let mut rank = join(&fd, 0).unwrap();
    let other = join(&fd, 1).unwrap();
    let seat = Layout::seat(Rank::new(1));
    let words = Call::new(1, Kind::Gather).encode();
    for (place, word) in (0..).zip(words.into_iter().chain([u64::MAX])) {
        let place = seat.call(1) + 8 * place;
        other.segment.word(place).store(word, Ordering::Relaxed);
    }
    assert_eq!(words.len(), CALL_WORDS);
    other
        .segment
        .word(seat.arrived())
        .store(1, Ordering::Release);
    assert!(matches!(
        rank.gather(&[]),
        Err(CollectiveError::TooLong { .. })
    ));
    assert!(matches!(rank.barrier(), Err(CollectiveError::Aborted)));
}

#[test]
fn others_can_see_who_waits() {
    let fd = create(2);
    let mut rank = join(&fd, 0).unwrap();
    let idle = Segment::peek(&fd).unwrap();
    assert!(
        idle.iter()
            .all(|position| position.number == 0 && !position.waiting)
    );
    assert!(idle.iter().all(|position| position.kind == Kind::Idle));
    std::thread::scope(|scope| {
        scope.spawn(|| rank.barrier().unwrap_err());
        loop {
            let seen = Segment::peek(&fd).unwrap();
            if seen[0].waiting {
                assert_eq!((seen[0].number, seen[0].kind), (1, Kind::Barrier));
                assert_eq!(seen[1], idle[1]);
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn node_buffers_begin_as_zeros_and_do_not_overlap() {
    let fd = create(3);
    let mut ranks: Vec<_> = (0..3).map(|rank| join(&fd, rank).unwrap()).collect();
    for (rank, mark) in ranks.iter_mut().zip([1.0, 2.0, 3.0]) {
        for (buffer, half) in rank
            .node_buffers(2, 100)
            .unwrap()
            .into_iter()
            .zip([0.0, 0.5])
        {
            assert!(buffer.iter().all(|value| *value == 0.0));
            buffer.fill(mark + half);
        }
    }
    for (rank, mark) in ranks.iter_mut().zip([1.0_f32, 2.0, 3.0]) {
        let buffers = rank.node_buffers(2, 100).unwrap();
        assert!(
            buffers[0]
                .iter()
                .all(|value| value.to_bits() == mark.to_bits())
        );
        assert!(
            buffers[1]
                .iter()
                .all(|value| value.to_bits() == (mark + 0.5).to_bits())
        );
    }
}

#[test]
fn a_killed_sleeper_costs_nothing_but_time() {
    // What a rank leaves behind that is killed while it sleeps.
    let fd = create(2);
    let mut ranks: Vec<_> = (0..2).map(|rank| join(&fd, rank).unwrap()).collect();
    let segment = Segment::open(&fd).unwrap();
    segment
        .bell(HEADER.bell)
        .sleepers
        .fetch_add(3, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for rank in &mut ranks {
            scope.spawn(|| (0..1000).for_each(|_| rank.barrier().unwrap()));
        }
    });
}
