//! Sums in the order `fast`: each rank adds up its shards, then the tree is over the ranks.

use super::*;

/// The sum by its definition: shards of a rank one after another, ranks as the canonical tree does it.
fn defined(seed: u64, shards: u32, world: WorldSize, len: usize) -> Vec<u32> {
    let reduction = Reduction::new(shards, world, SumOrder::Fast);
    let at = |index| {
        let of_rank = |rank| {
            let values = reduction
                .shards_of(Rank::new(rank))
                .map(|shard| value(seed, shard, index));
            values.reduce(|a, b| a + b)
        };
        let sums: Vec<f32> = (0..world.get()).filter_map(of_rank).collect();
        serial(&sums).to_bits()
    };
    (0..len).map(at).collect()
}

#[test]
fn sums_are_those_of_the_definition_by_every_transport() {
    for world in [1, 2, 3, 4, 8] {
        for make in [shm, tcp] {
            // One node a rank, whatever the number of shards.
            let mut group = make(world, 700, 1, LONG);
            for (seed, shards) in [(1, 8), (2, 8), (3, 5), (4, 17), (5, 2), (6, 0)] {
                let expected = defined(seed, shards, WorldSize::new(world), 700);
                let sums = each(&mut group, |rank| {
                    let reduction = Reduction::new(shards, rank.world_size(), SumOrder::Fast);
                    sum_bits_of(rank, &reduction, seed, 700).unwrap()
                });
                for bits in sums {
                    assert!(bits == expected, "{world} ranks, {shards} shards");
                }
            }
        }
    }
}
