//! A stream of tokens in a memory-mapped file, with a header that is checked when it is opened.
//!
//! Layout, little-endian: magic (8 bytes), version (u32), bytes per token (u32, 2 or 4), tokens,
//! vocabulary, documents, empty documents (u64 each), end-of-document token (u64, all ones for
//! none), key (32 bytes), hash of the tokens (32 bytes), SHA-256 of all that (32 bytes), tokens.
//! The hash of the tokens is the SHA-256 of the SHA-256 of each mebibyte, so that threads can share
//! the work.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use memmap2::Mmap;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

const MAGIC: &[u8; 8] = b"TRN-TOKS";
const VERSION: u32 = 1;
/// Bytes before the header's own hash.
const HASHED: usize = 8 + 4 + 4 + 5 * 8 + 32 + 32;
/// Bytes of the whole header; even, so that tokens are aligned.
const HEADER: usize = HASHED + 32;
/// Bytes that are hashed at a time.
const CHUNK: usize = 1 << 20;
/// Written for "no end-of-document token".
const NO_TOKEN: u64 = u64::MAX;

/// What a token file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenFacts {
    /// Number of different tokens; every token is below it.
    pub vocabulary: u64,
    /// Documents that were tokenised.
    pub documents: u64,
    /// Documents without a token.
    pub empty: u64,
    /// Token after each document, if the tokenizer has one.
    pub end_of_document: Option<u32>,
}

/// An open token file.
#[derive(Debug)]
pub(super) struct TokenFile {
    map: Mmap,
    /// Bytes per token.
    width: usize,
    count: usize,
    facts: TokenFacts,
}

/// Why a token file cannot be used; it is made anew then.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokenFileError {
    /// There is none.
    #[error("there is none")]
    Missing,
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(io::Error),
    /// Its content is not what it should be.
    #[error("{0}")]
    Damaged(&'static str),
}

impl TokenFile {
    /// Opens a file that was made for `key`, and checks all of it.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub(super) fn open(path: &Path, key: &[u8; 32]) -> Result<Self, TokenFileError> {
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TokenFileError::Missing,
            _ => TokenFileError::Io(error),
        })?;
        let meta = file.metadata().map_err(TokenFileError::Io)?;
        if !meta.is_file() || meta.len() < HEADER as u64 {
            return Err(TokenFileError::Damaged("it is too short"));
        }
        let map = map(&file).map_err(TokenFileError::Io)?;
        let bytes: &[u8] = &map;
        let (header, payload) = bytes
            .split_at_checked(HEADER)
            .ok_or(TokenFileError::Damaged("it is too short"))?;
        let (hashed, own_hash) = header.split_at(HASHED);
        if Sha256::digest(hashed).as_slice() != own_hash {
            return Err(TokenFileError::Damaged("its header is damaged"));
        }
        let mut fields = Fields(hashed);
        if fields.take::<8>() != *MAGIC || u32::from_le_bytes(fields.take()) != VERSION {
            return Err(TokenFileError::Damaged("it has another version"));
        }
        let width = u32::from_le_bytes(fields.take()) as usize;
        let [count, vocabulary, documents, empty, end] =
            std::array::from_fn(|_| u64::from_le_bytes(fields.take()));
        if fields.take::<32>() != *key {
            return Err(TokenFileError::Damaged("it was made from other content"));
        }
        let count =
            usize::try_from(count).map_err(|_| TokenFileError::Damaged("it is too long"))?;
        if !matches!(width, 2 | 4) || count.checked_mul(width) != Some(payload.len()) {
            return Err(TokenFileError::Damaged(
                "its length does not match its header",
            ));
        }
        if payload_hash(payload) != fields.take::<32>() {
            return Err(TokenFileError::Damaged(
                "its tokens do not match their hash",
            ));
        }
        Ok(Self {
            width,
            count,
            facts: TokenFacts {
                vocabulary,
                documents,
                empty,
                end_of_document: u32::try_from(end).ok(),
            },
            map,
        })
    }

    /// Writes a file: to a temporary sibling, synced, then renamed.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub(super) fn write(
        path: &Path,
        key: &[u8; 32],
        facts: TokenFacts,
        tokens: &[u32],
    ) -> io::Result<()> {
        let (width, bytes_each) = if facts.vocabulary <= 1 << 16 {
            (2usize, 2u32)
        } else {
            (4, 4)
        };
        let mut payload = Vec::with_capacity(tokens.len() * width);
        for token in tokens {
            // A vocabulary of at most 2^16 has tokens of 16 bits: the low bytes are all of it.
            payload.extend_from_slice(&token.to_le_bytes()[..width]);
        }
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&bytes_each.to_le_bytes());
        for number in [
            tokens.len() as u64,
            facts.vocabulary,
            facts.documents,
            facts.empty,
            facts.end_of_document.map_or(NO_TOKEN, u64::from),
        ] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        header.extend_from_slice(key);
        header.extend_from_slice(&payload_hash(&payload));
        let own_hash = Sha256::digest(&header);
        header.extend_from_slice(&own_hash);

        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        let written = File::create(&temporary).and_then(|file| {
            let mut out = BufWriter::new(file);
            out.write_all(&header)?;
            out.write_all(&payload)?;
            out.into_inner()
                .map_err(io::IntoInnerError::into_error)?
                .sync_all()
        });
        written
            .and_then(|()| std::fs::rename(&temporary, path))
            .inspect_err(|_| {
                // The error to tell of is the first one.
                let _ = std::fs::remove_file(&temporary);
            })
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// What it says of itself.
    pub(super) fn facts(&self) -> TokenFacts {
        self.facts
    }

    /// The tokens from `start` on, at most `length` of them.
    pub(super) fn tokens(&self, start: usize, length: usize) -> impl Iterator<Item = u32> + '_ {
        let end = start.saturating_add(length).min(self.count);
        let range = HEADER + start.min(end) * self.width..HEADER + end * self.width;
        let bytes = self.map.get(range).unwrap_or_default();
        bytes.chunks_exact(self.width).map(|token| match *token {
            [a, b] => u32::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
            // `open` allows no other width.
            _ => 0,
        })
    }
}

