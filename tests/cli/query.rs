//! What is recorded of a run, and that the JSON is what `docs/json.md` says.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::digits::{STEPS, digits};
use crate::support::Trainer;

const DOCS: &str = include_str!("../../docs/json.md");

/// Every field of an object is documented.
#[track_caller]
fn is_documented(object: &Value) {
    for name in object.as_object().unwrap().keys() {
        assert!(
            DOCS.contains(&format!("`{name}`")),
            "`{name}` is not in docs/json.md"
        );
    }
}

fn trained() -> Trainer {
    let trainer = digits().set("train.epochs=2");
    trainer.run_with(&["--quiet"]).succeeds();
    trainer
}

#[test]
fn show_tells_all_of_a_run() {
    let trainer = trained();
    let shown = trainer.show("latest");
    is_documented(&shown);
    assert_eq!(shown["format"], 1);
    assert_eq!(shown["state"], "completed");
    assert_eq!(shown["alive"], false);
    assert_eq!(shown["step"], STEPS / 2);
    assert_eq!(shown["steps_total"], STEPS / 2);
    assert_eq!(shown["attempts"], 1);
    assert_eq!(shown["workers"], 1);
    assert!(!shown["reason"].as_str().unwrap().is_empty());
    for split in ["train", "valid", "test"] {
        let loss = shown["metrics"][split]["loss"].as_f64().unwrap();
        assert!(loss.is_finite() && loss > 0.0, "{split}: {loss}");
    }
    assert!(shown["metrics"]["test"]["accuracy"].as_f64().unwrap() > 0.5);
    assert!(shown["best"]["value"].is_f64());
    let checkpoints = shown["checkpoints"].as_array().unwrap();
    let last = checkpoints.last().unwrap();
    is_documented(last);
    assert_eq!(last["step"], STEPS / 2);
    assert_eq!(last["sha256"], shown["model_sha256"]);
    assert!(checkpoints.iter().all(|one| one["verified"] == true));
    let page = trainer.command(&["show", "latest"]).succeeds();
    for text in [
        "completed",
        "accuracy",
        "step-",
        shown["id"].as_str().unwrap(),
    ] {
        assert!(page.stdout.contains(text), "{text}");
    }
}

#[test]
fn runs_are_listed_and_found() {
    let trainer = trained();
    trainer
        .run_with(&["--quiet", "--name", "second"])
        .succeeds();
    let listed = trainer.command(&["ls", "--json"]).succeeds().json();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 2);
    is_documented(&listed[0]);
    let names: Vec<&str> = listed
        .iter()
        .map(|run| run["name"].as_str().unwrap())
        .collect();
    assert!(
        names[0].starts_with("second-") && names[1].starts_with("digits-"),
        "{names:?}"
    );
    trainer.command(&["ls"]).succeeds().prints(names[1]);
    let none = trainer
        .command(&["ls", "--state", "paused", "--json"])
        .succeeds();
    assert_eq!(none.json(), Value::Array(Vec::new()));
    // By prefix, short id, full id and directory.
    let short = names[1].rsplit_once('-').unwrap().1;
    let directory = trainer.runs_dir().join(names[1]);
    let id = listed[1]["id"].as_str().unwrap();
    for name in ["dig", short, id, directory.to_str().unwrap()] {
        assert_eq!(trainer.show(name)["id"], listed[1]["id"], "{name}");
    }
    trainer
        .command(&["show", "absent"])
        .fails_with(2, &["absent"]);
}

#[test]
fn metrics_come_in_order_and_by_choice() {
    let trainer = trained();
    let rows = trainer
        .command(&["metrics", "latest", "--json"])
        .succeeds()
        .json_lines();
    for row in &rows {
        let fields: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["step", "split", "name", "value"]);
    }
    let steps: Vec<u64> = rows
        .iter()
        .map(|row| row["step"].as_u64().unwrap())
        .collect();
    assert!(steps.is_sorted());
    let losses = trainer
        .command(&[
            "metrics", "latest", "--json", "--split", "train", "--metric", "loss",
        ])
        .succeeds()
        .json_lines();
    let steps: Vec<u64> = losses
        .iter()
        .map(|row| row["step"].as_u64().unwrap())
        .collect();
    assert_eq!(steps, (1..=STEPS / 2).collect::<Vec<u64>>());
    let few = trainer
        .command(&[
            "metrics", "latest", "--metric", "loss", "--split", "train", "--from", "3", "--to", "5",
        ])
        .succeeds();
    assert_eq!(few.stdout.lines().count(), 4, "{few:?}");
    let evaluated = trainer
        .command(&[
            "metrics", "latest", "--json", "--split", "valid", "--metric", "accuracy",
        ])
        .succeeds()
        .json_lines();
    assert_eq!(evaluated.len(), 2);
}

