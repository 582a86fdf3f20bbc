//! Everything about the machine that explains a difference between two runs.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, setpriority_process};
use sha2::{Digest, Sha256};

use super::{cpu, git, gpu, variable};
use crate::run::Environment;

/// Longest time that git may take.
const GIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Priority of work that nobody waits for; 19 is the lowest there is.
const LOW_PRIORITY: i32 = 15;

/// What the probe cannot find out by itself.
#[derive(Clone, Debug, Default)]
pub struct ProbeOptions {
    /// Backend that computes.
    pub backend: String,
    /// Compute threads of a worker.
    pub threads: u32,
}

/// Looks at machine and program. Calls `progress` with what is known after each slow part, so that a
/// caller who runs out of patience has something. Takes up to seconds (hash of the executable, git,
/// GPU library): not for the path to the first step.
pub fn probe(options: &ProbeOptions, mut progress: impl FnMut(&Environment)) -> Environment {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let system = rustix::system::uname();
    let (cpu, cpu_features) = cpu::describe(&read("/proc/cpuinfo"));
    let folder = std::env::current_dir().unwrap_or_default();
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut environment = Environment {
        trainer_version: env!("CARGO_PKG_VERSION").to_string(),
        hostname: system.nodename().to_string_lossy().into_owned(),
        os: format!(
            "{}, {} {}",
            distribution(&read("/etc/os-release")),
            system.sysname().to_string_lossy(),
            system.release().to_string_lossy()
        ),
        cpu,
        cpu_features,
        cpu_count: cpu::cores(),
        memory_bytes: cpu::memory_bytes(&read("/proc/meminfo")),
        backend: options.backend.clone(),
        threads: options.threads,
        variables: variable::relevant(variables),
        working_folder: folder.to_string_lossy().into_owned(),
        ..Environment::default()
    };
    progress(&environment);
    (environment.git_commit, environment.git_dirty) = git::state(&folder, GIT_TIMEOUT);
    progress(&environment);
    gpu::describe(&mut environment);
    progress(&environment);
    // The file that runs, also when its name means another one by now.
    environment.trainer_sha256 = sha256(Path::new("/proc/self/exe")).unwrap_or_default();
    environment
}

/// Lets other threads of the machine go first: what this thread does is not urgent.
pub fn step_back() {
    // On Linux the priority is one of the thread, found under its own id.
    let id = fs::read_link("/proc/thread-self")
        .ok()
        .and_then(|path| path.file_name()?.to_str()?.parse().ok())
        .and_then(Pid::from_raw);
    if id.is_some() {
        let _ = setpriority_process(id, LOW_PRIORITY);
    }
}

/// The name of the distribution from the text of `/etc/os-release`.
fn distribution(os_release: &str) -> &str {
    os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or("unknown distribution", |name| name.trim_matches('"'))
}

fn sha256(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let count = file.read(&mut buffer).ok()?;
        let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else {
            return Some(format!("{:x}", hash.finalize()));
        };
        hash.update(read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let mut seen = 0;
        let options = ProbeOptions {
            backend: "flex".to_string(),
            threads: 3,
        };
        let environment = probe(&options, |_| seen += 1);
        assert_eq!(seen, 3);
        assert_eq!(environment.threads, 3);
        assert_eq!(environment.trainer_sha256.len(), 64);
        assert!(!environment.hostname.is_empty() && environment.os.contains("Linux"));
        assert!(environment.cpu_count > 0 && environment.memory_bytes > 0);
    }

    #[test]
    fn a_hash_is_the_known_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        fs::write(&path, "abc").unwrap();
        assert_eq!(
            sha256(&path).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(sha256(&folder.path().join("none")), None);
    }

    #[test]
    fn a_distribution_has_a_name() {
        assert_eq!(
            distribution("ID=x\nPRETTY_NAME=\"Some Linux 1\"\n"),
            "Some Linux 1"
        );
        assert_eq!(distribution(""), "unknown distribution");
    }
}
