//! What is done before a run goes on: leftovers go, damaged checkpoints are put aside, the newest one
//! that verifies is found.

use std::fs::{self, File};
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::disk::Disk;
use super::name::{self, Use};
use super::{CheckpointError, Snapshot, load, read, verify};
use crate::run::{CheckpointInfo, Step};

/// Most names that are tried for one checkpoint that is put aside.
const ASIDE_MAX: u32 = 10_000;

/// What [`newest`] found: the newest that verifies with its directory name, and those that were passed
/// over, each with the reason.
type Found<T> = (Option<(String, T)>, Vec<(String, String)>);

/// The newest checkpoint that verifies, read. Damaged ones that are newer are renamed to
/// `rejected-step-…` and come back with the reason. No other process may write to the folder.
///
/// # Errors
///
/// When the folder or a file cannot be read, or a checkpoint has a later format: to use an older one
/// then would lose work without need.
pub fn newest_good(dir: &Path) -> Result<Found<Snapshot>, CheckpointError> {
    newest(dir, load)
}

/// As [`newest_good`], but verifies without keeping the tensors in memory.
///
/// # Errors
///
/// As [`newest_good`].
pub fn newest_verified(dir: &Path) -> Result<Found<CheckpointInfo>, CheckpointError> {
    newest(dir, verify)
}

fn newest<T>(
    dir: &Path,
    look: impl Fn(&Path) -> Result<T, CheckpointError>,
) -> Result<Found<T>, CheckpointError> {
    let mut rejected = Vec::new();
    for step in read::steps(dir)?.into_iter().rev() {
        let directory = name::of_step(step);
        match look(&dir.join(&directory)) {
            Ok(found) => return Ok((Some((directory, found)), rejected)),
            Err(error) if error.is_damage() => {
                let mut reason = error.to_string();
                // On a disk that cannot be written to, it stays where it is.
                if let Err(error) = put_aside(dir, &directory, "rejected") {
                    reason = format!("{reason} ({error})");
                }
                rejected.push((directory, reason));
            }
            Err(CheckpointError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((None, rejected))
}

/// Renames checkpoints of later steps than `step` to `superseded-step-…`: a run that goes on from an
/// earlier step leaves them behind, and must not find them again after a crash. Returns their names.
///
/// # Errors
///
/// When the folder cannot be read or changed.
pub fn supersede_after(dir: &Path, step: Step) -> Result<Vec<String>, CheckpointError> {
    let mut names = Vec::new();
    for later in read::steps(dir)?.into_iter().filter(|&later| later > step) {
        let directory = name::of_step(later);
        put_aside(dir, &directory, "superseded")?;
        names.push(directory);
    }
    Ok(names)
}

/// Renames a checkpoint to a free name that starts with `why`.
fn put_aside(dir: &Path, directory: &str, why: &str) -> Result<(), CheckpointError> {
    let from = dir.join(directory);
    let first = dir.join(format!("{why}-{directory}"));
    let others = (2..ASIDE_MAX).map(|n| dir.join(format!("{why}-{directory}-{n}")));
    let to = std::iter::once(first)
        .chain(others)
        .find(|path| fs::symlink_metadata(path).is_err());
    let Some(to) = to else { return Ok(()) };
    fs::rename(&from, &to)
        .and_then(|()| File::open(dir)?.sync_all())
        .map_err(|source| CheckpointError::Io {
            doing: "put aside",
            path: from,
            source,
        })
}

/// Removes what processes that are gone have left in a folder, and brings back what one of them was
/// about to replace. Touches nothing else, and what it cannot remove stays.
pub(super) fn clean(dir: &Path, disk: &dyn Disk, own_pid: u32) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let Some((what, step, pid)) = entry.file_name().to_str().and_then(name::parse_hidden)
        else {
            continue;
        };
        // Our own number on a leftover was that of somebody before us: we have just started.
        if pid != own_pid && is_alive(pid) {
            continue;
        }
        let path = dir.join(name::of_step(step));
        if what == Use::Old && fs::symlink_metadata(&path).is_err() {
            let _ = disk.rename(&entry.path(), &path);
        } else {
            let _ = disk.remove(&entry.path());
        }
    }
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // Of a process that we may not signal we know at least that it is there.
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}
