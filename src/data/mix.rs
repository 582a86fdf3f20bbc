//! A fast hash for finding equal rows and images; the same everywhere, and no defence against
//! somebody who makes collisions on purpose (they would only hide a warning).

use std::hash::{BuildHasherDefault, Hasher};

/// Builds [`Mix`] for hash maps.
pub(super) type BuildMix = BuildHasherDefault<Mix>;

/// Folds 64 bits at a time through a 128-bit product (as wyhash by Wang Yi does).
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix(u64);

impl Default for Mix {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Mix {
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0xa076_1d64_78bd_642f)
            * u128::from(word.rotate_left(32) ^ 0xe703_7ed1_a0b4_28db);
        self.0 = self.0.rotate_left(23) ^ product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            self.fold(u64::from_le_bytes(*chunk));
        }
        let mut last = [0; 8];
        for (slot, byte) in last.iter_mut().zip(rest) {
            *slot = *byte;
        }
        self.fold(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u32(&mut self, word: u32) {
        self.fold(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.fold(word);
    }

    fn finish(&self) -> u64 {
        let mut mix = *self;
        mix.fold(self.0 >> 32);
        mix.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn short_inputs_hash_apart() {
        let mut seen = HashSet::new();
        for length in 0..20usize {
            for value in 0..=255u8 {
                let mut mix = Mix::default();
                mix.write(&vec![value; length]);
                if length > 0 || value == 0 {
                    assert!(seen.insert(mix.finish()), "{length} times {value}");
                }
            }
        }
        for number in 0..100_000u32 {
            let mut mix = Mix::default();
            mix.write_u32(number);
            mix.write_u32(number / 3);
            assert!(seen.insert(mix.finish()));
        }
    }
}
