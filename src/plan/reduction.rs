//! How the canonical sum over shards is shared out among ranks.
//!
//! The order of a sum is a binary tree over all shards whose left half holds the largest power of two
//! strictly below their number (see [`super::tree`]). Each rank sums the largest subtrees that lie whole
//! within its shards, its *nodes*, as its shards arrive ([`NodeSum`]); what remains of the tree above all
//! ranks' nodes is the same small list of additions for every element of the vector ([`Reduction`]).
//!
//! Nothing here moves data between processes or knows how that is done. Bits are those of one process
//! that sums alone, with one exception that IEEE 754 leaves open: which NaN comes out of several.
//!
//! In the order [`SumOrder::Fast`] a rank adds up all its shards, one after another, into one node, and the
//! tree is over the ranks that have shards: less to move, at most one value held, and bits that depend on
//! the number of ranks, though on nothing else.

use std::ops::Range;

use crate::config::SumOrder;
use crate::run::{Rank, WorldSize};

/// Floats that are added at a time: three such blocks of 16 KiB fit into a first-level cache.
const BLOCK: usize = 4096;

/// Floats in a cache line of 64 bytes.
const LINE: usize = 16;

/// Shards of one rank: contiguous, sizes differ by at most one, larger ones first, possibly empty.
#[must_use]
pub fn shards_of(shards: u32, rank: Rank, world: WorldSize) -> Range<u32> {
    let (rank, world) = (rank.get(), world.get().max(1));
    let (size, larger) = (shards / world, shards % world);
    let start = |rank: u32| rank * size + rank.min(larger);
    start(rank.min(world))..start((rank + 1).min(world))
}

/// Elements that one rank reduces of a vector of `len`, possibly none. Cut at cache lines, so that
/// ranks never write to the same one.
#[must_use]
pub fn chunk_of(len: usize, rank: Rank, world: WorldSize) -> Range<usize> {
    let (rank, world) = (rank.get() as usize, world.get().max(1) as usize);
    let lines = len.div_ceil(LINE);
    let (size, larger) = (lines / world, lines % world);
    let start = |rank: usize| ((rank * size + rank.min(larger)) * LINE).min(len);
    start(rank)..start(rank + 1)
}

/// Most nodes of one rank over all steps of a run: a short last batch may fill fewer than `shards`.
#[must_use]
pub fn nodes_max(shards: u32, world: WorldSize, order: SumOrder) -> usize {
    let counts = 1..=shards.max(1);
    let nodes = counts.map(|count| Reduction::new(count, world, order).nodes_max());
    nodes.max().unwrap_or(1).max(1)
}

/// Whether two neighbouring subtrees are the two halves of a larger one, in a tree over `shards`.
///
/// A left half is always whole: 2^k shards that start at a multiple of 2^(k+1). A right half is as
/// large, or smaller and the end of the tree.
fn halves(left: &Range<u32>, right: &Range<u32>, shards: u32) -> bool {
    let (size, other) = (left.end - left.start, right.end - right.start);
    size.is_power_of_two()
        && u64::from(left.start).is_multiple_of(2 * u64::from(size))
        && (other == size || (other < size && right.end == shards))
}

/// One rank's sum: takes its shards in order and leaves its nodes.
///
/// Holds at most two values for each level of the tree; in the order [`SumOrder::Fast`], two in all.
#[derive(Clone, Debug)]
pub struct NodeSum<T> {
    order: SumOrder,
    shards: u32,
    range: Range<u32>,
    /// Subtrees that are summed, in order.
    held: Vec<(Range<u32>, T)>,
}

impl<T> NodeSum<T> {
    /// A sum over the shards `range` of `shards`.
    #[must_use]
    pub fn new(shards: u32, range: Range<u32>, order: SumOrder) -> Self {
        let held = Vec::new();
        Self {
            order,
            shards,
            range,
            held,
        }
    }

    /// Whether two neighbouring sums are to be added as soon as both are there.
    fn joins(&self, left: &Range<u32>, right: &Range<u32>) -> bool {
        match self.order {
            SumOrder::Canonical => halves(left, right, self.shards),
            SumOrder::Fast => true,
        }
    }

    /// Takes the next shard; `add(a, b)` must give a + b. Shards past the range are ignored.
    pub fn push(&mut self, value: T, mut add: impl FnMut(T, T) -> T) {
        let Some(shard) = self.range.next() else {
            return;
        };
        self.held.push((shard..shard + 1, value));
        while let [.., (left, _), (right, _)] = &self.held[..]
            && self.joins(left, right)
        {
            if let (Some((right, b)), Some((left, a))) = (self.held.pop(), self.held.pop()) {
                self.held.push((left.start..right.end, add(a, b)));
            }
        }
    }

