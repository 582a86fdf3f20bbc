//! Panics become faults. They are mistakes of this program, but a user still needs to know where.

use std::backtrace::Backtrace;
use std::io::Write;
use std::panic;
use std::sync::{Mutex, PoisonError};

use crate::run::Fault;

/// The first panic of this process, in words.
static FIRST: Mutex<Option<String>> = Mutex::new(None);

/// Writes every panic with its backtrace to standard error (the worker's log) and keeps the first.
pub(super) fn install() {
    panic::set_hook(Box::new(|info| {
        let text = info
            .payload()
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| info.payload().downcast_ref::<&str>().copied())
            .unwrap_or("a panic without words");
        let place = info
            .location()
            .map_or_else(|| "an unknown place".to_string(), ToString::to_string);
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        let words = format!("`{text}` at {place} in thread `{thread}`");
        let backtrace = Backtrace::force_capture();
        let _ = writeln!(std::io::stderr(), "panic: {words}\n{backtrace}");
        let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(words);
    }));
}

/// The fault of a panic that was caught.
pub(super) fn fault() -> Fault {
    let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    let words = first.as_deref().unwrap_or("a panic without words");
    Fault::internal(format!("the worker panicked: {words}")).advise(
        "this is a mistake of trainer, please report it; the backtrace is in the run's \
         logs/rank-0.log, and `trainer resume` continues from the newest checkpoint",
    )
}
