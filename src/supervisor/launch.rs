//! Starting a worker process.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::SyncSender;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::ending::Ending;
use super::input::Input;
use crate::device::OutOfMemory;
use crate::run::wire::Job;
use crate::run::{RunDir, WORKER_COMMAND};

/// How workers are started; a trait so that tests have workers in threads.
pub(super) trait Launch {
    /// Starts a worker for a job. The job itself travels over the channel.
    fn launch(&mut self, job: &Job) -> io::Result<Launched>;

    /// Where other hosts' wishes go, from now on.
    fn listen(&mut self, _inputs: &SyncSender<Input>) {}

    /// Number of workers that there are places for at the moment, where that can change.
    fn capacity(&self) -> Option<u32> {
        None
    }

    /// The session is over; with the exit code.
    fn finish(&mut self, _code: u8) {}
}

/// A worker that runs.
pub(super) struct Launched {
    /// Process id.
    pub(super) pid: u32,
    /// Our end of the channel.
    pub(super) channel: UnixStream,
    /// Ends the process at once; harmless when it is gone.
    pub(super) kill: Box<dyn Fn() + Send>,
    /// Waits until the process is gone.
    pub(super) wait: Box<dyn FnOnce() -> Ending + Send>,
    /// Writes down what its threads do; none for a process of this host, which is looked at directly.
    pub(super) examine: Option<Box<dyn Fn() + Send>>,
}

/// Starts this executable again as a worker.
#[derive(Debug)]
pub(super) struct Processes;

impl Launch for Processes {
    /// The worker inherits the channel as its standard input; its output goes to its log. It has a
    /// process group of its own, so that Ctrl-C reaches the supervisor alone. Must be called from a
    /// thread that lives as long as the worker should: the worker dies with it.
    fn launch(&mut self, job: &Job) -> io::Result<Launched> {
        let dir = RunDir::new(&job.run_dir);
        fs::create_dir_all(dir.logs())?;
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.worker_log(job.rank))?;
        writeln!(log, "--- attempt {} ---", job.attempt)?;
        let (channel, theirs) = UnixStream::pair()?;
        let before = OutOfMemory::read();
        let mut command = Command::new(executable());
        if let Some(device) = job.device.as_ref().filter(|name| is_gpu(name)) {
            // The only one that the worker sees, whatever else the machine has.
            command.env("CUDA_VISIBLE_DEVICES", device);
        }
        let mut child = command
            .arg(WORKER_COMMAND)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let pid = child.id();
        Ok(Launched {
            pid,
            channel,
            kill: killer(pid),
            wait: Box::new(move || match child.wait() {
                Ok(status) => Ending::new(status, OutOfMemory::read().since(&before)),
                Err(error) => Ending::Unknown(format!("unknown end: {error}")),
            }),
            examine: None,
        })
    }
}

/// Whether a device is called as NVIDIA calls a GPU or a part of one.
fn is_gpu(name: &str) -> bool {
    name.starts_with("GPU-") || name.starts_with("MIG-")
}

/// The very file that runs, by its name if it still has it: that is what other processes see.
fn executable() -> PathBuf {
    const RUNNING: &str = "/proc/self/exe";
    let inode = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    std::env::current_exe()
        .ok()
        .filter(|path| inode(path).is_some() && inode(path) == inode(Path::new(RUNNING)))
        .unwrap_or_else(|| PathBuf::from(RUNNING))
}

/// Kills by a handle that cannot mean another process later; old kernels have only the number.
fn killer(pid: u32) -> Box<dyn Fn() + Send> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Box::new(|| {});
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Box::new(move || {
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }),
        Err(_) => Box::new(move || {
            let _ = kill_process(pid, Signal::KILL);
        }),
    }
}
