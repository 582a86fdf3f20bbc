//! Names of folders below `checkpoints/`, and what they say.
//!
//! | name | what it is |
//! | --- | --- |
//! | `step-00001234` | a checkpoint, whole |
//! | `.tmp-step-00001234-4711` | being written by process 4711 |
//! | `.old-step-00001234-4711` | the former content of a step that process 4711 is replacing |
//! | `.trash-step-00001234-4711` | being removed by process 4711 |
//! | `rejected-step-00001234` | did not verify; kept for a person to look at |
//! | `superseded-step-00001234` | of a history that a resume from an earlier step has left |

use std::path::Path;

use crate::run::Step;

/// What a name that starts with a dot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Being written.
    Temporary,
    /// Former content of a step, until the new content is in place.
    Old,
    /// Being removed.
    Trash,
}

impl Use {
    const ALL: [Use; 3] = [Use::Temporary, Use::Old, Use::Trash];

    const fn prefix(self) -> &'static str {
        match self {
            Use::Temporary => ".tmp-",
            Use::Old => ".old-",
            Use::Trash => ".trash-",
        }
    }
}

/// Directory name of a checkpoint.
pub(super) fn of_step(step: Step) -> String {
    format!("step-{:08}", step.get())
}

/// The step of a directory name; `None` for a name that [`of_step`] does not give.
pub(super) fn step(name: &str) -> Option<Step> {
    let digits = name.strip_prefix("step-")?;
    let step = Step::new(digits.parse().ok()?);
    (of_step(step) == name).then_some(step)
}

/// The step that the last part of a path names, if any.
pub(super) fn step_of_path(path: &Path) -> Option<Step> {
    step(path.file_name()?.to_str()?)
}

/// Name of a folder that process `pid` uses for the checkpoint of a step.
pub(super) fn hidden(what: Use, step: Step, pid: u32) -> String {
    format!("{}{}-{pid}", what.prefix(), of_step(step))
}

/// Reads a name back that [`hidden`] gave; `None` for any other name.
pub(super) fn parse_hidden(name: &str) -> Option<(Use, Step, u32)> {
    Use::ALL.into_iter().find_map(|what| {
        let (directory, pid) = name.strip_prefix(what.prefix())?.rsplit_once('-')?;
        let (step, pid) = (step(directory)?, pid.parse().ok()?);
        (hidden(what, step, pid) == name).then_some((what, step, pid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_exactly() {
        for number in [0, 1234, 99_999_999, 100_000_000, u64::MAX] {
            let number = Step::new(number);
            assert_eq!(step(&of_step(number)), Some(number));
            for what in Use::ALL {
                let name = hidden(what, number, 4711);
                assert_eq!(parse_hidden(&name), Some((what, number, 4711)));
            }
        }
        assert_eq!(of_step(Step::new(1234)), "step-00001234");
    }

    #[test]
    fn other_names_are_nobodys() {
        for name in [
            "step-1234",
            "step-000001234",
            "step-+0001234",
            "step-0000123x",
            "step-99999999999999999999",
            "rejected-step-00001234",
            "step-00001234 ",
            "",
        ] {
            assert_eq!(step(name), None, "{name}");
        }
        for name in [
            ".tmp-step-00001234",
            ".tmp-step-00001234-",
            ".tmp-step-00001234-x",
            ".tmp-step-00001234-007",
            ".tmp-step-1234-7",
            ".tmpstep-00001234-7",
            ".trash-notes-7",
            ".git",
        ] {
            assert_eq!(parse_hidden(name), None, "{name}");
        }
    }
}
