//! Which display follows a run that this process supervises, and how the command ends.

use std::io::{self, IsTerminal};

use crate::run::Reader;
use crate::supervisor::Finished;
use crate::ui::{Json, Origin, Plain, Progress, Quiet};

use super::outcome::{CommandResult, Outcome};

/// Displays as the supervisor takes them.
pub(super) type Readers = Vec<Box<dyn Reader + Send>>;

/// What follows a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Display {
    /// Event lines for programs, on standard output.
    Json,
    /// The full display, on standard error, which is a terminal.
    Progress,
    /// A line now and then, on standard output.
    Plain,
    /// Nothing.
    Quiet,
}

impl Display {
    /// From what was typed, and whether a person looks.
    pub(super) fn choose(json: bool, quiet: bool) -> Self {
        Self::decide(json, quiet, io::stderr().is_terminal())
    }

    fn decide(json: bool, quiet: bool, terminal: bool) -> Self {
        match (json, quiet, terminal) {
            (true, _, _) => Display::Json,
            (false, true, _) => Display::Quiet,
            (false, false, true) => Display::Progress,
            (false, false, false) => Display::Plain,
        }
    }

    /// The display itself.
    pub(super) fn readers(self, origin: Origin) -> Readers {
        vec![match self {
            Display::Json => Box::new(Json::new(Box::new(io::stdout()), origin)),
            Display::Progress => Box::new(Progress::stderr(origin)),
            Display::Plain => Box::new(Plain::new(Box::new(io::stdout()), origin)),
            Display::Quiet => Box::new(Quiet),
        }]
    }

    /// The end of the command. A fault goes to standard error, where the full display has shown it
    /// already.
    pub(super) fn end(self, finished: Finished) -> CommandResult {
        match (finished.fault, self) {
            (None, _) => Ok(Outcome::Done),
            (Some(fault), Display::Progress) => Ok(Outcome::Shown(fault.class)),
            (Some(fault), _) => Err(fault.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_goes_before_what_there_is() {
        for (json, quiet, terminal, expected) in [
            (true, false, true, Display::Json),
            (true, true, false, Display::Json),
            (false, true, true, Display::Quiet),
            (false, false, true, Display::Progress),
            (false, false, false, Display::Plain),
        ] {
            assert_eq!(Display::decide(json, quiet, terminal), expected);
        }
    }
}
