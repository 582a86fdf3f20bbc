//! A folder of runs: listing them, finding one by what a user types.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rayon::prelude::*;

use super::summary::{Source, observed, summary_from};
use super::{StoreError, file, is_alive};
use crate::run::{RunDir, RunId, RunIdentity, RunSummary};

/// Version of the directory layout.
pub const DIRECTORY_FORMAT: u32 = 1;

/// Name that stands for the run made last.
pub const LATEST: &str = "latest";

/// A folder of run directories.
#[derive(Clone, Debug)]
pub struct Runs {
    folder: PathBuf,
}

/// One run of a list.
#[derive(Debug)]
pub struct Listed {
    /// Directory name.
    pub name: String,
    /// Its files.
    pub dir: RunDir,
    /// Whether a supervisor works on it.
    pub alive: bool,
    /// Summary as an onlooker should see it.
    pub summary: Result<RunSummary, StoreError>,
    /// Where the summary came from.
    pub source: Option<Source>,
}

impl Runs {
    /// The runs of a folder, which need not exist.
    #[must_use]
    pub fn open(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names of all runs, sorted. Looks at directory names only; nothing is opened.
    ///
    /// # Errors
    ///
    /// When the folder exists and cannot be read.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io("read", &self.folder)(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(StoreError::io("read", &self.folder))?;
            if let Ok(name) = entry.file_name().into_string()
                && !name.starts_with('.')
                && entry.path().join("run.json").is_file()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// All runs with their summaries, oldest first. A run that cannot be read is listed with why.
    ///
    /// # Errors
    ///
    /// When the folder exists and cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let mut runs: Vec<Listed> = self
            .names()?
            // Journals without a fresh summary are read whole: worth all cores.
            .into_par_iter()
            .map(|name| self.look(name))
            .collect();
        runs.sort_by_cached_key(|run| match &run.summary {
            Ok(summary) => (summary.created_ms, run.name.clone()),
            Err(_) => (0, run.name.clone()),
        });
        Ok(runs)
    }

    fn look(&self, name: String) -> Listed {
        let dir = RunDir::new(self.folder.join(&name));
        let (mut alive, mut source) = (false, None);
        let summary = summary_from(&dir).map(|(summary, from)| {
            source = Some(from);
            // An ended run has no supervisor, or one that is about to leave: not worth a look.
            alive = summary.state.is_live() && is_alive(&dir);
            observed(summary, alive)
        });
        Listed {
            name,
            dir,
            alive,
            summary,
            source,
        }
    }

    /// The run that `text` means: `latest`, a directory that holds a run, a full name, an id, a short
    /// id, or the beginning of any of these if only one run fits.
    ///
    /// # Errors
    ///
    /// When none or several fit.
    pub fn find(&self, text: &str) -> Result<RunDir, StoreError> {
        if text == LATEST {
            return self.latest();
        }
        let as_path = Path::new(text);
        if as_path.join("run.json").is_file() {
            return Ok(RunDir::new(as_path));
        }
        let names = self.names()?;
        if names.iter().any(|name| name == text) {
            return Ok(self.dir(text));
        }
        let fitting: Vec<String> = if text.is_empty() {
            Vec::new()
        } else {
            names
                .iter()
                .filter(|name| name.starts_with(text) || short_id(name).starts_with(text))
                .cloned()
                .collect()
        };
        let fitting = if fitting.is_empty() && looks_like_id(text) {
            self.by_id(&names, text)
        } else {
            fitting
        };
        match fitting.as_slice() {
            [name] => Ok(self.dir(name)),
            [] => Err(StoreError::NotFound {
                name: text.to_string(),
                folder: self.folder.clone(),
                nearest: nearest(&names, text),
            }),
            _ => Err(StoreError::Ambiguous {
                name: text.to_string(),
                candidates: fitting,
            }),
        }
    }

    /// Names that begin with `text`, for completion.
    #[must_use]
    pub fn complete(&self, text: &str) -> Vec<String> {
        let mut names = self.names().unwrap_or_default();
        names.retain(|name| name.starts_with(text));
        names
    }

    fn dir(&self, name: &str) -> RunDir {
        RunDir::new(self.folder.join(name))
    }

    fn by_id(&self, names: &[String], text: &str) -> Vec<String> {
        let wanted = text.to_ascii_lowercase();
        names
            .iter()
            .filter(|name| {
                identity(&self.dir(name))
                    .is_ok_and(|identity| identity.id.to_string().starts_with(&wanted))
            })
            .cloned()
            .collect()
    }

    /// The run made last: ids are ordered by time.
    fn latest(&self) -> Result<RunDir, StoreError> {
        let newest = self
            .names()?
            .into_iter()
            .filter_map(|name| {
                let identity = identity(&self.dir(&name)).ok()?;
                Some((identity.created_ms, identity.id, name))
            })
            .max();
        match newest {
            Some((_, _, name)) => Ok(self.dir(&name)),
            None => Err(StoreError::NotFound {
                name: LATEST.to_string(),
                folder: self.folder.clone(),
                nearest: None,
            }),
        }
    }
}

/// Reads `run.json`.
///
/// # Errors
///
/// When the directory holds no run, or one of a newer version.
pub fn identity(dir: &RunDir) -> Result<RunIdentity, StoreError> {
    let path = dir.identity();
    let content = file::read_small(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreError::NotARun {
            path: dir.root().to_path_buf(),
            missing: "run.json",
        },
        _ => StoreError::io("read", &path)(error),
    })?;
    let identity: RunIdentity =
        serde_json::from_slice(&content).map_err(|error| StoreError::Damaged {
            path: path.clone(),
            what: error.to_string(),
        })?;
    if identity.format > DIRECTORY_FORMAT {
        return Err(StoreError::Newer {
            path,
            found: identity.format,
            known: DIRECTORY_FORMAT,
        });
    }
    Ok(identity)
}

/// Name of a run for messages.
pub(crate) fn shown_name(dir: &RunDir) -> String {
    let name = dir.root().file_name().unwrap_or(dir.root().as_os_str());
    name.to_string_lossy().into_owned()
}

/// What follows the last dash of a directory name.
fn short_id(name: &str) -> &str {
    name.rsplit_once('-').map_or("", |(_, id)| id)
}

fn looks_like_id(text: &str) -> bool {
    RunId::from_str(text).is_ok()
        || (text.len() >= 4 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'))
}

/// The most similar name, if it is similar at all.
fn nearest(names: &[String], text: &str) -> Option<String> {
    names
        .iter()
        .map(|name| {
            let stem = name
                .rsplit_once('-')
                .map_or(name.as_str(), |(stem, _)| stem);
            // A prefix may have been meant.
            let end = stem.floor_char_boundary(text.len());
            let score = [name.as_str(), stem, &stem[..end]]
                .map(|candidate| strsim::jaro_winkler(candidate, text));
            (score.into_iter().fold(0.0, f64::max), name)
        })
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.clone())
}

#[cfg(test)]
#[path = "runs/tests.rs"]
mod tests;
