//! How a call is described to the other ranks, so that differing ones are told apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// None yet.
    Idle,
    /// Sum of vectors.
    Sum,
    /// Messages of all to all.
    Gather,
    /// Message of one to all.
    Broadcast,
    /// Nothing but waiting.
    Barrier,
    /// Message to one.
    Send,
    /// Message from one.
    Recv,
    /// Finding each other.
    Join,
}

const KINDS: [Kind; 8] = [
    Kind::Idle,
    Kind::Sum,
    Kind::Gather,
    Kind::Broadcast,
    Kind::Barrier,
    Kind::Send,
    Kind::Recv,
    Kind::Join,
];

impl Kind {
    /// A number below 8.
    pub(super) fn code(self) -> u64 {
        match self {
            Kind::Idle => 0,
            Kind::Sum => 1,
            Kind::Gather => 2,
            Kind::Broadcast => 3,
            Kind::Barrier => 4,
            Kind::Send => 5,
            Kind::Recv => 6,
            Kind::Join => 7,
        }
    }

    /// The kind of a code, of which only the lowest three bits count.
    pub(super) fn of(code: u64) -> Self {
        // Eight kinds, three bits.
        KINDS[(code & 7) as usize]
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Idle => "nothing",
            Kind::Sum => "sum",
            Kind::Gather => "gather",
            Kind::Broadcast => "broadcast",
            Kind::Barrier => "barrier",
            Kind::Send => "send",
            Kind::Recv => "receive",
            Kind::Join => "join",
        })
    }
}

/// One call as all ranks must make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// How many collectives were begun, with this one.
    pub(super) number: u64,
    pub(super) kind: Kind,
    /// Floats of a sum, root of a broadcast, else 0.
    pub(super) size: u64,
    /// Shards of a sum, else 0.
    pub(super) shards: u64,
}

/// Words of an encoded call.
pub(super) const CALL_WORDS: usize = 3;

impl Call {
    pub(super) fn new(number: u64, kind: Kind) -> Self {
        Self {
            number,
            kind,
            size: 0,
            shards: 0,
        }
    }

    pub(super) fn encode(&self) -> [u64; CALL_WORDS] {
        [self.number << 3 | self.kind.code(), self.size, self.shards]
    }

    pub(super) fn decode([first, size, shards]: [u64; CALL_WORDS]) -> Self {
        Self {
            number: first >> 3,
            kind: Kind::of(first),
            size,
            shards,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "number {}: {}", self.number, self.kind)?;
        match self.kind {
            Kind::Sum => write!(f, " of {} values over {} shards", self.size, self.shards),
            Kind::Broadcast => write!(f, " from rank {}", self.size),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_survive_their_encoding() {
        for (number, kind) in KINDS.into_iter().enumerate() {
            let call = Call {
                number: number as u64 + (1 << 40),
                kind,
                size: u64::MAX,
                shards: 3,
            };
            assert_eq!(Call::decode(call.encode()), call);
        }
    }
}
