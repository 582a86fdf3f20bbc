//! Small files that exist whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use super::StoreError;

/// Largest small file that is read: a hostile one must not fill the memory.
const SMALL_BYTES_MAX: u64 = 16 << 20;

/// Replaces `path` by a file with `content`: temporary sibling, then rename. A reader sees the old
/// or the new content, never half of it. `durable` also waits for the disk.
///
/// # Errors
///
/// When the folder cannot be written; the old file is then untouched.
pub(crate) fn replace(path: &Path, content: &[u8], durable: bool) -> Result<(), StoreError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        if durable {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)?;
        if durable && let Some(folder) = path.parent() {
            sync_folder(folder)?;
        }
        Ok(())
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        StoreError::io("write", path)(error)
    })
}

/// Waits until the names in a folder are on the disk.
///
/// # Errors
///
/// As the file system says.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Reads a small file.
///
/// # Errors
///
/// When it cannot be read or is unreasonably long.
pub(crate) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?
        .take(SMALL_BYTES_MAX + 1)
        .read_to_end(&mut content)?;
    if content.len() as u64 > SMALL_BYTES_MAX {
        return Err(io::Error::other("the file is unreasonably long"));
    }
    Ok(content)
}
