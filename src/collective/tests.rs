//! One suite for all implementations. Ranks are threads here; processes are in `process`.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use super::nccl::tests::nccl;
use super::*;
use crate::config::SumOrder;
use crate::run::Token;

mod chaos;
mod fast;
mod faults;
mod process;

pub(super) type Group = Vec<Box<dyn Collective>>;

/// A group of shared-memory ranks.
pub(super) fn shm(world: u32, vector_len: usize, nodes_max: usize, timeout: Duration) -> Group {
    let fd = Segment::create(WorldSize::new(world), vector_len, nodes_max).unwrap();
    let join = |rank| -> Box<dyn Collective> {
        Box::new(Shm::join(&fd, Rank::new(rank), timeout).unwrap())
    };
    (0..world).map(join).collect()
}

fn solo(world: u32, vector_len: usize, nodes_max: usize, _timeout: Duration) -> Group {
    assert_eq!(world, 1);
    vec![Box::new(Solo::new(vector_len, nodes_max))]
}

/// A group of ranks on the loopback network.
pub(super) fn tcp(world: u32, vector_len: usize, nodes_max: usize, timeout: Duration) -> Group {
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let listeners: Vec<_> = (0..world).map(|_| Listener::bind(any).unwrap()).collect();
    let peers: Vec<_> = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
    let token = Token::of("the group's");
    let join = |rank, listener| -> Box<dyn Collective> {
        let membership = Membership {
            rank: Rank::new(rank),
            world: WorldSize::new(world),
            peers: &peers,
            token: &token,
            vector_len,
            nodes_max,
            timeout,
            join_timeout: timeout,
        };
        Box::new(Tcp::join(&membership, listener).unwrap())
    };
    thread::scope(|scope| {
        let joining = (0..).zip(listeners);
        let threads: Vec<_> = joining
            .map(|(rank, listener)| scope.spawn(move || join(rank, listener)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

pub(super) const LONG: Duration = Duration::from_mins(1);

/// Does the same on each rank, each on its own thread.
pub(super) fn each<R: Send>(
    group: &mut Group,
    act: impl Fn(&mut dyn Collective) -> R + Sync,
) -> Vec<R> {
    thread::scope(|scope| {
        let threads: Vec<_> = group
            .iter_mut()
            .map(|rank| scope.spawn(|| act(rank.as_mut())))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// A pseudo-random number that depends on all its inputs (the finaliser of SplitMix64).
pub(super) fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// A number between -2^8 and 2^8 of any exponent, so that the order of additions shows.
fn value(seed: u64, shard: u32, index: usize) -> f32 {
    let bits = mix(&[seed, shard.into(), index as u64]);
    let exponent = i32::try_from(bits % 24).unwrap() - 16;
    let mantissa = f32::from(u16::try_from(bits >> 48).unwrap()) / 65536.0 + 1.0;
    let sign = if bits & 0x100 == 0 { 1.0 } else { -1.0 };
    sign * mantissa * 2_f32.powi(exponent)
}

/// The canonical sum by its definition.
fn serial(values: &[f32]) -> f32 {
    match values {
        [] => 0.0,
        [only] => *only,
        _ => {
            let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
            serial(left) + serial(right)
        }
    }
}

pub(super) fn expected(seed: u64, shards: u32, len: usize) -> Vec<u32> {
    let at = |index| {
        let values: Vec<f32> = (0..shards).map(|shard| value(seed, shard, index)).collect();
        serial(&values).to_bits()
    };
    (0..len).map(at).collect()
}

pub(super) fn canonical(shards: u32, world: WorldSize) -> Reduction {
    Reduction::new(shards, world, SumOrder::Canonical)
}

/// Fills the node buffers as a trainer would and sums.
pub(super) fn sum_bits(
    rank: &mut dyn Collective,
    seed: u64,
    shards: u32,
    len: usize,
) -> Result<Vec<u32>, CollectiveError> {
    let reduction = canonical(shards, rank.world_size());
    sum_bits_of(rank, &reduction, seed, len)
}

fn sum_bits_of(
    rank: &mut dyn Collective,
    reduction: &Reduction,
    seed: u64,
    len: usize,
) -> Result<Vec<u32>, CollectiveError> {
    let me = rank.rank();
    let mut sum = reduction.node_sum(me);
    for shard in reduction.shards_of(me) {
        let values: Vec<f32> = (0..len).map(|i| value(seed, shard, i)).collect();
        sum.push(values, |a, b| {
            a.iter().zip(&b).map(|(a, b)| a + b).collect()
        });
    }
    let sums = sum.finish();
    let buffers = rank.node_buffers(sums.len(), len)?;
    for (buffer, sum) in buffers.into_iter().zip(&sums) {
        buffer.copy_from_slice(sum);
    }
    let result = rank.sum(reduction, len)?;
    Ok(result.iter().map(|value| value.to_bits()).collect())
}

/// What rank `rank` says in round `round`.
pub(super) fn message(rank: u32, round: u64, len: usize) -> Vec<u8> {
    let start = mix(&[rank.into(), round]);
    (start..)
        .take(len)
        .map(|byte| byte.to_le_bytes()[0])
        .collect()
}

fn sums_have_the_bits_of_one_process(group: &mut Group) {
    let (world, nodes_max) = (group[0].world_size(), group[0].nodes_max());
    for seed in 0..40 {
        let shards = u32::try_from(mix(&[seed, 1]) % 18).unwrap();
        let len = match seed {
            // Fewer values than ranks, none, and the ends of cache lines and pieces.
            0..12 => usize::try_from(seed).unwrap(),
            12..20 => 15 + usize::try_from(seed).unwrap(),
            _ => usize::try_from(mix(&[seed]) % 9000).unwrap(),
        };
        if canonical(shards, world).nodes_max() > nodes_max {
            continue;
        }
        let expected = expected(seed, shards, len);
        for bits in each(group, |rank| sum_bits(rank, seed, shards, len).unwrap()) {
            assert_eq!(bits, expected, "{shards} shards, {len} values");
        }
    }
}

fn long_vectors_are_summed(group: &mut Group) {
    let world = group[0].world_size();
    let len = group[0].vector_len();
    let results = each(group, |rank| {
        let reduction = canonical(world.get(), world);
        for round in [1_u16, 2] {
            let me = f32::from(u16::try_from(rank.rank().get()).unwrap() + round);
            let buffers = rank.node_buffers(1, len).unwrap();
            for buffer in buffers {
                for (value, i) in buffer.iter_mut().zip((0_u16..1024).cycle()) {
                    *value = me + f32::from(i);
                }
            }
            let result = rank.sum(&reduction, len).unwrap();
            let ranks = f32::from(u16::try_from(world.get()).unwrap());
            let base = ranks * (ranks - 1.0) / 2.0 + ranks * f32::from(round);
            let wrong = result
                .iter()
                .zip((0_u16..1024).cycle())
                .position(|(value, i)| value.to_bits() != (base + ranks * f32::from(i)).to_bits());
            assert_eq!(wrong, None, "round {round}");
        }
    });
    assert_eq!(results.len(), world.get() as usize);
}

fn messages_of_any_length_are_gathered(group: &mut Group) {
    let lengths = [
        0,
        1,
        4096,
        (256 << 10) - 1,
        256 << 10,
        (256 << 10) + 1,
        3_000_000,
    ];
    for round in 0..14_u64 {
        let length = |rank: u32| lengths[(rank as usize + usize::try_from(round).unwrap()) % 7];
        let world = group[0].world_size().get();
        let expected: Vec<Vec<u8>> = (0..world)
            .map(|rank| message(rank, round, length(rank)))
            .collect();
        for gathered in each(group, |rank| {
            let me = rank.rank().get();
            rank.gather(&message(me, round, length(me))).unwrap()
        }) {
            assert!(gathered == expected, "round {round}");
        }
    }
}

fn everyone_hears_the_root(group: &mut Group) {
    let world = group[0].world_size().get();
    for (round, length) in (0..).zip([0, 1, 5000, 256 << 10, (512 << 10) + 1, 20_000_001]) {
        let root = Rank::new(u32::try_from(round).unwrap() % world);
        let expected = message(root.get(), round, length);
        for heard in each(group, |rank| {
            let mut bytes = if rank.rank() == root {
                message(root.get(), round, length)
            } else {
                vec![7; 100]
            };
            rank.broadcast(root, &mut bytes).unwrap();
            bytes
        }) {
            assert!(heard == expected, "round {round}");
        }
    }
}

fn messages_go_from_one_to_one(group: &mut Group) {
    let world = group[0].world_size().get();
    if world == 1 {
        let own = group[0].rank();
        assert!(matches!(
            group[0].send(own, &[]),
            Err(CollectiveError::Alone { .. })
        ));
        assert!(matches!(
            group[0].recv(own),
            Err(CollectiveError::Alone { .. })
        ));
        return;
    }
    let lengths = [0, 1, 100, 64 << 10, 200_000, 3_000_001];
    each(group, |rank| {
        let me = rank.rank().get();
        let next = Rank::new((me + 1) % world);
        let before = Rank::new((me + world - 1) % world);
        for (round, &length) in (0..).zip(&lengths) {
            // Round the circle; rank 0 begins.
            if me == 0 {
                rank.send(next, &message(me, round, length)).unwrap();
            }
            let received = rank.recv(before).unwrap();
            assert!(
                received == message(before.get(), round, length),
                "round {round}"
            );
            if me != 0 {
                rank.send(next, &message(me, round, length)).unwrap();
            }
            rank.barrier().unwrap();
        }
        let outside = Rank::new(world);
        assert!(matches!(
            rank.send(outside, &[]),
            Err(CollectiveError::NoSuchRank { .. })
        ));
    });
}

fn positions_are_seen(group: &mut Group) {
    each(group, |rank| {
        let handle = rank.handle();
        assert_eq!(handle.position().number, 0);
        rank.barrier().unwrap();
        rank.gather(b"x").unwrap();
        let expected = Position {
            number: 2,
            kind: Kind::Gather,
            waiting: false,
        };
        assert_eq!(handle.position(), expected);
        assert_eq!(handle.missing(), []);
    });
}

fn impossible_arguments_are_refused_and_change_nothing(group: &mut Group) {
    each(group, |rank| {
        let (len, nodes) = (rank.vector_len(), rank.nodes_max());
        let world = rank.world_size();
        assert!(matches!(
            rank.node_buffers(1, len + 1),
            Err(CollectiveError::TooLong { .. })
        ));
        assert!(matches!(
            rank.node_buffers(nodes + 1, len),
            Err(CollectiveError::TooMany { .. })
        ));
        let other = canonical(1, world.next());
        assert!(matches!(
            rank.sum(&other, 0),
            Err(CollectiveError::WrongReduction { .. })
        ));
        assert!(matches!(
            rank.broadcast(Rank::new(world.get()), &mut Vec::new()),
            Err(CollectiveError::NoSuchRank { .. })
        ));
        rank.barrier().unwrap();
        assert_eq!(rank.handle().position().number, 1);
    });
}

fn an_aborted_rank_does_nothing_more(group: &mut Group) {
    for rank in group.iter_mut() {
        rank.handle().abort();
        let reduction = canonical(1, rank.world_size());
        assert!(matches!(rank.barrier(), Err(CollectiveError::Aborted)));
        assert!(matches!(rank.gather(&[]), Err(CollectiveError::Aborted)));
        assert!(matches!(
            rank.sum(&reduction, 1),
            Err(CollectiveError::Aborted)
        ));
        assert!(matches!(
            rank.node_buffers(1, 1),
            Err(CollectiveError::Aborted)
        ));
        let root = Rank::new(0);
        assert!(matches!(
            rank.broadcast(root, &mut Vec::new()),
            Err(CollectiveError::Aborted)
        ));
    }
}

macro_rules! suite {
    ($name:ident: $($world:literal),+) => {
        mod $name {
            use super::*;

            fn groups(len: usize, nodes: usize) -> impl Iterator<Item = Group> {
                [$($world),+].into_iter().map(move |world| $name(world, len, nodes, LONG))
            }

            #[test]
            fn sums() {
                groups(9000, 6).for_each(|mut group| sums_have_the_bits_of_one_process(&mut group));
            }

            #[test]
            fn long_sums() {
                groups(1_500_007, 1).for_each(|mut group| long_vectors_are_summed(&mut group));
            }

            #[test]
            fn gathers() {
                groups(0, 0).for_each(|mut group| messages_of_any_length_are_gathered(&mut group));
            }

            #[test]
            fn broadcasts() {
                groups(0, 0).for_each(|mut group| everyone_hears_the_root(&mut group));
            }

            #[test]
            fn messages() {
                groups(0, 0).for_each(|mut group| messages_go_from_one_to_one(&mut group));
            }

            #[test]
            fn positions() {
                groups(0, 0).for_each(|mut group| positions_are_seen(&mut group));
            }

            #[test]
            fn refusals() {
                let groups = groups(10, 1);
                groups.for_each(|mut group| impossible_arguments_are_refused_and_change_nothing(&mut group));
            }

            #[test]
            fn aborted() {
                groups(10, 1).for_each(|mut group| an_aborted_rank_does_nothing_more(&mut group));
            }

            #[test]
            fn mixtures() {
                groups(600, 3).for_each(|mut group| chaos::mixtures_do_not_go_wrong(&mut group));
            }
        }
    };
}

suite!(solo: 1);
suite!(shm: 1, 2, 3, 4, 8);
suite!(tcp: 1, 2, 3, 4, 8);
suite!(nccl: 1, 3, 8);
