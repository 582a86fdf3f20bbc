//! The files of a run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RunId;

/// The directory of one run and the names inside it. Nothing in it holds an absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    root: PathBuf,
}

/// What `run.json` holds; written once, when the directory is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunIdentity {
    /// Version of the directory layout.
    pub format: u32,
    /// Identity.
    pub id: RunId,
    /// Name with short id.
    pub name: String,
    /// When it was made, milliseconds since 1970.
    pub created_ms: u64,
}

impl RunDir {
    /// A run directory at `root`, whether it exists or not.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Identity, written once.
    #[must_use]
    pub fn identity(&self) -> PathBuf {
        self.root.join("run.json")
    }

    /// Resolved config: what the run does.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// The config as the user wrote it.
    #[must_use]
    pub fn config_source(&self) -> PathBuf {
        self.root.join("config.source.toml")
    }

    /// The journal: the truth.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.root.join("events.jsonl")
    }

    /// Cached summary.
    #[must_use]
    pub fn summary(&self) -> PathBuf {
        self.root.join("summary.json")
    }

    /// Index over the journal (sled); may be deleted at any time.
    #[must_use]
    pub fn index(&self) -> PathBuf {
        self.root.join("index")
    }

    /// Checkpoints.
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// What was computed from the training split (vocabularies, means), once for all attempts.
    #[must_use]
    pub fn prepared(&self) -> PathBuf {
        self.root.join("prepared.json")
    }

    /// Output of the workers.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Output of one worker.
    #[must_use]
    pub fn worker_log(&self, rank: super::Rank) -> PathBuf {
        self.logs().join(format!("rank-{rank}.log"))
    }

    /// Locked by the supervisor as long as it lives.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Where the supervisor listens.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        self.root.join("control.sock")
    }
}
