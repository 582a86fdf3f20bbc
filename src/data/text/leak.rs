//! Held-out text that is also in the training text, at any offset.

use std::collections::HashSet;
use std::hash::Hasher;

use rayon::prelude::*;

use crate::data::mix::{BuildMix, Mix};
use crate::data::token_file::TokenFile;

/// Tokens that are compared: chance agrees on fewer.
const COMPARED_MAX: usize = 64;

/// Held-out windows that are looked for, spread evenly.
const LOOKED_FOR_MAX: usize = 4096;

/// Training tokens that are searched.
const SEARCHED_MAX: usize = 64 << 20;

/// Bits of the filter in front of the set.
const FILTER_BITS: usize = 1 << 21;

/// Odd base of the rolling hash, modulo 2^64.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Windows that are looked for.
pub(super) struct Wanted {
    length: usize,
    hashes: HashSet<u64, BuildMix>,
    filter: Vec<u64>,
    list: Vec<u64>,
}

impl Wanted {
    /// The beginnings of windows that start at `starts`.
    pub(super) fn new(file: &TokenFile, starts: &[usize], window: usize) -> Self {
        let length = window.min(COMPARED_MAX);
        let every = starts.len().div_ceil(LOOKED_FOR_MAX).max(1);
        let list: Vec<u64> = starts
            .iter()
            .step_by(every)
            .map(|&start| {
                let rolled = file.tokens(start, length).fold(0u64, roll_in);
                finish(rolled)
            })
            .collect();
        let mut filter = vec![0u64; FILTER_BITS / 64];
        for &hash in &list {
            let (word, bit) = place(hash);
            filter[word] |= bit;
        }
        Self {
            length,
            hashes: list.iter().copied().collect(),
            filter,
            list,
        }
    }

    /// How many of the windows occur in the runs of training tokens, and how many were looked for.
    pub(super) fn found(
        &self,
        file: &TokenFile,
        runs: &[std::ops::Range<usize>],
    ) -> (usize, usize) {
        let mut left = SEARCHED_MAX;
        let searched: Vec<std::ops::Range<usize>> = runs
            .iter()
            .map_while(|run| {
                let length = run.len().min(left);
                left -= length;
                (length > 0).then(|| run.start..run.start + length)
            })
            .flat_map(|run| self.cut(run))
            .collect();
        let found: HashSet<u64, BuildMix> = searched
            .par_iter()
            .flat_map_iter(|run| self.search(file, run.clone()))
            .collect();
        let count = self.list.iter().filter(|hash| found.contains(hash)).count();
        (count, self.list.len())
    }

    /// Cuts a long run so that threads can share it; pieces overlap by what is compared.
    fn cut(&self, run: std::ops::Range<usize>) -> Vec<std::ops::Range<usize>> {
        const PIECE: usize = 1 << 18;
        let overlap = self.length.saturating_sub(1);
        run.clone()
            .step_by(PIECE)
            .map(|start| start..(start + PIECE + overlap).min(run.end))
            .collect()
    }

    fn search(&self, file: &TokenFile, run: std::ops::Range<usize>) -> Vec<u64> {
        if self.length == 0 || run.len() < self.length {
            return Vec::new();
        }
        let mut leaving = file.tokens(run.start, run.len());
        let top = (1..self.length).fold(1u64, |power, _| power.wrapping_mul(BASE));
        let mut rolled = 0u64;
        let mut found = Vec::new();
        for (place_in_run, token) in file.tokens(run.start, run.len()).enumerate() {
            if place_in_run >= self.length {
                let old = u64::from(leaving.next().unwrap_or(0)) + 1;
                rolled = rolled.wrapping_sub(old.wrapping_mul(top));
            }
            rolled = roll_in(rolled, token);
            if place_in_run + 1 >= self.length {
                let hash = finish(rolled);
                let (word, bit) = place(hash);
                if self.filter[word] & bit != 0 && self.hashes.contains(&hash) {
                    found.push(hash);
                }
            }
        }
        found
    }
}

fn roll_in(rolled: u64, token: u32) -> u64 {
    rolled.wrapping_mul(BASE).wrapping_add(u64::from(token) + 1)
}

fn finish(rolled: u64) -> u64 {
    let mut mix = Mix::default();
    mix.write_u64(rolled);
    mix.finish()
}

/// Word and bit of a hash in the filter.
#[expect(clippy::cast_possible_truncation, reason = "the remainder is small")]
fn place(hash: u64) -> (usize, u64) {
    let bit = (hash % FILTER_BITS as u64) as usize;
    (bit / 64, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::token_file::TokenFacts;

    #[test]
    fn copies_are_found_at_any_offset_and_strangers_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.tokens");
        // A sequence without repetition: a linear congruential generator's high bits.
        let mut state = 1u64;
        let mut tokens: Vec<u32> = (0..300_000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) as u32 % 256
            })
            .collect();
        let copied = tokens[262_100..262_200].to_vec();
        tokens.extend(copied);
        let facts = TokenFacts {
            vocabulary: 256,
            documents: 1,
            empty: 0,
            end_of_document: None,
        };
        TokenFile::write(&path, &[0; 32], facts, &tokens).unwrap();
        let file = TokenFile::open(&path, &[0; 32]).unwrap();
        let wanted = Wanted::new(&file, &[300_000], 64);
        let train = std::slice::from_ref(&(0..300_000));
        assert_eq!(wanted.found(&file, train), (1, 1));
        let wanted = Wanted::new(&file, &[100_000, 300_036], 64);
        assert_eq!(
            wanted.found(&file, std::slice::from_ref(&(0..100_000))),
            (0, 2)
        );
        assert_eq!(wanted.found(&file, train), (2, 2));
    }
}
