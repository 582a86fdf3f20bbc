//! What can go wrong with the record of a run.

use std::io;
use std::path::{Path, PathBuf};

use crate::run::{Fault, FaultClass};

/// A record that cannot be read, written or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Reading or writing failed.
    #[error("cannot {doing} {}: {error}", path.display())]
    Io {
        /// `read`, `write`, …
        doing: &'static str,
        /// File or folder.
        path: PathBuf,
        /// Cause.
        #[source]
        error: io::Error,
    },
    /// A folder that holds no run.
    #[error("{} is not a run directory: it has no {missing}", path.display())]
    NotARun {
        /// Folder.
        path: PathBuf,
        /// File that a run has.
        missing: &'static str,
    },
    /// A file whose content is not what it must be.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// File.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A record written by a newer version of this program.
    #[error("{} has format {found}; this version knows formats up to {known}", path.display())]
    Newer {
        /// File.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// Newest known format.
        known: u32,
    },
    /// No run goes by this name.
    #[error("there is no run `{name}` in {}", folder.display())]
    NotFound {
        /// What was asked for.
        name: String,
        /// Where was looked.
        folder: PathBuf,
        /// A run with a similar name.
        nearest: Option<String>,
    },
    /// Several runs go by this name.
    #[error("`{name}` fits {} runs: {}", candidates.len(), shown(candidates))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Names that fit.
        candidates: Vec<String>,
    },
    /// A supervisor works on the run.
    #[error("run `{name}` is alive: another process works on it")]
    Alive {
        /// Name of the run.
        name: String,
    },
}

/// Most candidates that an ambiguous name lists: an error fits on one screen.
const CANDIDATES_SHOWN: usize = 10;

fn shown(candidates: &[String]) -> String {
    let mut text = candidates
        .iter()
        .take(CANDIDATES_SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if candidates.len() > CANDIDATES_SHOWN {
        text.push_str(", …");
    }
    text
}

impl StoreError {
    /// Wraps an input or output error; for `map_err`.
    pub(crate) fn io<'a>(
        doing: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> StoreError + 'a {
        move |error| StoreError::Io {
            doing,
            path: path.to_path_buf(),
            error,
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        let text = error.to_string();
        match error {
            StoreError::Io { doing, path, error } => Fault::io(doing, &path, &error),
            StoreError::NotARun { .. } => {
                Fault::usage(text).advise("`trainer ls` lists the runs of a folder")
            }
            StoreError::Damaged { .. } => Fault::new(FaultClass::Damaged, text)
                .advise("restore the file from a copy, or start a new run"),
            StoreError::Newer { .. } => {
                Fault::machine(text).advise("use the version of trainer that wrote it")
            }
            StoreError::NotFound { nearest, .. } => Fault::usage(text).advise(match nearest {
                Some(name) => format!("did you mean `{name}`? `trainer ls` lists all"),
                None => {
                    "`trainer ls` lists the runs; `--runs-dir` looks in another folder".to_string()
                }
            }),
            StoreError::Ambiguous { .. } => {
                Fault::usage(text).advise("give more of the name, or the short id at its end")
            }
            StoreError::Alive { .. } => {
                Fault::usage(text).advise("pause it first with `trainer pause`")
            }
        }
    }
}