    /// Number of values held at the moment.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// One value for each node, in order. Complete when the whole range was pushed.
    #[must_use]
    pub fn finish(self) -> Vec<T> {
        self.held.into_iter().map(|(_, value)| value).collect()
    }
}

/// The nodes that cover a range of `shards`, in order.
fn nodes_of(shards: u32, range: Range<u32>, order: SumOrder) -> Vec<Range<u32>> {
    let mut sum = NodeSum::new(shards, range.clone(), order);
    for shard in range {
        sum.push(shard..shard + 1, |left, right| left.start..right.end);
    }
    sum.finish()
}

/// Where an addition finds an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    /// A node, by its place.
    Node(usize),
    /// An earlier result.
    Partial(usize),
}

/// One addition: partial result `into` = `left` + `right`. Operands that are partial results lie at
/// `into` and, for the right one, at `into + 1`, as on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Addition {
    into: usize,
    left: Operand,
    right: Operand,
}

/// The sum over `shards` shards as `world` ranks do it together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    order: SumOrder,
    shards: u32,
    world: WorldSize,
    nodes: Vec<Range<u32>>,
    /// Where each rank's nodes begin in `nodes`; one more entry than ranks.
    first: Vec<usize>,
    additions: Vec<Addition>,
    /// Most partial results alive at once.
    partials: usize,
    /// Whether the nodes are the leaves of a full tree: all of one depth.
    full: bool,
}

impl Reduction {
    /// The sum over `shards` shards by `world` ranks.
    #[must_use]
    pub fn new(shards: u32, world: WorldSize, order: SumOrder) -> Self {
        let mut nodes = Vec::new();
        let mut first = vec![0];
        for rank in 0..world.get() {
            let range = shards_of(shards, Rank::new(rank), world);
            nodes.extend(nodes_of(shards, range, order));
            first.push(nodes.len());
        }
        // What each node covers of the leaves of the tree.
        let (leaves, covered) = match order {
            SumOrder::Canonical => (shards, nodes.clone()),
            SumOrder::Fast => {
                let ranks = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
                (ranks, (0..ranks).map(|leaf| leaf..leaf + 1).collect())
            }
        };
        let mut additions = Vec::new();
        let mut stack: Vec<(Range<u32>, Operand)> = Vec::new();
        let mut partials = 0;
        for (place, range) in covered.into_iter().enumerate() {
            stack.push((range, Operand::Node(place)));
            while let [.., (start, left), (end, right)] = &stack[..]
                && halves(start, end, leaves)
            {
                let into = stack.len() - 2;
                additions.push(Addition {
                    into,
                    left: *left,
                    right: *right,
                });
                partials = partials.max(into + 2);
                let whole = start.start..end.end;
                stack.truncate(into);
                stack.push((whole, Operand::Partial(into)));
            }
        }
        let full = is_full(&additions, partials);
        Self {
            order,
            shards,
            world,
            nodes,
            first,
            additions,
            partials,
            full,
        }
    }

    /// Order of the additions.
    #[must_use]
    pub fn order(&self) -> SumOrder {
        self.order
    }

    /// Number of shards.
    #[must_use]
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// Number of ranks.
    #[must_use]
    pub fn world_size(&self) -> WorldSize {
        self.world
    }

    /// Shards of a rank.
    #[must_use]
    pub fn shards_of(&self, rank: Rank) -> Range<u32> {
        shards_of(self.shards, rank, self.world)
    }

    /// The nodes of all ranks as ranges of shards, in order.
    #[must_use]
    pub fn nodes(&self) -> &[Range<u32>] {
        &self.nodes
    }

    /// Which of [`Self::nodes`] belong to a rank.
    #[must_use]
    pub fn places_of(&self, rank: Rank) -> Range<usize> {
        let last = self.first.len() - 1;
        let rank = rank.get() as usize;
        self.first[rank.min(last)]..self.first[(rank + 1).min(last)]
    }

    /// The nodes of a rank as ranges of shards, in order.
    #[must_use]
    pub fn nodes_of(&self, rank: Rank) -> &[Range<u32>] {
        &self.nodes[self.places_of(rank)]
    }

    /// Most nodes that any rank holds.
    #[must_use]
    pub fn nodes_max(&self) -> usize {
        let sizes = self.first.windows(2).map(|pair| pair[1] - pair[0]);
        sizes.max().unwrap_or(0)
    }

