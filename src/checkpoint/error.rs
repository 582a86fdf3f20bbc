//! What can be wrong with a checkpoint, and with writing one.

use std::io;
use std::path::PathBuf;

use crate::run::{Fault, FaultClass, Step};

/// A checkpoint that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// There is no folder of this name.
    #[error("there is no checkpoint {}", path.display())]
    NotFound {
        /// Path as given.
        path: PathBuf,
    },
    /// The content is not what was written.
    #[error("checkpoint {} is damaged: {file}: {what}", path.display())]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// Step that it says to hold, if its name says one.
        step: Option<Step>,
        /// File in which it was noticed.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// A later version of this program wrote it.
    #[error(
        "checkpoint {} has {what} {found}, and this version reads up to {supported}",
        path.display()
    )]
    Newer {
        /// The folder.
        path: PathBuf,
        /// What has a version: `format` or `state version`.
        what: &'static str,
        /// Version found.
        found: u32,
        /// Newest version known here.
        supported: u32,
    },
    /// The machine did not let us.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done: `"open"`, `"rename"`…
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl CheckpointError {
    /// Whether the content is at fault, so that an older checkpoint should be used instead. A newer
    /// format and a machine that refuses are not: going back there would lose work without need.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, CheckpointError::Damaged { .. })
    }
}

impl From<CheckpointError> for Fault {
    fn from(error: CheckpointError) -> Fault {
        let message = error.to_string();
        match error {
            CheckpointError::NotFound { .. } => Fault::usage(message)
                .advise("`trainer checkpoints <run>` lists the checkpoints of a run"),
            CheckpointError::Damaged { step, .. } => {
                let fault = Fault::damaged(message).advise(
                    "`trainer resume <run>` continues from the newest checkpoint that verifies",
                );
                match step {
                    Some(step) => fault.at(step),
                    None => fault,
                }
            }
            CheckpointError::Newer { .. } => Fault::new(FaultClass::Damaged, message)
                .advise("use the version of trainer that wrote it, or a later one"),
            CheckpointError::Io {
                doing,
                path,
                source,
            } => Fault::io(doing, &path, &source),
        }
    }
}

/// Why a checkpoint was not written. Its text becomes the reason of `CheckpointFailed`.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The disk has no room for it.
    #[error(
        "it needs {needed} bytes and {free} are free in {}; free some disk space",
        path.display()
    )]
    NoSpace {
        /// Bytes it takes.
        needed: u64,
        /// Bytes there are.
        free: u64,
        /// Folder of the checkpoints.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The snapshot contradicts itself: a mistake of this program.
    #[error("the snapshot is not consistent: {0}")]
    Inconsistent(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_say_what_where_and_what_to_do() {
        let fault = Fault::from(CheckpointError::Damaged {
            path: "checkpoints/step-00000012".into(),
            step: Some(Step::new(12)),
            file: "model.safetensors".into(),
            what: "its content does not match its SHA-256".into(),
        });
        assert_eq!(fault.class, FaultClass::Damaged);
        insta::assert_snapshot!(fault.render());
        let fault = Fault::from(CheckpointError::Newer {
            path: "checkpoints/step-00000012".into(),
            what: "format",
            found: 9,
            supported: 1,
        });
        assert_eq!(fault.class, FaultClass::Damaged);
        insta::assert_snapshot!(fault.render());
    }
}
