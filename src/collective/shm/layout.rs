//! Where things lie in the shared memory.
//!
//! First what is only ever touched by atomic operations (header, seats, positions of rings), then the bytes
//! and floats that ranks take turns in. All sizes follow from the three numbers in the header, which are
//! checked against the file before anything else is read.

use crate::run::{Rank, WorldSize};

use super::super::{CollectiveError, WORLD_SIZE_MAX};

/// First word of the memory: "trainer" and a zero.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"trainer\0");

/// Version of everything in this folder. Workers and supervisor are one executable: others are refused.
pub(super) const VERSION: u64 = 1;

/// Bytes that one rank can leave for all others at once.
pub(super) const MAIL_BYTES: usize = 256 << 10;

/// Bytes on the way from one rank to another. A power of two.
pub(super) const RING_BYTES: usize = 64 << 10;

/// Smallest vector for which pages of 2 MiB are asked for, in bytes.
const HUGE_BYTES_MIN: usize = 4 << 20;

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;
/// Two cache lines: processors fetch them in pairs.
const LINE: usize = 128;

/// Words of the header.
pub(super) const HEADER: Header = Header {
    magic: 0,
    version: 8,
    world: 16,
    vector_len: 24,
    nodes_max: 32,
    bell: Bell {
        count: LINE,
        sleepers: 2 * LINE,
    },
};
const SEATS: usize = PAGE;

/// Places of the header's words.
pub(super) struct Header {
    pub(super) magic: usize,
    pub(super) version: usize,
    pub(super) world: usize,
    pub(super) vector_len: usize,
    pub(super) nodes_max: usize,
    /// Rung when the last rank arrives at a meeting.
    pub(super) bell: Bell,
}

/// Places of two 32-bit words on which ranks sleep: how often it rang, and for how many.
#[derive(Clone, Copy)]
pub(super) struct Bell {
    pub(super) count: usize,
    pub(super) sleepers: usize,
}

/// Places of one rank's words.
#[derive(Clone, Copy)]
pub(super) struct Seat(usize);

impl Seat {
    const BYTES: usize = 5 * LINE;

    /// Meetings this rank arrived at.
    pub(super) fn arrived(self) -> usize {
        self.0
    }

    /// What it does in a meeting: the words of a call and one of its own. Meetings take turns with two
    /// places.
    pub(super) fn call(self, meeting: u64) -> usize {
        self.0 + LINE + if meeting & 1 == 0 { 0 } else { LINE / 2 }
    }

    /// Free, taken or left: 32 bits.
    pub(super) fn state(self) -> usize {
        self.0 + 2 * LINE
    }

    /// See [`super::super::Position::encode`].
    pub(super) fn position(self) -> usize {
        self.0 + 2 * LINE + 8
    }

    /// Rung when a ring to or from this rank moved.
    pub(super) fn bell(self) -> Bell {
        Bell {
            count: self.0 + 3 * LINE,
            sleepers: self.0 + 4 * LINE,
        }
    }
}

/// Places of a ring: words that count bytes ever written and read, and the bytes.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    pub(super) written: usize,
    pub(super) read: usize,
    pub(super) bytes: usize,
}

/// Sizes of the memory and where its parts begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) world: WorldSize,
    pub(super) vector_len: usize,
    pub(super) nodes_max: usize,
    /// End of what is only touched by atomic operations.
    pub(super) atomics_end: usize,
    rings: usize,
    mail: usize,
    vectors: usize,
    /// From one vector to the next.
    vector_bytes: usize,
    /// Bytes in all.
    pub(super) bytes: usize,
}

impl Layout {
    /// `None` when the world is empty or too large, or the sizes do not fit into memory.
    pub(super) fn new(world: WorldSize, vector_len: usize, nodes_max: usize) -> Option<Self> {
        let ranks = world.get() as usize;
        if ranks == 0 || world.get() > WORLD_SIZE_MAX {
            return None;
        }
        let ring_words = SEATS + ranks * Seat::BYTES;
        let atomics_end = ring_words + ranks * ranks * 2 * LINE;
        let rings = atomics_end.next_multiple_of(PAGE);
        let mail = rings + ranks * ranks * RING_BYTES;
        let floats_bytes = vector_len.checked_mul(size_of::<f32>())?;
        let align = if floats_bytes >= HUGE_BYTES_MIN {
            HUGE_PAGE
        } else {
            PAGE
        };
        let vectors = (mail + ranks * 2 * MAIL_BYTES).next_multiple_of(align);
        // Vectors begin at different places within a page: a processor that compares only the lower
        // twelve bits of addresses would take a store to one for a store to all.
        let vector_bytes = floats_bytes
            .checked_next_multiple_of(PAGE)?
            .checked_add(5 * LINE)?;
        let count = ranks.checked_mul(nodes_max)?.checked_add(1)?;
        let bytes = vector_bytes
            .checked_mul(count)?
            .checked_add(vectors)?
            .checked_next_multiple_of(align)?;
        i64::try_from(bytes).ok()?;
        Some(Self {
            world,
            vector_len,
            nodes_max,
            atomics_end,
            rings,
            mail,
            vectors,
            vector_bytes,
            bytes,
        })
    }

