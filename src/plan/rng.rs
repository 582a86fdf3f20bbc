//! Counter-based random numbers: a value is a function of what it is for, not of what was drawn
//! before it.
//!
//! Philox 4x32 with ten rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
//! 1, 2, 3", SC 2011).

/// What a stream of random numbers is for. The number is part of every result: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Order of the samples of an epoch.
    Order = 1,
    /// Choice of held-out samples.
    Split = 2,
    /// Initial weights of a parameter.
    Initial = 3,
    /// Dropout of a shard.
    Dropout = 4,
    /// Augmentation of a sample.
    Augment = 5,
    /// Random samples.
    Synthetic = 6,
}

/// Random numbers of one purpose at one place.
#[derive(Clone, Debug)]
pub struct Stream {
    key: [u32; 2],
    place: [u32; 2],
    block: u64,
    buffer: [u32; 4],
    used: usize,
}

impl Stream {
    /// The stream for `purpose` at (`major`, `minor`), e.g. (epoch, sample).
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose, major: u64, minor: u64) -> Self {
        // The key folds in all but `minor`, which is part of the counter.
        let folded = philox([low(major), high(major), purpose as u32, 0], words(seed));
        Self {
            key: [folded[0], folded[1]],
            place: words(minor),
            block: 0,
            buffer: [0; 4],
            used: 4,
        }
    }

    /// Goes on as after `count` calls of [`Stream::next_u32`] on a new stream.
    pub fn skip(&mut self, count: u64) {
        self.block = count / 4;
        self.used = 4;
        for _ in 0..count % 4 {
            self.next_u32();
        }
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            let [a, b] = words(self.block);
            self.buffer = philox([a, b, self.place[0], self.place[1]], self.key);
            self.block += 1;
            self.used = 0;
        }
        self.used += 1;
        self.buffer[self.used - 1]
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) | u64::from(self.next_u32()) << 32
    }

    /// Uniform in [0, 1), with 53 bits.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..bound, without bias (Lemire, "Fast random integer generation in an interval",
    /// 2019). `bound` must not be 0; 0 gives 0.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            let low = product as u64;
            if low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// Two independent normal values (Box and Muller 1958).
    pub fn normal_pair(&mut self) -> [f64; 2] {
        // 1 - u lies in (0, 1]: its logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let angle = std::f64::consts::TAU * self.uniform();
        [radius * angle.cos(), radius * angle.sin()]
    }
}

const fn low(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}

const fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

const fn words(value: u64) -> [u32; 2] {
    [low(value), high(value)]
}

/// One block of Philox 4x32-10.
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    const MULTIPLY: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    for _ in 0..10 {
        let first = MULTIPLY[0] * u64::from(counter[0]);
        let second = MULTIPLY[1] * u64::from(counter[2]);
        counter = [
            high(second) ^ counter[1] ^ key[0],
            low(second),
            high(first) ^ counter[3] ^ key[1],
            low(first),
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published with Random123 (`kat_vectors`).
    #[test]
    fn philox_gives_the_known_answers() {
        assert_eq!(
            philox([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn streams_differ_in_every_coordinate() {
        let first =
            |seed, purpose, major, minor| Stream::new(seed, purpose, major, minor).next_u64();
        let base = first(1, Purpose::Order, 2, 3);
        assert_eq!(base, first(1, Purpose::Order, 2, 3));
        assert_ne!(base, first(2, Purpose::Order, 2, 3));
        assert_ne!(base, first(1, Purpose::Split, 2, 3));
        assert_ne!(base, first(1, Purpose::Order, 3, 3));
        assert_ne!(base, first(1, Purpose::Order, 2, 4));
        assert_ne!(base, first(1, Purpose::Order, 2 + (1 << 32), 3));
        assert_ne!(base, first(1, Purpose::Order, 2, 3 + (1 << 32)));
    }

    #[test]
    fn moments_are_right() {
        let mut stream = Stream::new(7, Purpose::Initial, 0, 0);
        let count = 200_000;
        let (mut sum, mut squares, mut uniform) = (0.0, 0.0, 0.0);
        for _ in 0..count / 2 {
            for value in stream.normal_pair() {
                sum += value;
                squares += value * value;
            }
            uniform += stream.uniform();
        }
        let n = f64::from(count);
        // Five standard errors.
        assert!((sum / n).abs() < 5.0 / n.sqrt());
        assert!((squares / n - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
        assert!((uniform / (n / 2.0) - 0.5).abs() < 5.0 / (6.0 * n).sqrt());
    }

    #[test]
    fn below_reaches_all_and_only_what_it_may() {
        let mut stream = Stream::new(7, Purpose::Split, 0, 0);
        let mut seen = [0; 7];
        for _ in 0..7_000 {
            seen[usize::try_from(stream.below(7)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
        assert_eq!(stream.below(1), 0);
    }
}
