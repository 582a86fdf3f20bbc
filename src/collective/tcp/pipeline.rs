//! A sum over TCP: pieces of node sums go to the rank that reduces them, pieces of results come back.
//!
//! Each rank reduces one chunk of the vector. What `from` sends to `to` is, after the description of the
//! call, a fixed sequence of *positions*; at position p lie piece p of `to`'s chunk of each of `from`'s nodes,
//! then piece p - [`LAG`] of the result of `from`'s chunk. No piece needs a head, bytes are read where they
//! are needed, and everything in flight fits into the cache.
//!
//! This cannot lock: of all that is not yet delivered, take what lies at the lowest position. Node sums
//! there wait only for room, that is for pieces at lower positions to be summed, and results only for node
//! sums at lower positions; all of these are delivered.

use std::ops::Range;

use super::link::Exchange;
use super::message::{HEAD_BYTES, head, parse};
use crate::collective::CollectiveError;
use crate::collective::call::Call;
use crate::plan::{Reduction, chunk_of};
use crate::run::Rank;

/// Floats that travel and are summed at a time: as many bytes as one write takes.
const PIECE: usize = 8 << 10;

/// How many pieces of node sums a rank sends ahead of its results: with 32 KiB each, what a fast network
/// holds between two hosts.
const LAG: usize = 8;

/// Pieces of a peer's node sums that are kept until those of all others have come.
const SLOTS: usize = LAG + 2;

/// How far one direction of a connection is.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// Bytes of the head.
    head: usize,
    position: usize,
    /// A node of the sender, or the number of its nodes for the result.
    slot: usize,
    /// Bytes of what lies there.
    offset: usize,
}

/// One sum.
pub(super) struct Pipeline<'a> {
    me: Rank,
    call: Call,
    head: [u8; HEAD_BYTES],
    heads: Vec<[u8; HEAD_BYTES]>,
    reduction: &'a Reduction,
    nodes: Vec<&'a [f32]>,
    result: &'a mut [f32],
    chunks: Vec<Range<usize>>,
    /// Pieces of the longest chunk.
    pieces: usize,
    /// Pieces of this rank's chunk that are summed.
    summed: usize,
    out: Vec<Cursor>,
    into: Vec<Cursor>,
    /// For each node of all ranks, [`SLOTS`] pieces; empty for this rank's own.
    kept: Vec<Vec<f32>>,
    piece_len: usize,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(
        me: Rank,
        call: Call,
        reduction: &'a Reduction,
        nodes: Vec<&'a [f32]>,
        result: &'a mut [f32],
    ) -> Self {
        let world = reduction.world_size();
        let ranks = world.get() as usize;
        let chunks: Vec<_> = (0..world.get())
            .map(|rank| chunk_of(result.len(), Rank::new(rank), world))
            .collect();
        let longest = chunks.iter().map(Range::len).max().unwrap_or(0);
        let piece_len = longest.min(PIECE);
        let own = reduction.places_of(me);
        let kept = (0..reduction.nodes().len())
            .map(|place| {
                if own.contains(&place) {
                    0
                } else {
                    SLOTS * piece_len
                }
            })
            .map(|len| vec![0.0; len])
            .collect();
        let mut pipeline = Self {
            me,
            call,
            head: head(&call, 0),
            heads: vec![[0; HEAD_BYTES]; ranks],
            reduction,
            nodes,
            result,
            chunks,
            pieces: longest.div_ceil(PIECE),
            summed: 0,
            out: vec![Cursor::default(); ranks],
            into: vec![Cursor::default(); ranks],
            kept,
            piece_len,
        };
        pipeline.sum_complete();
        for peer in (0..world.get()).map(Rank::new) {
            pipeline.out[peer.get() as usize] = pipeline.settled(me, peer, Cursor::default());
            pipeline.into[peer.get() as usize] = pipeline.settled(peer, me, Cursor::default());
        }
        pipeline
    }

    fn nodes_of(&self, rank: Rank) -> usize {
        self.reduction.places_of(rank).len()
    }

    /// The elements of a piece of a rank's chunk, empty past its end.
    fn piece(&self, rank: Rank, piece: usize) -> Range<usize> {
        let chunk = &self.chunks[rank.get() as usize];
        let start = (chunk.start + piece * PIECE).min(chunk.end);
        start..(start + PIECE).min(chunk.end)
    }

    /// The elements at a cursor.
    fn elements(&self, from: Rank, to: Rank, at: Cursor) -> Range<usize> {
        if at.slot < self.nodes_of(from) {
            return self.piece(to, at.position);
        }
        match at.position.checked_sub(LAG) {
            Some(piece) => self.piece(from, piece),
            None => 0..0,
        }
    }

    fn is_end(&self, at: Cursor) -> bool {
        at.position >= self.pieces + LAG || self.pieces == 0
    }

    /// The cursor, moved on while nothing is left where it is.
    fn settled(&self, from: Rank, to: Rank, mut at: Cursor) -> Cursor {
        while !self.is_end(at) && at.offset >= self.elements(from, to, at).len() * size_of::<f32>()
        {
            at.offset = 0;
            at.slot += 1;
            if at.slot > self.nodes_of(from) {
                at.slot = 0;
                at.position += 1;
            }
        }
        at
    }

    fn moved(&self, from: Rank, to: Rank, mut at: Cursor, count: usize) -> Cursor {
        if at.head < HEAD_BYTES {
            at.head += count;
            return at;
        }
        at.offset += count;
        self.settled(from, to, at)
    }

    /// Sums pieces of this rank's chunk whose node sums have all come.
    fn sum_complete(&mut self) {
        while self.summed < self.pieces && self.has_come(self.summed) {
            let elements = self.piece(self.me, self.summed);
            let kept = self.summed % SLOTS * self.piece_len;
            let own = self.reduction.places_of(self.me);
            let nodes: Vec<&[f32]> = (0..self.reduction.nodes().len())
                .map(|place| {
                    if own.contains(&place) {
                        &self.nodes[place - own.start][elements.clone()]
                    } else {
                        &self.kept[place][kept..kept + elements.len()]
                    }
                })
                .collect();
            self.reduction.combine(&nodes, &mut self.result[elements]);
            self.summed += 1;
        }
    }

    /// Whether a piece of all others' node sums is here.
    fn has_come(&self, piece: usize) -> bool {
        let mut ranks = (0..self.reduction.world_size().get()).map(Rank::new);
        ranks.all(|rank| {
            let at = self.into[rank.get() as usize];
            let nodes = self.nodes_of(rank);
            let past = at.position > piece || (at.position == piece && at.slot >= nodes);
            rank == self.me || nodes == 0 || (at.head == HEAD_BYTES && past)
        })
    }
}

