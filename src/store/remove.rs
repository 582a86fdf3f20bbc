//! Removing a run with all its files.

use std::ffi::OsString;
use std::fs;

use crate::run::{Fault, RunDir};

/// Removes a run, whose lock the caller holds. Renames first: a run is there whole, or not at all,
/// also when removing takes long and is cut off.
///
/// # Errors
///
/// When the folder of runs may not be changed.
pub fn remove(run: &RunDir) -> Result<(), Fault> {
    let root = run.root();
    let mut hidden = OsString::from(".removed-");
    hidden.push(root.file_name().unwrap_or(root.as_os_str()));
    let hidden = root.with_file_name(hidden);
    fs::rename(root, &hidden).map_err(|error| Fault::io("remove", root, &error))?;
    fs::remove_dir_all(&hidden).map_err(|error| Fault::io("remove", &hidden, &error))
}