    /// From the words of a header that was found in a memory of `bytes` bytes.
    pub(super) fn found(
        [magic, version, world, vector_len, nodes_max]: [u64; 5],
        bytes: u64,
    ) -> Result<Self, CollectiveError> {
        if magic != MAGIC {
            return Err(CollectiveError::segment("it was not made by this program"));
        }
        if version != VERSION {
            return Err(CollectiveError::segment(format!(
                "its version is {version}, this program's {VERSION}"
            )));
        }
        let sizes = (
            u32::try_from(world),
            usize::try_from(vector_len),
            usize::try_from(nodes_max),
        );
        let layout = match sizes {
            (Ok(world), Ok(len), Ok(nodes)) => Self::new(WorldSize::new(world), len, nodes),
            _ => None,
        };
        match layout {
            Some(layout) if layout.bytes as u64 == bytes => Ok(layout),
            _ => Err(CollectiveError::segment("its sizes contradict each other")),
        }
    }

    /// Whether pages of 2 MiB are worth it; where the vectors begin.
    pub(super) fn huge(&self) -> Option<usize> {
        (self.vector_len * size_of::<f32>() >= HUGE_BYTES_MIN).then_some(self.vectors)
    }

    /// Words of a rank of the group.
    pub(super) fn seat(rank: Rank) -> Seat {
        Seat(SEATS + rank.get() as usize * Seat::BYTES)
    }

    /// From one rank of the group to another.
    pub(super) fn ring(&self, from: Rank, to: Rank) -> Ring {
        let ranks = self.world.get() as usize;
        let index = from.get() as usize * ranks + to.get() as usize;
        let words = SEATS + ranks * Seat::BYTES + index * 2 * LINE;
        Ring {
            written: words,
            read: words + LINE,
            bytes: self.rings + index * RING_BYTES,
        }
    }

    /// What a rank leaves for all others; rounds take turns with two places.
    pub(super) fn mail(&self, rank: Rank, round: u64) -> usize {
        let index = rank.get() as usize * 2 + usize::from(round & 1 == 1);
        self.mail + index * MAIL_BYTES
    }

    /// A node buffer.
    pub(super) fn node(&self, rank: Rank, node: usize) -> usize {
        self.vectors + (rank.get() as usize * self.nodes_max + node) * self.vector_bytes
    }

    /// The result of a sum.
    pub(super) fn result(&self) -> usize {
        self.vectors + self.world.get() as usize * self.nodes_max * self.vector_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other() {
        for (world, len, nodes) in [(1, 0, 0), (2, 17, 1), (64, 1 << 21, 9)] {
            let layout = Layout::new(WorldSize::new(world), len, nodes).unwrap();
            let last = Rank::new(world - 1);
            assert!(
                Layout::seat(last).bell().sleepers + 4 <= layout.ring(Rank::new(0), last).written
            );
            assert!(layout.ring(last, last).read + LINE <= layout.atomics_end);
            assert!(layout.ring(last, last).bytes + RING_BYTES <= layout.mail(Rank::new(0), 0));
            assert!(layout.mail(last, 1) + MAIL_BYTES <= layout.node(Rank::new(0), 0));
            assert!(layout.result() + len * 4 <= layout.bytes);
            let words = [MAGIC, VERSION, world.into(), len as u64, nodes as u64];
            assert_eq!(Layout::found(words, layout.bytes as u64).unwrap(), layout);
            assert!(Layout::found(words, layout.bytes as u64 + 1).is_err());
        }
    }

    #[test]
    fn headers_that_lie_are_refused() {
        let huge = u64::MAX;
        for words in [
            [0, VERSION, 2, 8, 1],
            [MAGIC, VERSION + 1, 2, 8, 1],
            [MAGIC, VERSION, 0, 8, 1],
            [MAGIC, VERSION, 65, 8, 1],
            [MAGIC, VERSION, huge, 8, 1],
            [MAGIC, VERSION, 2, huge, 1],
            [MAGIC, VERSION, 2, 8, huge],
            [MAGIC, VERSION, 2, huge >> 3, 1 << 20],
        ] {
            assert!(Layout::found(words, 1 << 20).is_err(), "{words:?}");
        }
    }
}
