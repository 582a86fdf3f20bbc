//! How a command ended.

use std::io;
use std::process::ExitCode;

use crate::run::{Fault, FaultClass};

/// A command that ended without a fault to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did what was asked.
    Done,
    /// It did not, and has said why.
    Shown(FaultClass),
}

impl Outcome {
    /// The exit code of the process.
    #[must_use]
    pub fn exit_code(self) -> ExitCode {
        match self {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::Shown(class) => class.exit_code(),
        }
    }
}

/// Why a command stopped early.
#[derive(Debug)]
pub(super) enum Stop {
    /// Something is wrong.
    Fault(Fault),
    /// Nobody reads the output any more (`trainer metrics | head`): a normal end.
    PipeClosed,
}

/// What a command gives back.
pub(super) type CommandResult = Result<Outcome, Stop>;

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

/// An error of writing to standard output; no other input or output ends up here.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Stop::PipeClosed
        } else {
            Stop::Fault(
                Fault::machine(format!("cannot write to standard output: {error}"))
                    .advise("check where the output is redirected to"),
            )
        }
    }
}
