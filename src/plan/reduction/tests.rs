//! Sums against the tree by its definition, for all small numbers of shards and workers.

use super::*;
use proptest::prelude::*;

/// The tree by its definition, over texts.
fn tree(texts: &[String]) -> String {
    if let [only] = texts {
        return only.clone();
    }
    let (left, right) = texts.split_at(texts.len().next_power_of_two() / 2);
    add(&tree(left), &tree(right))
}

/// The same tree over numbers.
fn serial(values: &[f32]) -> f32 {
    if let [only] = values {
        return *only;
    }
    let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
    serial(left) + serial(right)
}

fn canonical(shards: u32, world: WorldSize) -> Reduction {
    Reduction::new(shards, world, SumOrder::Canonical)
}

fn add(left: &str, right: &str) -> String {
    format!("({left}+{right})")
}

/// The list of additions over texts.
fn combined(reduction: &Reduction, nodes: &[String]) -> String {
    let mut partials = vec![String::new(); reduction.partials.max(1)];
    if let [only] = nodes {
        return only.clone();
    }
    for addition in &reduction.additions {
        let find = |operand| match operand {
            Operand::Node(place) => nodes[place].clone(),
            Operand::Partial(place) => partials[place].clone(),
        };
        if let Operand::Partial(place) = addition.left {
            assert_eq!(place, addition.into);
        }
        if let Operand::Partial(place) = addition.right {
            assert_eq!(place, addition.into + 1);
        }
        partials[addition.into] = add(&find(addition.left), &find(addition.right));
    }
    partials[0].clone()
}

#[test]
fn any_number_of_ranks_gives_the_defined_tree() {
    for shards in 1..=40 {
        for world in 1..=9 {
            let world = WorldSize::new(world);
            let reduction = canonical(shards, world);
            let mut nodes = Vec::new();
            let mut next = 0;
            for rank in (0..world.get()).map(Rank::new) {
                let range = reduction.shards_of(rank);
                assert_eq!(range.start, next);
                next = range.end;
                let mut sum = reduction.node_sum(rank);
                for shard in range {
                    sum.push(shard.to_string(), |left, right| add(&left, &right));
                    assert!(sum.held() <= 12);
                }
                let texts = sum.finish();
                assert_eq!(texts.len(), reduction.nodes_of(rank).len());
                assert!(texts.len() <= reduction.nodes_max());
                nodes.extend(texts);
            }
            assert_eq!(next, shards);
            assert_eq!(nodes.len(), reduction.nodes().len());
            let all: Vec<String> = (0..shards).map(|shard| shard.to_string()).collect();
            assert_eq!(combined(&reduction, &nodes), tree(&all));
        }
    }
}

#[test]
fn the_fast_order_leaves_one_node_for_each_rank_that_has_shards() {
    for shards in 1..=20 {
        for world in 1..=9 {
            let reduction = Reduction::new(shards, WorldSize::new(world), SumOrder::Fast);
            let mut nodes = Vec::new();
            for rank in (0..world).map(Rank::new) {
                let mut sum = reduction.node_sum(rank);
                for shard in reduction.shards_of(rank) {
                    sum.push(shard.to_string(), |left, right| add(&left, &right));
                    assert_eq!(sum.held(), 1);
                }
                let texts = sum.finish();
                assert_eq!(texts.len(), reduction.nodes_of(rank).len());
                nodes.extend(texts);
            }
            assert_eq!(nodes.len(), shards.min(world) as usize);
            assert_eq!(combined(&reduction, &nodes), tree(&nodes));
        }
    }
    assert_eq!(nodes_max(8, WorldSize::new(3), SumOrder::Fast), 1);
}

#[test]
fn nodes_are_the_largest_subtrees_of_any_range() {
    /// Largest subtrees of the tree over `first..first + count` that lie within `range`.
    fn largest(first: u32, count: u32, range: &Range<u32>, found: &mut Vec<Range<u32>>) {
        let end = first + count;
        if range.start <= first && end <= range.end {
            found.push(first..end);
        } else if first < range.end && range.start < end {
            let left = count.next_power_of_two() / 2;
            largest(first, left, range, found);
            largest(first + left, count - left, range, found);
        }
    }
    for shards in 1..=33 {
        for start in 0..shards {
            for end in start + 1..=shards {
                let mut expected = Vec::new();
                largest(0, shards, &(start..end), &mut expected);
                assert_eq!(nodes_of(shards, start..end, SumOrder::Canonical), expected);
            }
        }
    }
}

#[test]
fn full_trees_are_recognised() {
    for (shards, world, full) in [(8, 4, true), (12, 8, true), (5, 4, false), (10, 8, false)] {
        let reduction = canonical(shards, WorldSize::new(world));
        assert!(reduction.nodes.len().is_power_of_two());
        assert_eq!(reduction.full, full, "{shards} shards, {world} ranks");
    }
}

#[test]
fn chunks_cover_a_vector_and_begin_at_cache_lines() {
    for len in [0, 1, 15, 16, 17, 100, 4097] {
        for world in (1..=9).map(WorldSize::new) {
            let mut next = 0;
            for rank in (0..world.get()).map(Rank::new) {
                let chunk = chunk_of(len, rank, world);
                assert_eq!(chunk.start, next);
                assert!(chunk.is_empty() || chunk.start.is_multiple_of(LINE));
                next = chunk.end;
            }
            assert_eq!(next, len);
        }
    }
}

#[test]
fn the_sum_of_nothing_is_zero() {
    let reduction = canonical(0, WorldSize::new(3));
    let mut out = [1.0; 5];
    reduction.combine(&[], &mut out);
    assert_eq!(out.map(f32::to_bits), [0; 5]);
    assert_eq!(reduction.nodes_max(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn bits_are_those_of_the_serial_tree(
        shards in 1_u32..=40, world in 1_u32..=9, len in 0_usize..9000, seed in any::<u32>()
    ) {
        let value = |shard: u32, i: usize| {
            let mixed = (shard * 7919 + u32::try_from(i).unwrap()).wrapping_mul(2_654_435_761) ^ seed;
            f32::from_bits(mixed % 0x0800_0000 + 0x3c00_0000) * if mixed & 1 == 0 { 1.0 } else { -1.0 }
        };
        let world = WorldSize::new(world);
        let reduction = canonical(shards, world);
        let mut nodes: Vec<Vec<f32>> = Vec::new();
        for rank in (0..world.get()).map(Rank::new) {
            let mut sum = reduction.node_sum(rank);
            for shard in reduction.shards_of(rank) {
                let values: Vec<f32> = (0..len).map(|i| value(shard, i)).collect();
                sum.push(values, |mut a, b| { add_to(&mut a, &b); a });
            }
            nodes.extend(sum.finish());
        }
        let slices: Vec<&[f32]> = nodes.iter().map(Vec::as_slice).collect();
        let mut out = vec![0.0; len];
        reduction.combine(&slices, &mut out);
        for (i, out) in out.iter().enumerate() {
            let values: Vec<f32> = (0..shards).map(|shard| value(shard, i)).collect();
            prop_assert_eq!(out.to_bits(), serial(&values).to_bits());
        }
    }
}
