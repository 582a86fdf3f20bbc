//! A run under way, watched through its event lines.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Answer;

/// Longest wait for anything, on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Sends a signal to a process that this test started; one that is gone is fine.
pub(crate) fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// `trainer run --json` or `trainer resume --json`; killed when dropped.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    /// Lines taken so far.
    seen: Vec<Value>,
}

fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

fn read_errors(mut stderr: ChildStderr) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    })
}

impl Process {
    /// Starts a command that prints events as JSON lines.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = read_lines(child.stdout.take().unwrap());
        let errors = Some(read_errors(child.stderr.take().unwrap()));
        Self {
            child,
            lines,
            errors,
            seen: Vec::new(),
        }
    }

    /// Process id of the supervisor.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line; none when the process has closed its output.
    fn next(&mut self, deadline: Instant) -> Option<Value> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => {
                let value: Value =
                    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e} in {line}"));
                self.seen.push(value.clone());
                Some(value)
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                panic!("nothing for {PATIENCE:?}; last: {:?}", self.seen.last())
            }
        }
    }

    /// Waits for an event of this kind that satisfies a condition, and gives its fields.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, kind: &str, accept: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        while let Some(line) = self.next(deadline) {
            if let Some(fields) = line["event"].get(kind)
                && accept(fields)
            {
                return fields.clone();
            }
        }
        panic!("ended before `{kind}`; last: {:?}", self.seen.last());
    }

    /// Waits for the first line: id, name and directory.
    pub(crate) fn wait_for_header(&mut self) -> Value {
        self.next(Instant::now() + PATIENCE).expect("a first line")
    }

    /// Waits until this step, or a later one, is finished.
    pub(crate) fn wait_for_step(&mut self, step: u64) {
        self.wait_for("step_finished", |report| {
            report["step"].as_u64() >= Some(step)
        });
    }

    /// Process id of the newest worker.
    pub(crate) fn worker_pid(&mut self) -> u32 {
        let known = self.seen.iter().rev().find_map(started_pid);
        known.unwrap_or_else(|| {
            let fields = self.wait_for("worker_started", |_| true);
            u32::try_from(fields["pid"].as_u64().unwrap()).unwrap()
        })
    }

    /// Kills the newest worker at once.
    pub(crate) fn kill_worker(&mut self) {
        let pid = self.worker_pid();
        kill(pid, Signal::KILL);
    }

    /// Sends a signal to the supervisor.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }

    /// Waits for the end; fails if it takes too long.
    pub(crate) fn wait(mut self) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        while self.next(deadline).is_some() {}
        let status = self.child.wait().unwrap();
        let lines: Vec<String> = self.seen.iter().map(Value::to_string).collect();
        Answer {
            code: status.code(),
            stdout: lines.join("\n"),
            stderr: self.errors.take().unwrap().join().unwrap(),
        }
    }
}

fn started_pid(line: &Value) -> Option<u32> {
    let pid = line["event"].get("worker_started")?["pid"].as_u64()?;
    u32::try_from(pid).ok()
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
