//! How two ends of a connection find out that both belong to the run.
//!
//! Each side sends a greeting with a fresh random number, and an HMAC-SHA256 (RFC 2104) over both greetings
//! under the run's token. The one who connected greets first and proves itself last, so a stranger who
//! connects learns nothing but an answer that is good for one random number. The two proofs carry
//! different labels: one cannot be sent back as the other.
//!
//! Only after its proof is anything else in a greeting believed.

use super::Membership;
use crate::collective::CollectiveError;
use crate::run::{PROOF_BYTES, Rank, Token, random_bytes};

/// First bytes of every greeting.
const MAGIC: [u8; 8] = *b"trainer\x01";

/// Version of what travels after the handshake.
const VERSION: u64 = 1;

/// Bytes of a random number.
const NONCE_BYTES: usize = 32;

/// Version, size of the group, sender, receiver, longest vector, node buffers.
const WORDS: usize = 6;

/// Bytes of a greeting.
pub(super) const GREETING_BYTES: usize = MAGIC.len() + WORDS * 8 + NONCE_BYTES;

/// The last byte: the one who was connected to accepts.
pub(super) const WELCOME: u8 = b'w';

/// What a side says of itself.
pub(super) type Greeting = [u8; GREETING_BYTES];

/// Who proves something.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Connected,
    Accepted,
}

impl Side {
    fn label(self) -> &'static [u8] {
        match self {
            Side::Connected => b"trainer: the side that connected",
            Side::Accepted => b"trainer: the side that accepted",
        }
    }
}

fn words(membership: &Membership<'_>, from: Rank, to: Rank) -> [u64; WORDS] {
    [
        VERSION,
        u64::from(membership.world.get()),
        u64::from(from.get()),
        u64::from(to.get()),
        membership.vector_len as u64,
        membership.nodes_max as u64,
    ]
}

/// A greeting of this rank to another.
pub(super) fn greeting(membership: &Membership<'_>, to: Rank) -> Result<Greeting, CollectiveError> {
    let mut greeting = [0; GREETING_BYTES];
    let (magic, rest) = greeting.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    let (numbers, nonce) = rest.split_at_mut(WORDS * 8);
    let words = words(membership, membership.rank, to);
    for (bytes, word) in numbers.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let fresh: [u8; NONCE_BYTES] =
        random_bytes().map_err(CollectiveError::io("read random bytes"))?;
    nonce.copy_from_slice(&fresh);
    Ok(greeting)
}

/// A number in a greeting.
fn word(greeting: &Greeting, place: usize) -> u64 {
    let start = MAGIC.len() + place * 8;
    let bytes = greeting[start..start + 8].iter();
    bytes
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Who says it sent a greeting, if it is one to us.
pub(super) fn sender(membership: &Membership<'_>, greeting: &Greeting) -> Option<Rank> {
    let is_ours =
        greeting[..MAGIC.len()] == MAGIC && word(greeting, 3) == u64::from(membership.rank.get());
    let sender = u32::try_from(word(greeting, 2)).ok()?;
    (is_ours && sender < membership.world.get()).then_some(Rank::new(sender))
}

/// Whether the sender of a greeting, after its proof, fits to us.
pub(super) fn check(
    membership: &Membership<'_>,
    from: Rank,
    greeting: &Greeting,
) -> Result<(), CollectiveError> {
    let expected = words(membership, from, membership.rank);
    let what = [
        "version",
        "size of the group",
        "rank",
        "rank of the receiver",
        "longest vector",
        "number of node buffers",
    ];
    for (place, (expected, what)) in expected.into_iter().zip(what).enumerate() {
        let theirs = word(greeting, place);
        if theirs != expected {
            return Err(CollectiveError::Handshake {
                rank: from,
                reason: format!("its {what} is {theirs}, ours {expected}"),
            });
        }
    }
    Ok(())
}

/// The proof of one side, given both greetings.
pub(super) fn prove(
    token: &Token,
    side: Side,
    connected: &Greeting,
    accepted: &Greeting,
) -> [u8; PROOF_BYTES] {
    token.prove(side.label(), &[connected, accepted])
}

/// Whether a proof holds; takes as long for a wrong one.
pub(super) fn holds(
    token: &Token,
    side: Side,
    connected: &Greeting,
    accepted: &Greeting,
    proof: &[u8],
) -> bool {
    token.holds(side.label(), &[connected, accepted], proof)
}
