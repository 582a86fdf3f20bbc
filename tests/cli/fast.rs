//! `train.reduction = "fast"`: the same weights again with the same number of workers, whatever happens to
//! them; with another number, weights that differ in the last bits, and a run that says so.

use rustix::process::Signal;
use serde_json::Value;

use crate::digits::digits;
use crate::group::{children, sharded};
use crate::support::{Trainer, kill};

fn fast() -> Trainer {
    sharded().set("train.reduction=fast")
}

/// The training loss of a step.
fn loss(trainer: &Trainer, step: u64) -> f64 {
    let arguments = ["metrics", "latest", "--split", "train", "--json"];
    let rows: Vec<Value> = trainer.command(&arguments).succeeds().json_lines();
    let row = rows
        .iter()
        .find(|row| row["step"] == step && row["name"] == "loss");
    row.unwrap()["value"].as_f64().unwrap()
}

#[test]
fn the_same_number_of_workers_gives_the_same_weights_through_kills_and_resumes() {
    // Long enough for two kills.
    let undisturbed = fast();
    undisturbed
        .run_with(&["--quiet", "--slots", "3"])
        .succeeds();
    let disturbed = fast();
    let mut run = disturbed.start_with(&["--slots", "3"]);
    for (step, victim) in [(9, 1), (31, 0)] {
        run.wait_for_step(step);
        kill(children(run.pid())[victim], Signal::KILL);
        run.wait_for("recovered", |_| true);
    }
    run.wait_for_step(50);
    run.signal(Signal::KILL);
    drop(run);
    let resume = ["resume", "latest", "--quiet", "--slots", "3"];
    disturbed.command(&resume).succeeds();
    assert_eq!(disturbed.weights("latest"), undisturbed.weights("latest"));
    assert_eq!(disturbed.show("latest")["workers"], 3);
    let logs = disturbed.command(&["logs", "latest"]).succeeds();
    assert!(!logs.stdout.contains("the last bits"), "{}", logs.stdout);
}

#[test]
fn another_number_of_workers_gives_nearly_the_same_and_says_so() {
    let canonical = sharded().set("train.epochs=1");
    canonical.run_with(&["--quiet"]).succeeds();
    for slots in ["1", "2", "4"] {
        let trainer = fast().set("train.epochs=1");
        trainer.run_with(&["--quiet", "--slots", slots]).succeeds();
        // Rounding grows with the steps.
        for step in [1, 2, 3] {
            let (found, wanted) = (loss(&trainer, step), loss(&canonical, step));
            let error = (found - wanted).abs();
            assert!(
                error <= 1e-5 * wanted,
                "{slots} workers, step {step}: {found}, {wanted}"
            );
        }
    }
    let trainer = fast();
    let mut run = trainer.start_with(&["--slots", "2"]);
    run.wait_for_step(10);
    trainer.command(&["resize", "latest", "3"]).succeeds();
    let warned = run.wait_for("warned", |_| true);
    let message = warned["message"].as_str().unwrap();
    assert!(
        message.contains("3 after 2") && message.contains("fast"),
        "{message}"
    );
    run.wait_for_step(20);
    trainer.command(&["pause", "latest"]).succeeds();
    run.wait().succeeds();
    // Over a pause too, and to a single worker, which is no group.
    let resumed = trainer
        .command(&["resume", "latest", "--slots", "1"])
        .succeeds();
    resumed.prints("1 after 3");
    assert_eq!(trainer.show("latest")["workers"], 1);
}

#[test]
fn a_config_says_that_workers_matter() {
    let trainer = digits();
    let config = trainer.config_path().to_str().unwrap().to_string();
    let set = ["config", "show", &config, "--set", "train.reduction=fast"];
    let shown = trainer.command(&set).succeeds();
    let shown = shown
        .prints("reduction = \"fast\"")
        .prints("# train.reduction");
    // What is shown is a config.
    let again = trainer.write("again.toml", shown.stdout.as_bytes());
    let again = again.to_str().unwrap();
    let json = trainer
        .command(&["config", "show", again, "--json"])
        .succeeds();
    assert_eq!(json.json()["depends_on_workers"], true);
    let plain = trainer.command(&["config", "show", &config]).succeeds();
    assert!(!plain.stdout.contains('#'), "{}", plain.stdout);
}
