//! Memory that a process used, and memory that ran out.

use std::fs;
use std::path::{Path, PathBuf};

/// Counts of kills for lack of memory, as the kernel keeps them. Two readings, before and after a
/// process died, tell whether it may have been killed for memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Kills in our control group and below.
    group: u64,
    /// Kills on the whole machine.
    machine: u64,
}

impl OutOfMemory {
    /// Reads the counters; zeros where there are none.
    #[must_use]
    pub fn read() -> Self {
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let group = event_files(&membership)
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok())
            .find_map(|text| counter(&text))
            .unwrap_or(0);
        let machine = fs::read_to_string("/proc/vmstat")
            .ok()
            .and_then(|text| counter(&text))
            .unwrap_or(0);
        Self { group, machine }
    }

    /// Who killed for memory since `before`, in words; `None` when nobody did.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<&'static str> {
        if self.group > before.group {
            Some("the memory limit of its control group (container) was reached")
        } else if self.machine > before.machine {
            Some("the machine ran out of memory")
        } else {
            None
        }
    }
}

/// Files with the counter of a process's control group, versions 2 and 1, by `/proc/self/cgroup`.
fn event_files(membership: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    membership
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let path = path.trim_start_matches('/');
            if controllers.is_empty() {
                Some(root.join(path).join("memory.events"))
            } else if controllers.split(',').any(|name| name == "memory") {
                Some(root.join("memory").join(path).join("memory.oom_control"))
            } else {
                None
            }
        })
        .collect()
}

/// The number after `oom_kill`.
fn counter(text: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == "oom_kill").then(|| value.trim().parse().ok())?
    })
}

/// Most memory that a process has held at once, in bytes; `None` when it is gone.
#[must_use]
pub fn peak_bytes(pid: u32) -> Option<u64> {
    peak_in(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn peak_in(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_in_both_versions() {
        assert_eq!(
            counter("low 0\noom 3\noom_kill 2\noom_group_kill 0\n"),
            Some(2)
        );
        assert_eq!(
            counter("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"),
            Some(7)
        );
        assert_eq!(counter(""), None);
        assert_eq!(
            event_files("0::/user.slice/a.scope\n"),
            [Path::new("/sys/fs/cgroup/user.slice/a.scope/memory.events")]
        );
        assert_eq!(
            event_files("9:cpu,cpuacct:/x\n4:memory:/docker/1\n"),
            [Path::new(
                "/sys/fs/cgroup/memory/docker/1/memory.oom_control"
            )]
        );
    }

    #[test]
    fn the_nearer_cause_is_named() {
        let before = OutOfMemory::default();
        let both = OutOfMemory {
            group: 1,
            machine: 1,
        };
        let other = OutOfMemory {
            group: 0,
            machine: 1,
        };
        assert!(both.since(&before).unwrap().contains("control group"));
        assert!(other.since(&before).unwrap().contains("machine"));
        assert_eq!(before.since(&before), None);
    }

    #[test]
    fn peak_memory_of_this_process_is_known() {
        assert!(peak_bytes(std::process::id()).unwrap() > 100_000);
        assert_eq!(peak_in("VmHWM:\t     512 kB\n"), Some(512 * 1024));
        assert_eq!(peak_in("VmRSS: 1 kB\n"), None);
    }
}
