//! Several workers: the same weights for any number of them, whatever happens to them.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::digits::digits;
use crate::support::{Process, Trainer, kill};

/// The digits in shards for up to five workers, long enough that a run is still under way when a busy
/// machine lets a test do something to it.
pub(crate) fn sharded() -> Trainer {
    digits()
        .set("train.shards=5")
        .set("train.epochs=20")
        .set("recovery.max_restarts=100")
}

pub(crate) fn weights_alone() -> &'static str {
    static WEIGHTS: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    WEIGHTS.get_or_init(|| {
        let trainer = sharded();
        trainer.run_with(&["--quiet"]).succeeds();
        trainer.weights("latest")
    })
}

/// Processes that belong to a run: their command lines name nothing, their parent does.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

fn is_gone(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while !condition() {
        assert!(
            std::time::Instant::now() < until,
            "waited in vain for {what}"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

pub(crate) fn ends_as_alone(trainer: &Trainer, run: Process) {
    run.wait().succeeds();
    assert_eq!(trainer.weights("latest"), weights_alone());
    let journal = fs::read_to_string(trainer.run_dir().join("events.jsonl")).unwrap();
    let entries: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Every step is told once, in order, although several workers knew of it.
    let steps: Vec<u64> = entries
        .iter()
        .filter(|entry| entry["attempt"] == entries.last().unwrap()["attempt"])
        .filter_map(|entry| entry["event"]["step_finished"]["step"].as_u64())
        .collect();
    let first = steps[0];
    assert_eq!(
        steps,
        (first..first + steps.len() as u64).collect::<Vec<_>>()
    );
    assert!(
        entries
            .iter()
            .enumerate()
            .all(|(place, entry)| entry["seq"] == place)
    );
}

#[test]
fn weights_do_not_depend_on_the_number_of_workers() {
    for slots in ["2", "3", "5", "all"] {
        let trainer = sharded();
        trainer.run_with(&["--quiet", "--slots", slots]).succeeds();
        assert_eq!(
            trainer.weights("latest"),
            weights_alone(),
            "{slots} workers"
        );
    }
}

#[test]
fn killed_workers_are_replaced_from_the_memory_of_the_others() {
    let trainer = sharded();
    let mut run = trainer.start_with(&["--slots", "3"]);
    for (step, victim) in [(7, 0), (23, 1), (24, 2), (50, 0)] {
        run.wait_for_step(step);
        let workers = children(run.pid());
        kill(workers[victim % workers.len()], Signal::KILL);
        let recovered = run.wait_for("recovered", |_| true);
        assert_eq!(recovered["world_size"], 3);
        assert!(
            recovered["cause"].as_str().unwrap().contains("SIGKILL"),
            "{recovered}"
        );
    }
    ends_as_alone(&trainer, run);
    // Nothing was read from the disk.
    assert_eq!(trainer.show("latest")["attempts"], 1);
}

#[test]
fn when_all_workers_die_at_once_the_run_goes_on_from_its_checkpoint() {
    let trainer = sharded();
    let mut run = trainer.start_with(&["--slots", "3"]);
    run.wait_for_step(30);
    for worker in children(run.pid()) {
        kill(worker, Signal::KILL);
    }
    run.wait_for("training_began", |began| began["checkpoint"].is_string());
    ends_as_alone(&trainer, run);
    assert_eq!(trainer.show("latest")["attempts"], 2);
}

#[test]
fn workers_are_added_and_released_while_training() {
    let trainer = sharded();
    let mut run = trainer.start_with(&["--slots", "1"]);
    for (step, size) in [(5, "4"), (25, "2"), (45, "5")] {
        run.wait_for_step(step);
        trainer.command(&["resize", "latest", size]).succeeds();
        let formed = run.wait_for("group_formed", |_| true);
        assert_eq!(formed["world_size"].to_string(), size);
    }
    let answer = trainer.command(&["resize", "latest", "6"]);
    answer.fails_with(2, &["1 to 5 workers", "train.shards"]);
    ends_as_alone(&trainer, run);
}

#[test]
fn a_worker_that_hangs_is_named_dumped_and_replaced() {
    let trainer = sharded().set("recovery.hang_timeout_s=2");
    let mut run = trainer.start_with(&["--slots", "3"]);
    run.wait_for_step(10);
    let stopped = children(run.pid())[1];
    kill(stopped, Signal::STOP);
    let warned = run.wait_for("warned", |_| true);
    let message = warned["message"].as_str().unwrap().to_string();
    assert!(
        message.contains("rank 1") && message.contains(&stopped.to_string()),
        "{message}"
    );
    run.wait_for("recovered", |_| true);
    ends_as_alone(&trainer, run);
    // The others are looked at too: what they wait for says what is missing.
    for rank in 0..3 {
        let log = trainer.run_dir().join(format!("logs/rank-{rank}.log"));
        let log = fs::read_to_string(log).unwrap();
        assert!(log.contains("threads of process"), "{log}");
        assert_eq!(log.contains("T (stopped)"), rank == 1, "{log}");
    }
}

#[test]
fn workers_and_their_memory_end_with_the_supervisor() {
    let trainer = sharded();
    let mut run = trainer.start_with(&["--slots", "4"]);
    run.wait_for_step(20);
    let workers = children(run.pid());
    assert_eq!(workers.len(), 4);
    run.signal(Signal::KILL);
    for worker in workers {
        wait_for("the end of a worker", || is_gone(worker));
    }
    drop(run);
    // Another number of workers goes on from the checkpoint.
    let arguments = ["resume", "latest", "--quiet", "--slots", "2"];
    trainer.command(&arguments).succeeds();
    assert_eq!(trainer.weights("latest"), weights_alone());
}

#[test]
fn a_pause_of_several_workers_resumes_exactly() {
    let trainer = sharded();
    let mut run = trainer.start_with(&["--slots", "2"]);
    run.wait_for_step(33);
    trainer.command(&["pause", "latest"]).succeeds();
    run.wait().succeeds();
    assert_eq!(trainer.show("latest")["state"], "paused");
    trainer.command(&["resume", "latest", "--quiet"]).succeeds();
    assert_eq!(trainer.weights("latest"), weights_alone());
}

/// A scheduler that ends a job signals every process of it.
#[test]
fn a_signal_to_all_processes_is_one_wish_and_leaves_a_checkpoint() {
    let trainer = sharded();
    let mut run = trainer.start_with(&["--slots", "3"]);
    run.wait_for_step(24);
    for worker in children(run.pid()) {
        kill(worker, Signal::TERM);
    }
    run.signal(Signal::TERM);
    run.wait().succeeds();
    let shown = trainer.show("latest");
    assert_eq!(shown["state"], "paused");
    let last = shown["checkpoints"].as_array().unwrap().last().unwrap();
    assert_eq!(last["step"], shown["step"]);
    trainer.command(&["resume", "latest", "--quiet"]).succeeds();
    assert_eq!(trainer.weights("latest"), weights_alone());
}

#[test]
fn more_workers_than_shards_are_refused() {
    let answer = sharded().run_with(&["--slots", "6"]);
    answer.fails_with(2, &["resources.slots", "train.shards"]);
}
