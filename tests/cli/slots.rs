//! Runs that share the devices of a machine, here named by `TRAINER_SLOTS`.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::digits::undisturbed;
use crate::support::{Process, Trainer};

/// Two devices; runs that share a folder share them.
fn on_two_devices(folder: &Path) -> Trainer {
    crate::digits::digits()
        .environment("TRAINER_SLOTS", "left,right")
        .environment("TRAINER_SLOTS_DIR", folder.to_str().unwrap())
}

fn listed(trainer: &Trainer) -> Value {
    trainer.command(&["slots", "--json"]).succeeds().json()
}

fn waiting(trainer: &Trainer, options: &[&str]) -> Process {
    let mut run = trainer.start_with(options);
    run.wait_for("slots_awaited", |_| true);
    run
}

#[test]
fn a_run_waits_until_all_its_devices_are_free() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("slots");
    let first = on_two_devices(&folder).set("train.epochs=400");
    let mut holder = first.start_with(&["--slots", "2"]);
    let taken = holder.wait_for("slots_taken", |_| true);
    assert_eq!(taken["devices"], serde_json::json!(["left", "right"]));
    holder.wait_for_step(3);

    let second = on_two_devices(&folder);
    let mut waiter = second.start();
    let awaited = waiter.wait_for("slots_awaited", |_| true);
    let name = first.show("latest")["name"].clone();
    assert_eq!(awaited["holders"], serde_json::json!([name]));
    assert_eq!(second.show("latest")["state"], "queued");
    let shown = listed(&second);
    assert_eq!(shown["devices"][0]["run"], name);
    assert_eq!(shown["queue"][0]["run"], second.show("latest")["name"]);
    second.command(&["slots"]).succeeds().prints("1 device");

    // The kernel frees what a killed run had.
    holder.signal(Signal::KILL);
    waiter.wait().succeeds();
    assert_eq!(second.weights("latest"), undisturbed());
    let shown = listed(&second);
    assert!(
        shown["devices"]
            .as_array()
            .unwrap()
            .iter()
            .all(|device| device["held"] == false)
    );
}

#[test]
fn a_waiting_run_leaves_the_queue_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("slots");
    let first = on_two_devices(&folder).set("train.epochs=400");
    let mut holder = first.start_with(&["--slots", "2"]);
    holder.wait_for("slots_taken", |_| true);
    for (command, state) in [("pause", "paused"), ("stop", "cancelled")] {
        let second = on_two_devices(&folder);
        let run = waiting(&second, &[]);
        second.command(&[command, "latest"]).succeeds();
        run.wait().succeeds();
        assert_eq!(second.show("latest")["state"], state);
        assert_eq!(listed(&second)["queue"], serde_json::json!([]));
    }
    let second = on_two_devices(&folder);
    let run = waiting(&second, &[]);
    run.signal(Signal::INT);
    run.wait().succeeds();
    // A run that was paused in the queue can wait again, and then train.
    assert_eq!(second.show("latest")["state"], "paused");
    holder.signal(Signal::KILL);
    drop(holder);
    second.command(&["resume", "latest", "--quiet"]).succeeds();
    assert_eq!(second.weights("latest"), undisturbed());
}

#[test]
fn a_higher_priority_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("slots");
    let first = on_two_devices(&folder).set("train.epochs=400");
    let mut holder = first.start_with(&["--slots", "2"]);
    holder.wait_for("slots_taken", |_| true);
    let (plain, urgent) = (on_two_devices(&folder), on_two_devices(&folder));
    let late = waiting(&plain, &["--slots", "2"]);
    let soon = waiting(&urgent, &["--slots", "2", "--priority", "5"]);
    let queue = listed(&plain)["queue"].clone();
    assert_eq!(queue[0]["run"], urgent.show("latest")["name"]);
    assert_eq!(queue[1]["run"], plain.show("latest")["name"]);
    holder.signal(Signal::KILL);
    soon.wait().succeeds();
    late.wait().succeeds();
    let began = |trainer: &Trainer| {
        let text = std::fs::read_to_string(trainer.run_dir().join("events.jsonl")).unwrap();
        let entries = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut taken = entries.filter(|entry| entry["event"]["slots_taken"].is_object());
        taken.next().unwrap()["time_ms"].as_u64().unwrap()
    };
    assert!(began(&urgent) < began(&plain));
}

#[test]
fn what_can_never_be_had_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("slots");
    let trainer = on_two_devices(&folder).set("train.shards=3");
    trainer
        .run_with(&["--slots", "3"])
        .fails_with(3, &["3 workers", "this machine has 2"]);
    assert!(trainer.run_dirs().is_empty(), "no run was made");
    let trainer = on_two_devices(&folder).set("resources.devices=[\"middle\"]");
    trainer.run().fails_with(3, &["middle"]);
}
