//! Which run is meant, and how it stands.

use std::path::{Path, PathBuf};

use clap_complete::engine::CompletionCandidate;

use crate::run::{Fault, RunDir, RunSummary};
use crate::store::{self, LATEST, Runs, is_alive, observed};
use crate::ui::RunRow;

/// A run as it stands now.
#[derive(Debug)]
pub(super) struct Standing {
    /// Its files.
    pub(super) run: RunDir,
    /// Whether its supervisor lives.
    pub(super) alive: bool,
    /// Its summary as an onlooker should see it: a run that is journaled as live but has no
    /// supervisor failed.
    pub(super) summary: RunSummary,
}

impl Standing {
    /// Looks at a run.
    ///
    /// # Errors
    ///
    /// When its journal cannot be read.
    pub(super) fn of(run: RunDir) -> Result<Self, Fault> {
        let mut alive = is_alive(&run);
        let mut summary = store::summary(&run)?;
        if summary.state.is_live() && !alive {
            // It may have started, or ended, between the two looks; a second pair tells.
            alive = is_alive(&run);
            summary = store::summary(&run)?;
        }
        Ok(Self {
            summary: observed(summary, alive),
            run,
            alive,
        })
    }

    /// For a table.
    pub(super) fn row(&self) -> RunRow<'_> {
        RunRow {
            summary: &self.summary,
            alive: self.alive,
        }
    }

    /// Finds a run by what was typed, and looks at it.
    ///
    /// # Errors
    ///
    /// When no run or several are meant, or the journal cannot be read.
    pub(super) fn find(runs_dir: &Path, text: &str) -> Result<Self, Fault> {
        Self::of(find(runs_dir, text)?)
    }
}

/// Finds a run by what was typed.
///
/// # Errors
///
/// When no run or several are meant.
pub(super) fn find(runs_dir: &Path, text: &str) -> Result<RunDir, Fault> {
    Ok(Runs::open(runs_dir).find(text)?)
}

/// Names of the runs in `TRAINER_RUNS_DIR`, for completion: directory names only, nothing is opened.
pub(super) fn run_names() -> Vec<CompletionCandidate> {
    let folder = std::env::var_os("TRAINER_RUNS_DIR").map_or_else(|| "runs".into(), PathBuf::from);
    let names = Runs::open(folder).names().unwrap_or_default();
    names
        .into_iter()
        .chain([LATEST.to_string()])
        .map(CompletionCandidate::new)
        .collect()
}
