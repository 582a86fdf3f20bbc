//! However a run is disturbed, it ends with the weights of the undisturbed run.

use rustix::process::Signal;
use serde_json::Value;

use crate::digits::{STEPS, digits, undisturbed};
use crate::support::{Process, Trainer};

/// The journal has no gaps, and no checkpoint in it was lost.
fn is_sound(trainer: &Trainer) {
    let text = std::fs::read_to_string(trainer.run_dir().join("events.jsonl")).unwrap();
    for (index, line) in text.lines().enumerate() {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert_eq!(entry["seq"], index, "a gap in the journal");
    }
    trainer
        .command(&["checkpoints", "verify", "latest"])
        .succeeds();
}

#[test]
fn a_pause_changes_nothing() {
    let trainer = digits();
    let mut run = trainer.start();
    run.wait_for_step(17);
    run.signal(Signal::INT);
    run.wait().succeeds();
    let shown = trainer.show("latest");
    assert_eq!(shown["state"], "paused");
    let step = shown["step"].as_u64().unwrap();
    assert!((17..STEPS).contains(&step), "paused at {step}");
    assert_eq!(
        shown["checkpoints"].as_array().unwrap().last().unwrap()["step"],
        step
    );
    trainer.command(&["resume", "latest", "--quiet"]).succeeds();
    let shown = trainer.show("latest");
    assert_eq!(shown["state"], "completed");
    assert_eq!(shown["attempts"], 2);
    assert_eq!(shown["model_sha256"], undisturbed());
    is_sound(&trainer);
}

#[test]
fn two_signals_stop_at_once_and_corrupt_nothing() {
    let trainer = digits();
    let mut run = trainer.start();
    run.wait_for_step(23);
    run.signal(Signal::TERM);
    run.signal(Signal::TERM);
    run.wait();
    trainer.command(&["resume", "latest", "--quiet"]).succeeds();
    assert_eq!(trainer.weights("latest"), undisturbed());
    is_sound(&trainer);
}

#[test]
fn a_killed_worker_is_replaced() {
    let trainer = digits();
    let mut run = trainer.start();
    for step in [9, 30, 55] {
        run.wait_for_step(step);
        run.kill_worker();
        run.wait_for("worker_exited", |exit| exit["restarts"] == true);
    }
    run.wait().succeeds();
    assert_eq!(trainer.weights("latest"), undisturbed());
    is_sound(&trainer);
}

/// Small, seeded, good enough to choose steps.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn a_killed_supervisor_loses_nothing() {
    let trainer = digits();
    let mut random = 0x9e37_79b9_7f4a_7c15;
    let mut run = trainer.start();
    let mut at = 0;
    for _ in 0..3 {
        at = (at + 1 + next_random(&mut random) % 24).min(STEPS - 5);
        run.wait_for_step(at);
        run.signal(Signal::KILL);
        run.wait();
        let shown = trainer.show("latest");
        assert_eq!(shown["alive"], false);
        assert_eq!(shown["state"], "failed");
        assert!(
            shown["reason"].as_str().unwrap().contains("trainer resume"),
            "{shown}"
        );
        run = trainer.start_resume();
    }
    run.wait().succeeds();
    assert_eq!(trainer.weights("latest"), undisturbed());
    is_sound(&trainer);
}

#[test]
fn a_worker_does_not_outlive_its_supervisor() {
    let trainer = digits().set("train.epochs=1000");
    let mut run = trainer.start();
    run.wait_for_step(3);
    let worker = run.worker_pid();
    run.signal(Signal::KILL);
    run.wait();
    let gone = |pid: u32| {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_or(true, |stat| stat.contains(") Z "))
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !gone(worker) {
        assert!(
            std::time::Instant::now() < deadline,
            "worker {worker} lives on"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_run_goes_on_from_a_named_checkpoint() {
    let trainer = digits();
    trainer.run_with(&["--quiet"]).succeeds();
    let shown = trainer.show("latest");
    let first = &shown["checkpoints"][0];
    assert!(first["step"].as_u64() < Some(STEPS));
    trainer
        .command(&["resume", first["path"].as_str().unwrap(), "--quiet"])
        .succeeds();
    let shown = trainer.show("latest");
    assert_eq!(
        (&shown["step"], &shown["attempts"]),
        (&STEPS.into(), &2.into())
    );
    assert_eq!(shown["model_sha256"], undisturbed());
    let absent = trainer.run_dir().join("checkpoints/step-00000001");
    trainer
        .command(&["resume", absent.to_str().unwrap()])
        .fails_with(2, &["step-00000001", "checkpoints list"]);
}

#[test]
fn a_damaged_checkpoint_is_passed_over() {
    let trainer = digits();
    let mut run = trainer.start();
    run.wait_for_step(40);
    run.signal(Signal::KILL);
    run.wait();
    let shown = trainer.show("latest");
    let newest = shown["checkpoints"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    let path = std::path::Path::new(newest["path"].as_str().unwrap()).join("optimizer.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let mut run = trainer.start_resume();
    let rejected = run.wait_for("checkpoint_rejected", |_| true);
    assert!(
        rejected["checkpoint"]
            .as_str()
            .unwrap()
            .contains(&format!("{:08}", newest["step"].as_u64().unwrap()))
    );
    run.wait().succeeds();
    assert_eq!(trainer.weights("latest"), undisturbed());
}

#[test]
fn a_changed_config_needs_permission() {
    let trainer = digits();
    let mut run = trainer.start();
    run.wait_for_step(5);
    run.signal(Signal::INT);
    run.wait().succeeds();
    let change = ["resume", "latest", "--set", "train.clip_norm=1.0"];
    trainer
        .command(&change)
        .fails_with(2, &["train.clip_norm", "--allow-config-change"]);
    assert_eq!(trainer.show("latest")["attempts"], 1);
    let allowed = [&change[..], &["--allow-config-change"]].concat();
    trainer
        .command(&allowed)
        .succeeds()
        .prints("train.clip_norm");
    let shown = trainer.show("latest");
    assert_eq!(
        (&shown["state"], &shown["step"]),
        (&"completed".into(), &STEPS.into())
    );
    assert_ne!(shown["model_sha256"], undisturbed());
    // The changed config is the run's own now.
    trainer
        .command(&["resume", "latest"])
        .succeeds()
        .prints("nothing to do");
}

#[test]
fn threads_and_prefetch_change_nothing() {
    for change in ["resources.threads=2", "train.prefetch=0"] {
        let trainer = digits().set(change);
        trainer.run_with(&["--quiet"]).succeeds();
        assert_eq!(trainer.weights("latest"), undisturbed(), "{change}");
    }
}

#[test]
fn a_live_run_is_not_resumed_twice() {
    let trainer = digits().set("train.epochs=1000");
    let mut run: Process = trainer.start();
    run.wait_for_step(2);
    trainer
        .command(&["resume", "latest"])
        .fails_with(2, &["alive"]);
    trainer
        .command(&["rm", "latest", "--yes"])
        .fails_with(2, &["alive"]);
    run.signal(Signal::INT);
    run.wait().succeeds();
}