    /// The sum of a rank's own shards.
    #[must_use]
    pub fn node_sum<T>(&self, rank: Rank) -> NodeSum<T> {
        NodeSum::new(self.shards, self.shards_of(rank), self.order)
    }

    /// `out[i]` = sum over `nodes[..][i]` in the reduction's order; zeros when there are no shards.
    ///
    /// `nodes` holds one slice for each of [`Self::nodes`], each as long as `out`.
    ///
    /// # Panics
    ///
    /// When the number of slices or their lengths do not fit.
    pub fn combine(&self, nodes: &[&[f32]], out: &mut [f32]) {
        assert_eq!(nodes.len(), self.nodes.len(), "one slice for each node");
        for node in nodes {
            assert_eq!(node.len(), out.len(), "slices of the length of the result");
        }
        match nodes {
            [] => out.fill(0.0),
            [only] => out.copy_from_slice(only),
            [a, b] => add2(a, b, out),
            _ if self.full && nodes.len() == 4 => add4(nodes, out),
            _ if self.full && nodes.len() == 8 => add8(nodes.split_at(4), out),
            _ => self.combine_blocks(nodes, out),
        }
    }

    /// The general case: all additions on one block after another, so that partial results stay in
    /// the cache.
    fn combine_blocks(&self, nodes: &[&[f32]], out: &mut [f32]) {
        let block_len = BLOCK.min(out.len());
        let mut scratch = vec![vec![0.0_f32; block_len]; self.partials];
        let Some((last, additions)) = self.additions.split_last() else {
            return;
        };
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            let here = block * BLOCK..block * BLOCK + out.len();
            for addition in additions {
                add_in_place(addition, nodes, &here, &mut scratch);
            }
            let find = |operand| match operand {
                Operand::Node(place) => &nodes[place][here.clone()],
                Operand::Partial(place) => &scratch[place][..here.len()],
            };
            add2(find(last.left), find(last.right), out);
        }
    }
}

/// Whether each addition joins as many nodes from the left as from the right.
fn is_full(additions: &[Addition], partials: usize) -> bool {
    let mut counts = vec![0_usize; partials];
    additions.iter().all(|addition| {
        let count = |operand| match operand {
            Operand::Node(_) => 1,
            Operand::Partial(place) => counts[place],
        };
        let (left, right) = (count(addition.left), count(addition.right));
        counts[addition.into] = left + right;
        left == right
    })
}

/// One addition whose result goes to the scratch blocks, which may be its operands too.
fn add_in_place(
    addition: &Addition,
    nodes: &[&[f32]],
    here: &Range<usize>,
    scratch: &mut [Vec<f32>],
) {
    let (into, above) = scratch[addition.into..].split_at_mut(1);
    let into = &mut into[0][..here.len()];
    let node = |place: usize| &nodes[place][here.clone()];
    match (addition.left, addition.right) {
        (Operand::Node(a), Operand::Node(b)) => add2(node(a), node(b), into),
        (Operand::Node(a), Operand::Partial(_)) => add2(node(a), &above[0][..here.len()], into),
        (Operand::Partial(_), Operand::Node(b)) => add_to(into, node(b)),
        (Operand::Partial(_), Operand::Partial(_)) => add_to(into, &above[0][..here.len()]),
    }
}

/// `left` += `right`.
fn add_to(left: &mut [f32], right: &[f32]) {
    for (a, b) in left.iter_mut().zip(right) {
        *a += b;
    }
}

fn add2(a: &[f32], b: &[f32], out: &mut [f32]) {
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = a + b;
    }
}

fn add4(nodes: &[&[f32]], out: &mut [f32]) {
    for (out, sum) in out.iter_mut().zip(sums4(nodes)) {
        *out = sum;
    }
}

fn add8((left, right): (&[&[f32]], &[&[f32]]), out: &mut [f32]) {
    let halves = sums4(left).zip(sums4(right));
    for (out, (left, right)) in out.iter_mut().zip(halves) {
        *out = left + right;
    }
}

/// Sums over a full tree of four.
fn sums4<'a>(nodes: &[&'a [f32]]) -> impl Iterator<Item = f32> + use<'a> {
    let [a, b, c, d] = std::array::from_fn(|place| nodes[place].iter());
    let pairs = a.zip(b).zip(c.zip(d));
    pairs.map(|((a, b), (c, d))| (a + b) + (c + d))
}

#[cfg(test)]
mod tests;
