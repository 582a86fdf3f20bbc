//! What went wrong, where, and what to do: the one shape of every failure a user sees.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::{Rank, SampleId, Step};
use crate::config::Diagnostics;

/// Kind of a fault; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
    /// The command line or the config is wrong.
    Usage,
    /// The machine lacks something: a device, disk space, a permission, a library.
    Machine,
    /// Training itself failed: a non-finite loss, a threshold with action `stop`.
    Training,
    /// Workers kept dying.
    Workers,
    /// Data or a checkpoint is damaged.
    Damaged,
    /// A mistake of this program.
    Internal,
}

impl FaultClass {
    /// The process exit code of this class.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            FaultClass::Internal => 1,
            FaultClass::Usage => 2,
            FaultClass::Machine => 3,
            FaultClass::Training => 4,
            FaultClass::Workers => 5,
            FaultClass::Damaged => 6,
        }
    }

    /// The class with an exit code; `Internal` for codes that no class has.
    #[must_use]
    pub fn of_code(code: u8) -> Self {
        let classes = [
            FaultClass::Usage,
            FaultClass::Machine,
            FaultClass::Training,
            FaultClass::Workers,
            FaultClass::Damaged,
        ];
        let mut classes = classes.into_iter();
        classes
            .find(|class| class.code() == code)
            .unwrap_or(FaultClass::Internal)
    }

    /// Whether what was given is at fault: config, data or checkpoint. Before training has begun,
    /// such a fault leaves nothing worth keeping.
    #[must_use]
    pub fn is_of_input(self) -> bool {
        matches!(self, FaultClass::Usage | FaultClass::Damaged)
    }

    /// As the standard library takes it.
    #[must_use]
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

/// One failure with all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Kind.
    pub class: FaultClass,
    /// What happened, in one sentence without a full stop. May hold several lines when it quotes a
    /// config.
    pub message: String,
    /// Worker it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<Rank>,
    /// Step it happened at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// Layer or parameter it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// Samples that were being worked on, at most [`SAMPLES_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<SampleId>,
    /// What to do, in one sentence without a full stop; empty when there is nothing to add.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
}

impl From<Diagnostics> for Fault {
    fn from(faults: Diagnostics) -> Self {
        Self::usage(format!("{}\n\n{}", faults.headline(), faults.render(false)))
    }
}

/// Most sample ids that a fault names.
pub(super) const SAMPLES_MAX: usize = 16;

impl Fault {
    /// A fault of a class with a message.
    #[must_use]
    pub fn new(class: FaultClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            rank: None,
            step: None,
            layer: None,
            samples: Vec::new(),
            advice: String::new(),
        }
    }

    /// Wrong command line or config.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(FaultClass::Usage, message)
    }

    /// Something the machine lacks.
    #[must_use]
    pub fn machine(message: impl Into<String>) -> Self {
        Self::new(FaultClass::Machine, message)
    }

    /// Training failed.
    #[must_use]
    pub fn training(message: impl Into<String>) -> Self {
        Self::new(FaultClass::Training, message)
    }

    /// Damaged data or checkpoint.
    #[must_use]
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(FaultClass::Damaged, message)
    }

    /// A mistake of this program.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(FaultClass::Internal, message)
    }

    /// An input or output error on a file, with what was being done: `"write"`, `"open"`…
    #[must_use]
    pub fn io(doing: &str, path: &std::path::Path, error: &io::Error) -> Self {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => "check the path; relative paths start at the current folder",
            io::ErrorKind::PermissionDenied => "check the permissions of the file and its folder",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some disk space, then continue with `trainer resume`"
            }
            _ => "",
        };
        let class = match error.kind() {
            io::ErrorKind::NotFound => FaultClass::Usage,
            _ => FaultClass::Machine,
        };
        Self::new(class, format!("cannot {doing} {}: {error}", path.display())).advise(advice)
    }

    /// With what to do about it.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// At a step.
    #[must_use]
    pub fn at(mut self, step: Step) -> Self {
        self.step = Some(step);
        self
    }

    /// In a layer or parameter.
    #[must_use]
    pub fn in_layer(mut self, layer: impl Into<String>) -> Self {
        self.layer = Some(layer.into());
        self
    }

    /// While working on these samples; keeps the first [`SAMPLES_MAX`].
    #[must_use]
    pub fn on_samples(mut self, samples: &[SampleId]) -> Self {
        self.samples = samples.iter().copied().take(SAMPLES_MAX).collect();
        self
    }

    /// The text a user sees, several lines, without colour.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = format!("error: {}\n", self.message);
        let mut place = Vec::new();
        if let Some(rank) = self.rank {
            place.push(format!("rank {rank}"));
        }
        if let Some(step) = self.step {
            place.push(format!("step {step}"));
        }
        if let Some(layer) = &self.layer {
            place.push(format!("layer {layer}"));
        }
        if !self.samples.is_empty() {
            let ids: Vec<String> = self.samples.iter().map(ToString::to_string).collect();
            place.push(format!("samples {}", ids.join(", ")));
        }
        if !place.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  where: {}", place.join(", "));
        }
        if !self.advice.is_empty() {
            let _ = writeln!(text, "  help: {}", self.advice);
        }
        text
    }

    /// Writes [`Fault::render`] to `out`; a broken pipe is nobody's concern any more.
    pub fn show(&self, out: &mut dyn io::Write) {
        let _ = out.write_all(self.render().as_bytes());
    }
}
