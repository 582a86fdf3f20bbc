//! What a display knows before the first event.

use std::path::{Path, PathBuf};

use super::RunView;
use super::human::printable;
use crate::run::RunSummary;

/// Where the run comes from that a display will follow.
#[derive(Clone, Debug)]
pub enum Origin {
    /// It is about to be made in this folder of runs.
    New {
        /// Folder that the run directory will be in.
        runs_dir: PathBuf,
    },
    /// It exists.
    Existing {
        /// Its directory.
        directory: PathBuf,
        /// Its record so far.
        summary: Box<RunSummary>,
    },
}

impl Origin {
    /// The view before the first event.
    pub(super) fn view(&self) -> RunView {
        match self {
            Origin::New { .. } => RunView::default(),
            Origin::Existing { summary, .. } => RunView::of(summary),
        }
    }

    /// Directory of the run, once its name is known.
    pub(super) fn directory(&self, name: &str) -> PathBuf {
        match self {
            Origin::New { runs_dir } => runs_dir.join(name),
            Origin::Existing { directory, .. } => directory.clone(),
        }
    }

    /// Whether nothing of the run is kept: it was refused before it had begun.
    pub(super) fn discards(&self, view: &RunView) -> bool {
        matches!(self, Origin::New { .. }) && view.fault_of_input && view.steps_total == 0
    }

    /// The first line: which run, and where.
    pub(super) fn headline(&self, view: &RunView) -> String {
        let directory = self.directory(&view.name).display().to_string();
        let attempt = match view.attempt.get() {
            0 | 1 => String::new(),
            attempt => format!(", attempt {attempt}"),
        };
        let name = printable(&view.name);
        format!("run {name} in {}{attempt}", printable(&directory))
    }

    /// The command that continues the run.
    pub(super) fn resume_command(&self, name: &str) -> String {
        let folder = match self {
            Origin::New { runs_dir } => Some(runs_dir.as_path()),
            Origin::Existing { directory, .. } => directory.parent(),
        };
        match folder {
            Some(folder) if folder != Path::new("runs") && folder != Path::new("") => {
                format!("trainer resume {name} --runs-dir {}", folder.display())
            }
            _ => format!("trainer resume {name}"),
        }
    }
}
