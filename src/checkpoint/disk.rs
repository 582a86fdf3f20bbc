//! The few things that are done to the disk while a checkpoint is written, so that tests can let
//! each of them fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with, statvfs};

/// Bytes of one write, and of one piece that is hashed: large enough for the disk, small enough to be
/// still in the processor's cache when it is written.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// A disk.
pub(super) trait Disk: Send + Sync {
    /// Makes a folder and those above it. One that exists is fine.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes a file that must not exist yet.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>>;
    /// Waits until the names in a folder are on the disk.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Renames a folder; fails when there is a folder with content at `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Exchanges two folders in one moment.
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()>;
    /// Removes a folder with all that is in it; one that is not there is fine.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Bytes that may still be written; `None` where the file system does not say.
    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>>;
}

/// A file that is being written.
pub(super) trait Output {
    /// Writes more.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Waits until all of it is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// The real disk.
pub(super) struct Local;

impl Disk for Local {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(BufWriter::with_capacity(PIECE_BYTES, file)))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        let disk = statvfs(path)?;
        // A file system that does not count blocks says 0 of 0.
        Ok((disk.f_blocks > 0).then(|| disk.f_bavail.saturating_mul(disk.f_frsize)))
    }
}

impl Output for BufWriter<File> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.get_ref().sync_all()
    }
}
