//! Whole messages between ranks, each behind the description of the call it belongs to.

use super::link::Exchange;
use crate::collective::call::{CALL_WORDS, Call};
use crate::collective::{CollectiveError, check_length};
use crate::run::{Rank, WorldSize};

/// Description of a call and length of the message.
pub(super) const HEAD_BYTES: usize = (CALL_WORDS + 1) * size_of::<u64>();

/// As much of a message as is copied, to go in one packet with its head.
const TOGETHER_BYTES: usize = 16 << 10;

/// How far the buffer of a message grows ahead of what has come.
const AHEAD_BYTES: usize = 1 << 20;

/// The head of a message.
pub(super) fn head(call: &Call, length: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let words = call.encode().into_iter().chain([length]);
    for (bytes, word) in head.chunks_exact_mut(size_of::<u64>()).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    head
}

/// The call and the length in a head.
pub(super) fn parse(head: &[u8; HEAD_BYTES]) -> (Call, u64) {
    let mut words = [0; CALL_WORDS + 1];
    for (word, bytes) in words.iter_mut().zip(head.chunks_exact(size_of::<u64>())) {
        *word = bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    let [first, size, shards, length] = words;
    (Call::decode([first, size, shards]), length)
}

/// A message on its way out.
pub(super) struct Outgoing<'a> {
    /// Head and beginning.
    start: Vec<u8>,
    rest: &'a [u8],
    sent: usize,
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(call: &Call, message: &'a [u8]) -> Self {
        let (together, rest) = message.split_at(message.len().min(TOGETHER_BYTES));
        let mut start = head(call, message.len() as u64).to_vec();
        start.extend_from_slice(together);
        Self {
            start,
            rest,
            sent: 0,
        }
    }

    fn left(&self) -> &[u8] {
        match self.sent.checked_sub(self.start.len()) {
            None => &self.start[self.sent..],
            Some(sent) => &self.rest[sent..],
        }
    }
}

/// A message that is awaited.
struct Incoming {
    head: [u8; HEAD_BYTES],
    limit: u64,
    /// Known when the head is.
    length: Option<usize>,
    message: Vec<u8>,
    /// Bytes of the head, then of the message.
    got: usize,
}

impl Incoming {
    fn place(&mut self) -> &mut [u8] {
        let Some(length) = self.length else {
            return &mut self.head[self.got..];
        };
        // A length that lies costs no more than this.
        let end = length.min(self.got + AHEAD_BYTES);
        if self.message.len() < end {
            self.message.resize(end, 0);
        }
        &mut self.message[self.got..end]
    }

    fn is_complete(&self) -> bool {
        self.length == Some(self.got)
    }
}

/// Messages of one call.
pub(super) struct Messages<'a> {
    mine: Call,
    expected: Call,
    outgoing: Vec<Option<Outgoing<'a>>>,
    incoming: Vec<Option<Incoming>>,
}

impl<'a> Messages<'a> {
    /// A call in which heads of `expected` come in while this rank does `mine`.
    pub(super) fn new(world: WorldSize, mine: Call, expected: Call) -> Self {
        let ranks = || 0..world.get();
        Self {
            mine,
            expected,
            outgoing: ranks().map(|_| None).collect(),
            incoming: ranks().map(|_| None).collect(),
        }
    }

    /// Sends a message to a rank of the group.
    pub(super) fn send(&mut self, to: Rank, message: Outgoing<'a>) {
        self.outgoing[to.get() as usize] = Some(message);
    }

    /// Awaits a message from a rank of the group.
    pub(super) fn expect(&mut self, from: Rank, limit: u64) {
        self.incoming[from.get() as usize] = Some(Incoming {
            head: [0; HEAD_BYTES],
            limit,
            length: None,
            message: Vec::new(),
            got: 0,
        });
    }

    /// What came, by rank; empty where nothing was awaited.
    pub(super) fn received(self) -> Vec<Vec<u8>> {
        let incoming = self.incoming.into_iter();
        incoming
            .map(|incoming| {
                incoming
                    .map(|incoming| incoming.message)
                    .unwrap_or_default()
            })
            .collect()
    }
}

impl Exchange for Messages<'_> {
    fn outgoing(&self, peer: Rank) -> &[u8] {
        let outgoing = self.outgoing[peer.get() as usize].as_ref();
        outgoing.map_or(&[], Outgoing::left)
    }

    fn sent(&mut self, peer: Rank, count: usize) {
        if let Some(outgoing) = &mut self.outgoing[peer.get() as usize] {
            outgoing.sent += count;
        }
    }

    fn incoming(&mut self, peer: Rank) -> &mut [u8] {
        let incoming = self.incoming[peer.get() as usize].as_mut();
        incoming.map_or(&mut [], Incoming::place)
    }

    fn received(&mut self, peer: Rank, count: usize) -> Result<(), CollectiveError> {
        let Some(incoming) = &mut self.incoming[peer.get() as usize] else {
            return Ok(());
        };
        incoming.got += count;
        if incoming.length.is_none() && incoming.got == HEAD_BYTES {
            let (call, length) = parse(&incoming.head);
            if call != self.expected {
                return Err(CollectiveError::mismatch(peer, &call, &self.mine));
            }
            check_length(call.kind, length, incoming.limit)?;
            // Below the limit, which is far below what memory can address.
            incoming.length = Some(usize::try_from(length).unwrap_or(usize::MAX));
            incoming.got = 0;
        }
        Ok(())
    }

    fn progress(&self, peer: Rank) -> Option<usize> {
        let place = peer.get() as usize;
        match &self.incoming[place] {
            Some(incoming) if incoming.length.is_none() => Some(0),
            Some(incoming) if !incoming.is_complete() => Some(1),
            _ if self.outgoing(peer).is_empty() => None,
            _ => Some(2),
        }
    }
}
