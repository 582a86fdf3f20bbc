//! What the supervisor promises about workers that stand still and readers that do not read, with
//! real processes.

mod support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{Process, Trainer};

const DIGITS: &str = "configs/digits.toml";

/// Longest wait for anything, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_mins(2);

/// Looks until something is there.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn digits(steps: u64) -> Trainer {
    Trainer::new()
        .config_file(DIGITS)
        .set(&format!("train.steps={steps}"))
        .set("checkpoint.every=\"5 steps\"")
}

#[test]
fn a_worker_that_stands_still_is_named_examined_and_replaced() {
    let undisturbed = digits(30);
    undisturbed.run().succeeds();
    let trainer = digits(30).set("recovery.hang_timeout_s=2");
    let mut run = trainer.start();
    run.wait_for_step(12);
    let pid = run.worker_pid();
    let process = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let warned = run.wait_for("warned", |_| true);
    let message = warned["message"].as_str().unwrap();
    assert!(
        message.contains("rank 0") && message.contains(&pid.to_string()),
        "{message}"
    );
    run.wait().succeeds();
    let log = std::fs::read_to_string(trainer.run_dir().join("logs/rank-0.log")).unwrap();
    assert!(log.contains("(stopped)"), "{log}");
    assert_eq!(trainer.weights("latest"), undisturbed.weights("latest"));
}

#[test]
fn a_reader_that_does_not_read_does_not_stop_training() {
    // More output than a pipe holds.
    let trainer = digits(400).set("eval.every=\"never\"");
    let mut command = trainer.prepare(&[
        "run",
        DIGITS,
        "--json",
        "--set",
        "train.steps=400",
        "--set",
        "checkpoint.every=\"never\"",
        "--set",
        "train.global_batch=8",
    ]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let completed = wait_for("the end of the run", || {
        let dir = trainer.run_dirs().pop()?;
        let journal = std::fs::read_to_string(dir.join("events.jsonl")).ok()?;
        journal.contains("\"to\":\"completed\"").then_some(journal)
    });
    assert!(completed.len() > 1 << 16);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_worker_command_is_not_for_hands() {
    let answer = Trainer::new().command(&["__worker"]);
    assert_eq!(answer.code, Some(2));
    assert!(answer.stderr.contains("not by hand"), "{}", answer.stderr);
}

#[test]
fn a_terminal_that_closes_pauses_the_run() {
    let trainer = digits(200);
    let mut run: Process = trainer.start();
    run.wait_for_step(3);
    run.signal(Signal::HUP);
    run.wait().succeeds();
    assert_eq!(trainer.show("latest")["state"], "paused");
}
