//! What another process of ours is doing, as far as the kernel tells.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Threads whose state is shown.
const THREADS_MAX: usize = 64;

/// Characters of a kernel stack that are shown per thread.
const STACK_CHARS_MAX: usize = 2_000;

/// Unit of processor times in `/proc`, per second: fixed for programs, whatever the kernel uses.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time that a process has used, in seconds; `None` when it is gone.
#[must_use]
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    cpu_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn cpu_in(stat: &str) -> Option<f64> {
    // The name in parentheses may hold anything; fields are counted behind it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

/// Name, state, wait channel, system call and (with the rights for it) kernel stack of each thread
/// of a process, one block per thread. Empty when the process is gone.
#[must_use]
pub fn thread_states(pid: u32) -> String {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return String::new();
    };
    let mut text = String::new();
    for task in tasks.flatten().take(THREADS_MAX) {
        describe(&task.path(), &mut text);
    }
    text
}

fn describe(task: &Path, text: &mut String) {
    let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
    let state = read("status")
        .lines()
        .find_map(|line| {
            line.strip_prefix("State:")
                .map(|state| state.trim().to_string())
        })
        .unwrap_or_default();
    let id = task.file_name().unwrap_or_default().to_string_lossy();
    // Writing to a string cannot fail.
    let _ = write!(text, "thread {id} ({}): {state}", read("comm").trim());
    for (label, name) in [("waits in", "wchan"), ("system call", "syscall")] {
        let value = read(name);
        let value = value.trim();
        if !value.is_empty() && value != "0" {
            let _ = write!(text, "; {label} {value}");
        }
    }
    text.push('\n');
    let stack: String = read("stack").chars().take(STACK_CHARS_MAX).collect();
    for line in stack.lines() {
        let _ = writeln!(text, "    {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "12 (a) b (c)) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 0 0 0";
        assert!((cpu_in(stat).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(cpu_in(""), None);
        assert!(cpu_seconds(std::process::id()).is_some());
    }

    #[test]
    fn our_own_threads_are_seen() {
        let text = thread_states(std::process::id());
        assert!(text.contains("thread ") && text.contains("): "), "{text}");
        assert_eq!(thread_states(u32::MAX), "");
    }
}