/// Maps a whole file.
#[expect(
    unsafe_code,
    reason = "a memory map is the one way to share a large file's pages"
)]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the map is read only, and token files are never changed in place: they are written
    // under a temporary name and renamed, so an open file keeps its content. Somebody who truncates
    // a cache file by hand while a run uses it ends that run with a bus error; the supervisor
    // restarts it, and the file is then found damaged and made anew.
    unsafe { Mmap::map(file) }
}

fn payload_hash(payload: &[u8]) -> [u8; 32] {
    let chunks: Vec<[u8; 32]> = payload
        .par_chunks(CHUNK)
        .map(|chunk| Sha256::digest(chunk).into())
        .collect();
    Sha256::digest(chunks.as_flattened()).into()
}

/// Reads fields off a header whose length was checked.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((field, rest)) => {
                self.0 = rest;
                *field
            }
            None => [0; N],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FACTS: TokenFacts = TokenFacts {
        vocabulary: 257,
        documents: 3,
        empty: 1,
        end_of_document: Some(256),
    };

    #[test]
    fn tokens_come_back_in_both_widths() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tokens");
        for (vocabulary, first, end) in [(257, 0, Some(256)), (200_000, 199_743, None)] {
            let facts = TokenFacts {
                vocabulary,
                end_of_document: end,
                ..FACTS
            };
            let tokens: Vec<u32> = (0..3000).map(|n| n * 7919 % 257 + first).collect();
            TokenFile::write(&path, &[7; 32], facts, &tokens).unwrap();
            let file = TokenFile::open(&path, &[7; 32]).unwrap();
            assert_eq!(file.facts(), facts);
            assert_eq!(file.tokens(0, 9999).collect::<Vec<_>>(), tokens);
            assert_eq!(file.tokens(10, 5).collect::<Vec<_>>(), tokens[10..15]);
            assert_eq!(file.tokens(5000, 5).count(), 0);
            assert!(matches!(
                TokenFile::open(&path, &[8; 32]),
                Err(TokenFileError::Damaged(_))
            ));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_noticed(place in 0usize..HEADER + 20, bit in 0u8..8) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.tokens");
            TokenFile::write(&path, &[7; 32], FACTS, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).unwrap();
            let mut bytes = std::fs::read(&path).unwrap();
            prop_assert_eq!(bytes.len(), HEADER + 20);
            bytes[place] ^= 1 << bit;
            std::fs::write(&path, &bytes).unwrap();
            prop_assert!(TokenFile::open(&path, &[7; 32]).is_err());
            bytes.truncate(place);
            std::fs::write(&path, &bytes).unwrap();
            prop_assert!(TokenFile::open(&path, &[7; 32]).is_err());
        }
    }
}
