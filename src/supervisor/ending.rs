//! How a worker process ended.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

/// How a worker process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
    /// By the kernel, for want of memory; with what ran out.
    OutOfMemory(String),
    /// Its host is out of reach: nothing that the worker did.
    Lost(String),
    /// Nobody knows.
    Unknown(String),
}

impl Ending {
    /// From what the kernel says; `out_of_memory` is what ran out while the process lived, if
    /// something did.
    pub(crate) fn new(status: ExitStatus, out_of_memory: Option<&'static str>) -> Self {
        match (status.code(), status.signal(), out_of_memory) {
            (_, Some(libc::SIGKILL), Some(what)) => Ending::OutOfMemory(what.to_string()),
            (_, Some(signal), _) => Ending::Signalled(signal),
            (Some(code), None, _) => Ending::Exited(code),
            (None, None, _) => Ending::Unknown(status.to_string()),
        }
    }

    /// Whether it will probably end like this again in the same place. A signal that somebody sent
    /// says nothing about the program; a crash, an exit or lack of memory does.
    pub(crate) fn repeats(&self) -> bool {
        match self {
            Ending::Exited(_) | Ending::OutOfMemory(_) => true,
            Ending::Signalled(signal) => matches!(
                *signal,
                libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGABRT | libc::SIGFPE
            ),
            Ending::Unknown(_) | Ending::Lost(_) => false,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited(code) => write!(f, "exit code {code}"),
            Ending::Signalled(signal) => match name(*signal) {
                Some(name) => write!(f, "signal {signal} ({name})"),
                None => write!(f, "signal {signal}"),
            },
            Ending::OutOfMemory(what) => write!(f, "killed for want of memory: {what}"),
            Ending::Unknown(what) | Ending::Lost(what) => f.write_str(what),
        }
    }
}

fn name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_told_apart() {
        let killed = ExitStatus::from_raw(libc::SIGKILL);
        let crashed = ExitStatus::from_raw(libc::SIGSEGV);
        let left = ExitStatus::from_raw(3 << 8);
        for (ending, text, repeats) in [
            (Ending::new(killed, None), "signal 9 (SIGKILL)", false),
            (
                Ending::new(killed, Some("the machine ran out of memory")),
                "killed for want of memory: the machine ran out of memory",
                true,
            ),
            (Ending::new(crashed, Some("x")), "signal 11 (SIGSEGV)", true),
            (Ending::new(left, None), "exit code 3", true),
        ] {
            assert_eq!(ending.to_string(), text);
            assert_eq!(ending.repeats(), repeats, "{text}");
        }
    }
}
