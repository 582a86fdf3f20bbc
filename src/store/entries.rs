//! Reading a journal, also one that is being written, was cut by a crash, or is damaged.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;

use super::StoreError;
use crate::run::wire::FRAME_BYTES_MAX;
use crate::run::{Entry, RunDir};

/// Longest line of a journal: the longest message plus sequence number, time and attempt.
const LINE_BYTES_MAX: u64 = FRAME_BYTES_MAX as u64 + 1024;

/// The entries of a journal in order. Lines that are no entry are counted and passed over: what is
/// readable stays readable.
#[derive(Debug)]
pub struct Entries {
    path: PathBuf,
    input: BufReader<File>,
    line: Vec<u8>,
    place: Place,
    failed: bool,
}

/// Where a reader is in a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Bytes read so far.
    pub(crate) offset: u64,
    /// Offset behind the last good entry.
    pub(crate) good_end: u64,
    /// Whether the last good entry lacks its line end.
    pub(crate) open_line: bool,
    /// Sequence number that comes next.
    pub(crate) next_seq: u64,
    /// Lines before the last good entry that are none.
    pub(crate) damaged: u64,
    /// Lines since the last good entry that are none.
    pub(crate) tail: u64,
}

impl Entries {
    /// Opens the journal of a run.
    ///
    /// # Errors
    ///
    /// When there is none or it cannot be opened.
    pub fn open(dir: &RunDir) -> Result<Self, StoreError> {
        Self::open_at(dir, 0)
    }

    /// Opens the journal behind an entry that ends at `offset`.
    pub(crate) fn open_at(dir: &RunDir, offset: u64) -> Result<Self, StoreError> {
        let path = dir.journal();
        let mut file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NotARun {
                path: dir.root().to_path_buf(),
                missing: "events.jsonl",
            },
            _ => StoreError::io("open", &path)(error),
        })?;
        file.seek(SeekFrom::Start(offset))
            .map_err(StoreError::io("read", &path))?;
        Ok(Self {
            path,
            input: BufReader::with_capacity(1 << 16, file),
            line: Vec::new(),
            place: Place {
                offset,
                good_end: offset,
                ..Place::default()
            },
            failed: false,
        })
    }

    /// Lines so far that were no entry although good ones follow: damage, not the cut of a crash.
    #[must_use]
    pub fn damaged_lines(&self) -> u64 {
        self.place.damaged
    }

    /// Where the reader is.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Like `next`, but shows the raw line first and skips it without parsing when `wanted` says no.
    /// Counts of damage are not kept for skipped lines.
    pub(crate) fn next_if(
        &mut self,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Option<Result<Entry, StoreError>> {
        loop {
            if self.failed {
                return None;
            }
            match self.read_line() {
                Ok(false) => return None,
                Ok(true) => {}
                Err(error) => {
                    self.failed = true;
                    return Some(Err(StoreError::io("read", &self.path)(error)));
                }
            }
            if wanted(&self.line)
                && let Some(entry) = self.accept()
            {
                return Some(Ok(entry));
            }
        }
    }

    /// Reads the next line into `self.line`; an overlong one is left empty. False at the end.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let read =
            io::Read::take(&mut self.input, LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
        self.place.offset += read as u64;
        if read as u64 == LINE_BYTES_MAX && self.line.last() != Some(&b'\n') {
            self.line.clear();
            self.skip_line()?;
        }
        Ok(read > 0)
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let used = end.map_or(buffer.len(), |at| at + 1);
            self.input.consume(used);
            self.place.offset += used as u64;
            if end.is_some() {
                return Ok(());
            }
        }
    }

    /// The current line as an entry, if it is one and its number goes on from the last.
    fn accept(&mut self) -> Option<Entry> {
        let entry = serde_json::from_slice::<Entry>(&self.line)
            .ok()
            .filter(|entry| entry.seq >= self.place.next_seq);
        match &entry {
            Some(entry) => {
                self.place.next_seq = entry.seq + 1;
                self.place.good_end = self.place.offset;
                self.place.open_line = self.line.last() != Some(&b'\n');
                self.place.damaged += std::mem::take(&mut self.place.tail);
            }
            None => self.place.tail += 1,
        }
        entry
    }
}

impl Iterator for Entries {
    type Item = Result<Entry, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_if(|_| true)
    }
}