#[test]
fn logs_hold_every_event() {
    let trainer = trained();
    let entries = trainer
        .command(&["logs", "latest", "--json"])
        .succeeds()
        .json_lines();
    for (index, entry) in entries.iter().enumerate() {
        assert_eq!(entry["seq"], index, "a gap");
        let kinds: Vec<&String> = entry["event"].as_object().unwrap().keys().collect();
        assert_eq!(kinds.len(), 1);
        assert!(DOCS.contains(&format!("`{}`", kinds[0])), "{kinds:?}");
    }
    let journal = std::fs::read_to_string(trainer.run_dir().join("events.jsonl")).unwrap();
    assert_eq!(journal.lines().count(), entries.len());
    let lines = trainer.command(&["logs", "latest"]).succeeds();
    assert!(lines.stdout.contains("test at step"), "{lines:?}");
    trainer.command(&["logs", "latest", "--follow"]).succeeds();
    trainer
        .command(&["logs", "latest", "--rank", "0"])
        .succeeds();
    trainer
        .command(&["logs", "latest", "--rank", "9"])
        .fails_with(2, &["rank-9"]);
}

#[test]
fn checkpoints_are_listed_and_verified() {
    let trainer = trained();
    let listed = trainer
        .command(&["checkpoints", "latest", "--json"])
        .succeeds()
        .json();
    let listed = listed.as_array().unwrap().clone();
    assert!(listed.len() >= 3);
    assert!(listed.iter().all(|one| one["verified"].is_null()));
    trainer
        .command(&["checkpoints", "list", "latest"])
        .succeeds()
        .prints("step-");
    trainer
        .command(&["checkpoints", "verify", "latest"])
        .succeeds()
        .prints("verified");
    // One changed byte in the middle of the weights.
    let path =
        std::path::PathBuf::from(listed[0]["path"].as_str().unwrap()).join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let answer = trainer.command(&["checkpoints", "verify", "latest", "--json"]);
    let answer = answer.fails_with(6, &["1 of", "damaged"]);
    let found = answer.json();
    assert_eq!(found[0]["verified"], false);
    assert!(!found[0]["problem"].as_str().unwrap().is_empty());
    assert_eq!(found[1]["verified"], true);
}

#[test]
fn models_and_data_are_shown_without_training() {
    let trainer = digits();
    let config = trainer.config_path().to_str().unwrap();
    let model = trainer
        .command(&["model", config, "--json"])
        .succeeds()
        .json();
    is_documented(&model);
    let layers = model["layers"].as_array().unwrap();
    assert_eq!(
        layers.first().unwrap()["output"],
        serde_json::json!([16, 8, 8])
    );
    assert_eq!(layers.last().unwrap()["output"], serde_json::json!([10]));
    let sum: u64 = layers
        .iter()
        .map(|layer| layer["parameters"].as_u64().unwrap())
        .sum();
    assert_eq!(model["parameters"], sum);
    trainer
        .command(&["model", config])
        .succeeds()
        .prints("total");
    let data = trainer
        .command(&["data", "inspect", config, "--json"])
        .succeeds()
        .json();
    is_documented(&data);
    let samples: u64 = data["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["samples"].as_u64().unwrap())
        .sum();
    assert_eq!(samples, 1797);
    trainer
        .command(&["data", "inspect", config])
        .succeeds()
        .prints("samples");
    assert!(!trainer.runs_dir().exists(), "nothing is written");
}

#[test]
fn a_config_shows_itself() {
    let trainer = digits();
    let config = trainer.config_path().to_str().unwrap();
    let checked = trainer
        .command(&["config", "check", config, "--json"])
        .succeeds()
        .json();
    is_documented(&checked);
    let changed = ["config", "show", config, "--set", "train.epochs=9"];
    let text = trainer
        .command(&changed)
        .succeeds()
        .prints("epochs = 9")
        .stdout;
    let again = trainer.write("again.toml", text.as_bytes());
    let again = again.to_str().unwrap();
    let shown = trainer
        .command(&["config", "show", again, "--json"])
        .succeeds()
        .json();
    is_documented(&shown);
    let first = trainer
        .command(&[
            "config",
            "show",
            config,
            "--json",
            "--set",
            "train.epochs=9",
        ])
        .succeeds()
        .json();
    assert_eq!(shown["sha256"], first["sha256"]);
    assert_eq!(shown["depends_on_workers"], false);
    assert_ne!(shown["sha256"], checked["sha256"]);
    let schema = trainer.command(&["config", "schema"]).succeeds().json();
    assert!(schema["properties"]["train"].is_object());
}

#[test]
fn a_reader_may_leave_early() {
    let trainer = trained();
    for arguments in [
        ["metrics", "latest", "--json"].as_slice(),
        &["logs", "latest"],
        &["logs", "latest", "--json"],
    ] {
        let mut child = trainer
            .prepare(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::with_capacity(16, child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn a_thousand_runs_are_listed() {
    let trainer = digits().set("train.epochs=1");
    trainer.run_with(&["--quiet"]).succeeds();
    let run = trainer.run_dir();
    let name = run.file_name().unwrap().to_str().unwrap();
    for index in 0..1000 {
        let copy = format!("digits-{index:08x}");
        for file in ["run.json", "summary.json", "events.jsonl", "lock"] {
            let text = std::fs::read_to_string(run.join(file)).unwrap();
            trainer.write(
                &format!("runs/{copy}/{file}"),
                text.replace(name, &copy).as_bytes(),
            );
        }
    }
    // How fast is for `benches/store.rs` to say.
    let listed = trainer.command(&["ls", "--json"]).succeeds();
    assert_eq!(listed.json().as_array().unwrap().len(), 1001);
}
