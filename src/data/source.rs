//! Files read whole, with a bound, a hash, and gzip taken off.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use super::nearest::nearest;
use super::prepared::FileRecord;
use crate::run::Fault;

/// Decompressed bytes up to which no compression ratio is suspicious.
const SMALL_BYTES: u64 = 64 << 20;

/// Largest believable ratio of a gzip file beyond [`SMALL_BYTES`]. Real tables and images stay
/// below 50; deflate itself ends at about 1030.
const RATIO_MAX: u64 = 200;

/// A file in memory.
pub(super) struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// Its content, decompressed.
    pub bytes: Vec<u8>,
    /// SHA-256 of the file as stored, lower-case hexadecimal.
    pub sha256: String,
    /// Bytes of the file as stored.
    pub stored: u64,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("path", &self.path)
            .field("bytes", &self.bytes.len())
            .field("sha256", &self.sha256)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Reads a regular file of at most `bytes_max` bytes, before and after decompression.
    ///
    /// # Errors
    ///
    /// Usage for a path that leads nowhere, machine for a failing read, damaged for bad gzip data
    /// or a file over the bound.
    pub(super) fn read(path: &Path, bytes_max: u64) -> Result<Self, Fault> {
        let stored = read_stored(path, bytes_max)?;
        let length = stored.len() as u64;
        if !stored.starts_with(&[0x1f, 0x8b]) {
            let sha256 = sha256_hex(&stored);
            return Ok(Self {
                path: path.to_path_buf(),
                bytes: stored,
                sha256,
                stored: length,
            });
        }
        let (sha256, bytes) =
            rayon::join(|| sha256_hex(&stored), || gunzip(path, &stored, bytes_max));
        Ok(Self {
            path: path.to_path_buf(),
            bytes: bytes?,
            sha256,
            stored: length,
        })
    }

    /// What the record of the preparation says of this file.
    pub(super) fn record(&self, role: impl Into<String>) -> FileRecord {
        FileRecord {
            role: role.into(),
            path: self.path.display().to_string(),
            bytes: self.stored,
            sha256: self.sha256.clone(),
        }
    }
}

/// The bytes of a regular file as stored.
pub(super) fn read_stored(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Fault> {
    let file = File::open(path).map_err(|error| missing(path, &error))?;
    let meta = file
        .metadata()
        .map_err(|error| Fault::io("read", path, &error))?;
    if meta.is_dir() {
        return Err(
            Fault::usage(format!("{} is a folder, not a file", path.display()))
                .advise("name one file"),
        );
    }
    if !meta.is_file() {
        return Err(Fault::usage(format!(
            "{} is not a regular file",
            path.display()
        )));
    }
    if meta.len() > bytes_max {
        return Err(too_large(path, bytes_max));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0) + 1);
    // One byte more than allowed, to notice a file that grows.
    file.take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Fault::io("read", path, &error))?;
    if bytes.len() as u64 > bytes_max {
        return Err(too_large(path, bytes_max));
    }
    Ok(bytes)
}

fn too_large(path: &Path, bytes_max: u64) -> Fault {
    damaged(
        path,
        format_args!("it holds more than the {bytes_max} bytes that are read of such a file"),
    )
}

/// Takes gzip off, up to `bytes_max` bytes and a believable ratio.
fn gunzip(path: &Path, stored: &[u8], bytes_max: u64) -> Result<Vec<u8>, Fault> {
    let believable = (stored.len() as u64)
        .saturating_mul(RATIO_MAX)
        .max(SMALL_BYTES);
    let limit = bytes_max.min(believable);
    // The last four bytes say the length modulo 2^32: good enough as a hint, and bounded.
    let hint = stored
        .last_chunk::<4>()
        .map_or(0, |tail| u64::from(u32::from_le_bytes(*tail)))
        .min(limit)
        .min((stored.len() as u64).saturating_mul(16));
    let mut bytes = Vec::with_capacity(usize::try_from(hint).unwrap_or(0) + 1);
    MultiGzDecoder::new(stored)
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| damaged(path, format_args!("its gzip data are damaged: {error}")))?;
    if bytes.len() as u64 > limit {
        return Err(damaged(
            path,
            format_args!(
                "{} bytes of gzip data unpack to more than {limit}, which no real data do",
                stored.len()
            ),
        ));
    }
    Ok(bytes)
}

/// Damaged content of a file.
pub(super) fn damaged(path: &Path, what: impl Display) -> Fault {
    Fault::damaged(format!("{}: {what}", path.display()))
}

/// A path that cannot be opened; names the nearest file that is there.
pub(super) fn missing(path: &Path, error: &io::Error) -> Fault {
    let fault = Fault::io("open", path, error);
    if error.kind() != io::ErrorKind::NotFound {
        return fault;
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return fault;
    };
    let folder_shown = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let Ok(entries) = std::fs::read_dir(folder_shown) else {
        return fault;
    };
    let names: Vec<String> = entries
        .take(1000)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    match nearest(&name.to_string_lossy(), names.iter().map(String::as_str)) {
        Some(found) => fault.advise(format!("did you mean {}?", folder.join(found).display())),
        None => fault,
    }
}

/// SHA-256 as lower-case hexadecimal.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// File name of a path for messages.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::run::FaultClass;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_taken_off_and_the_stored_bytes_are_hashed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gz");
        let stored = packed(b"hello");
        std::fs::write(&path, &stored).unwrap();
        let source = Source::read(&path, 100).unwrap();
        assert_eq!(source.bytes, b"hello");
        assert_eq!(source.sha256, sha256_hex(&stored));
        assert_eq!(
            sha256_hex(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn bombs_and_large_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bomb.gz");
        std::fs::write(&path, packed(&vec![0; 65 << 20])).unwrap();
        let fault = Source::read(&path, 1 << 40).unwrap_err();
        assert_eq!(fault.class, FaultClass::Damaged);
        assert!(fault.message.contains("which no real data do"), "{fault}");
        assert!(Source::read(&path, 100).is_err());
    }

    #[test]
    fn a_wrong_path_names_the_nearest_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("train.csv"), "").unwrap();
        let fault = Source::read(&folder.path().join("trian.csv"), 100).unwrap_err();
        assert_eq!(fault.class, FaultClass::Usage);
        assert!(fault.advice.contains("train.csv"), "{}", fault.advice);
        let fault = Source::read(folder.path(), 100).unwrap_err();
        assert_eq!(fault.class, FaultClass::Usage);
    }
}
