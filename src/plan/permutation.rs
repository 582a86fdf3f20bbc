//! A seeded order of n things that can be asked for any place without making the list.

use super::rng::{Purpose, Stream};

/// Rounds of the Feistel network; four are enough for a pseudo-random permutation (Luby and Rackoff
/// 1988), two more cost little and make up for the cheap round function.
const ROUNDS: usize = 6;

/// A pseudo-random permutation of `0..len` in constant memory: a balanced Feistel network over the
/// smallest even number of bits that covers `len`, walked until it lands inside (Black and Rogaway,
/// "Ciphers with arbitrary finite domains", 2002). The domain is less than four times `len`, so a
/// look-up takes fewer than four walks on average.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The order of `len` things for a purpose and an index, e.g. the samples of an epoch.
    #[must_use]
    pub fn new(len: u64, seed: u64, purpose: Purpose, index: u64) -> Self {
        let mut stream = Stream::new(seed, purpose, index, 0);
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Self {
            len,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| stream.next_u64()),
        }
    }

    /// Number of things.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What stands at `place`, which must be below `len`.
    #[must_use]
    pub fn at(&self, place: u64) -> u64 {
        debug_assert!(place < self.len, "{place} of {}", self.len);
        let mut value = place;
        loop {
            value = self.encipher(value);
            if value < self.len {
                return value;
            }
        }
    }

    fn encipher(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// Finaliser of `SplitMix64` (Steele, Lea and Flood 2014; constants by Stafford).
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_thing_has_one_place(len in 1u64..3000, seed: u64, epoch in 0u64..100) {
            let order = Permutation::new(len, seed, Purpose::Order, epoch);
            let mut seen = vec![false; usize::try_from(len).unwrap()];
            for place in 0..len {
                let value = usize::try_from(order.at(place)).unwrap();
                prop_assert!(!seen[value]);
                seen[value] = true;
            }
        }
    }

    #[test]
    fn large_domains_stay_inside() {
        let len = (1 << 40) + 12345;
        let order = Permutation::new(len, 1, Purpose::Order, 0);
        for place in (0..len).step_by(1 << 33) {
            assert!(order.at(place) < len);
        }
    }

    #[test]
    fn epochs_and_seeds_have_orders_of_their_own() {
        let list = |seed, epoch| -> Vec<u64> {
            let order = Permutation::new(100, seed, Purpose::Order, epoch);
            (0..100).map(|place| order.at(place)).collect()
        };
        assert_eq!(list(1, 0), list(1, 0));
        assert_ne!(list(1, 0), list(1, 1));
        assert_ne!(list(1, 0), list(2, 0));
    }

    /// Places of one thing over many epochs: a chi-squared statistic over ten cells with nine degrees
    /// of freedom stays below 33.7 with probability 0.9999.
    #[test]
    fn places_are_spread_evenly() {
        let mut cells = [0u32; 10];
        for epoch in 0..10_000 {
            let place = Permutation::new(1000, 5, Purpose::Order, epoch).at(17);
            cells[usize::try_from(place / 100).unwrap()] += 1;
        }
        let statistic: f64 = cells
            .iter()
            .map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0)
            .sum();
        assert!(statistic < 33.7, "{cells:?}");
    }
}
