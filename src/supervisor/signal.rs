//! Signals that ask a run to leave.

use std::fs;
use std::sync::mpsc::SyncSender;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use super::input::Input;

/// Listens until dropped.
pub(super) struct Listening {
    handle: Option<Handle>,
}

impl Listening {
    /// Sends an input for each signal that asks to leave. A hangup (the terminal is gone) counts,
    /// unless the process was told to ignore it (`nohup`).
    pub(super) fn start(inputs: &SyncSender<Input>) -> Self {
        let inputs = inputs.clone();
        on_signal(move |name| inputs.send(Input::Signal(name)).is_ok())
    }
}

/// Calls `heard` with the name of each signal that asks to leave, until it returns false or the result
/// is dropped.
pub(super) fn on_signal(heard: impl Fn(&'static str) -> bool + Send + 'static) -> Listening {
    let mut wanted = vec![SIGINT, SIGTERM];
    if !is_ignored(SIGHUP) {
        wanted.push(SIGHUP);
    }
    let Ok(mut signals) = Signals::new(&wanted) else {
        // The signals then end the process, and its workers with it: nothing is corrupted.
        return Listening { handle: None };
    };
    let handle = signals.handle();
    let thread = thread::Builder::new()
        .name("signals".to_string())
        .spawn(move || {
            for signal in signals.forever() {
                let name = match signal {
                    SIGINT => "SIGINT",
                    SIGTERM => "SIGTERM",
                    _ => "SIGHUP",
                };
                if !heard(name) {
                    return;
                }
            }
        });
    Listening {
        handle: thread.is_ok().then_some(handle),
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.close();
        }
    }
}

/// Whether this process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_in(&status).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn ignored_in(status: &str) -> Option<u64> {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        assert_eq!(
            ignored_in("SigBlk:\t0\nSigIgn:\t0000000000001001\n"),
            Some(0x1001)
        );
        assert_eq!(ignored_in("nothing"), None);
        assert!(!is_ignored(SIGTERM));
    }
}