impl Exchange for Pipeline<'_> {
    fn outgoing(&self, peer: Rank) -> &[u8] {
        let at = self.out[peer.get() as usize];
        if at.head < HEAD_BYTES {
            return &self.head[at.head..];
        }
        if self.is_end(at) {
            return &[];
        }
        let elements = self.elements(self.me, peer, at);
        let floats = match self.nodes.get(at.slot) {
            Some(node) => &node[elements],
            None if at.position < self.summed + LAG => &self.result[elements],
            None => return &[],
        };
        &bytemuck::cast_slice(floats)[at.offset..]
    }

    fn sent(&mut self, peer: Rank, count: usize) {
        let place = peer.get() as usize;
        self.out[place] = self.moved(self.me, peer, self.out[place], count);
    }

    fn incoming(&mut self, peer: Rank) -> &mut [u8] {
        let at = self.into[peer.get() as usize];
        if at.head < HEAD_BYTES {
            return &mut self.heads[peer.get() as usize][at.head..];
        }
        if self.is_end(at) {
            return &mut [];
        }
        let elements = self.elements(peer, self.me, at);
        let floats = if at.slot < self.nodes_of(peer) {
            if at.position >= self.summed + SLOTS {
                return &mut [];
            }
            let kept = &mut self.kept[self.reduction.places_of(peer).start + at.slot];
            let start = at.position % SLOTS * self.piece_len;
            &mut kept[start..start + elements.len()]
        } else {
            &mut self.result[elements]
        };
        &mut bytemuck::cast_slice_mut(floats)[at.offset..]
    }

    fn received(&mut self, peer: Rank, count: usize) -> Result<(), CollectiveError> {
        let place = peer.get() as usize;
        let before = self.into[place];
        let at = self.moved(peer, self.me, before, count);
        if before.head < HEAD_BYTES && at.head == HEAD_BYTES {
            let (call, _) = parse(&self.heads[place]);
            if call != self.call {
                return Err(CollectiveError::mismatch(peer, &call, &self.call));
            }
        }
        self.into[place] = at;
        if at.offset == 0 {
            self.sum_complete();
        }
        Ok(())
    }

    fn progress(&self, peer: Rank) -> Option<usize> {
        let place = peer.get() as usize;
        let (out, into) = (self.out[place], self.into[place]);
        if into.head < HEAD_BYTES {
            return Some(0);
        }
        if !self.is_end(into) {
            return Some(1 + into.position);
        }
        (out.head < HEAD_BYTES || !self.is_end(out)).then_some(usize::MAX)
    }
}
