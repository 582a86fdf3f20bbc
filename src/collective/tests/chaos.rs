//! Many small collectives in random order, with ranks that dawdle at random.

use super::*;

/// Calls of one run.
const CALLS: u64 = 10_000;

/// A sum whose result is known: seed, shards, length, bits.
type Known = (u64, u32, usize, Vec<u32>);

pub(super) fn mixtures_do_not_go_wrong(group: &mut Group) {
    let world = group[0].world_size();
    let sums: Vec<Known> = (0..16)
        .map(|seed| {
            let shards = u32::try_from(mix(&[seed, 2]) % 10).unwrap();
            let len = usize::try_from(mix(&[seed, 3]) % 600).unwrap();
            (seed, shards, len, expected(seed, shards, len))
        })
        .filter(|(_, shards, ..)| canonical(*shards, world).nodes_max() <= 3)
        .collect();
    let calls = if world.get() > 4 { CALLS / 4 } else { CALLS };
    each(group, |rank| {
        for round in 0..calls {
            one_call(rank, round, &sums);
        }
    });
}

fn one_call(rank: &mut dyn Collective, round: u64, sums: &[Known]) {
    let (me, world) = (rank.rank(), rank.world_size().get());
    let dice = |what: u64, sides: u64| mix(&[round, what]) % sides;
    if mix(&[round, 9, me.get().into()]).is_multiple_of(500) {
        thread::sleep(Duration::from_micros(300));
    }
    match dice(0, 5) {
        0 => rank.barrier().unwrap(),
        1 => {
            let length = |who: u32| usize::try_from(mix(&[round, who.into()]) % 3000).unwrap();
            let gathered = rank
                .gather(&message(me.get(), round, length(me.get())))
                .unwrap();
            for (who, heard) in (0..world).zip(gathered) {
                assert!(heard == message(who, round, length(who)), "round {round}");
            }
        }
        2 => {
            let root = u32::try_from(dice(1, world.into())).unwrap();
            let length = usize::try_from(dice(2, 3000)).unwrap();
            let mut bytes = if root == me.get() {
                message(root, round, length)
            } else {
                Vec::new()
            };
            rank.broadcast(Rank::new(root), &mut bytes).unwrap();
            assert!(bytes == message(root, round, length), "round {round}");
        }
        3 if world > 1 => {
            let from = u32::try_from(dice(1, world.into())).unwrap();
            let to = (from + 1 + u32::try_from(dice(2, u64::from(world) - 1)).unwrap()) % world;
            let length = usize::try_from(dice(3, 100_000)).unwrap();
            if me.get() == from {
                rank.send(Rank::new(to), &message(from, round, length))
                    .unwrap();
            } else if me.get() == to {
                let heard = rank.recv(Rank::new(from)).unwrap();
                assert!(heard == message(from, round, length), "round {round}");
            }
        }
        _ => {
            let seed = usize::try_from(dice(1, sums.len() as u64)).unwrap();
            let (seed, shards, len, expected) = &sums[seed];
            let bits = sum_bits(rank, *seed, *shards, *len).unwrap();
            assert!(bits == *expected, "round {round}");
        }
    }
}
