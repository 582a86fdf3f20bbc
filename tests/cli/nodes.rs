//! Runs on several hosts, here processes of one host that talk over its loopback device. With real cuts
//! between hosts: `scripts/measure_nodes.py`.

use std::net::TcpListener;
use std::path::Path;

use rustix::process::Signal;

use crate::digits::digits;
use crate::group::{ends_as_alone, sharded};
use crate::support::{Process, Trainer};

const SECRET: &str = "a secret for the tests alone";

/// An address that nobody listens at.
fn rendezvous() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn options<'a>(nodes: &'a str, node: &'a str, at: &'a str, patience: &'a str) -> Vec<&'a str> {
    let place = ["--nnodes", nodes, "--node-rank", node, "--rendezvous", at];
    [place.as_slice(), &["--slots", "2", "--patience", patience]].concat()
}

/// A node of its own: its folder of runs is not that of the first.
fn node(secret: &str) -> Trainer {
    sharded().environment("TRAINER_TOKEN", secret)
}

/// The first of two nodes.
fn holder(at: &str, patience: &str) -> (Trainer, Process) {
    let trainer = node(SECRET);
    let process = trainer.start_with(&options("2", "0", at, patience));
    (trainer, process)
}

/// The other one.
fn agent(at: &str, secret: &str, patience: &str) -> (Trainer, Process) {
    let trainer = node(secret);
    let process = trainer.start_with(&options("2", "1", at, patience));
    (trainer, process)
}

#[test]
fn two_nodes_give_the_weights_of_one() {
    let at = rendezvous();
    let (first, run) = holder(&at, "60");
    let (second, other) = agent(&at, SECRET, "60");
    ends_as_alone(&first, run);
    other.wait().succeeds();
    assert!(second.run_dirs().is_empty(), "the run is recorded once");
}

#[test]
fn a_lost_node_is_gone_on_without() {
    let at = rendezvous();
    let (first, mut run) = holder(&at, "60");
    let (_second, other) = agent(&at, SECRET, "60");
    run.wait_for_step(25);
    other.signal(Signal::KILL);
    let recovered = run.wait_for("recovered", |event| event["world_size"] == 2);
    assert!(
        recovered["cause"]
            .as_str()
            .unwrap()
            .contains("loss of node 1"),
        "{recovered}"
    );
    ends_as_alone(&first, run);
    assert_eq!(first.show("latest")["attempts"], 1);
}

#[test]
fn a_signal_to_all_nodes_is_one_wish_and_leaves_a_checkpoint() {
    let at = rendezvous();
    let (first, mut run) = holder(&at, "60");
    let (_second, other) = agent(&at, SECRET, "60");
    run.wait_for_step(20);
    other.signal(Signal::TERM);
    other.signal(Signal::TERM);
    run.signal(Signal::TERM);
    run.wait().succeeds();
    other.wait().succeeds();
    let shown = first.show("latest");
    assert_eq!(shown["state"], "paused");
    let last = shown["checkpoints"].as_array().unwrap().last().unwrap();
    assert_eq!(last["step"], shown["step"]);
}

/// Devices of a host are shared out on that host, here named by a variable.
fn with_devices(trainer: Trainer, folder: &Path, names: &str) -> Trainer {
    let folder = folder.join(names).display().to_string();
    trainer
        .environment("TRAINER_SLOTS", names)
        .environment("TRAINER_SLOTS_DIR", &folder)
}

#[test]
fn workers_take_devices_of_their_own_host() {
    let folder = tempfile::tempdir().unwrap();
    let at = rendezvous();
    let first = with_devices(node(SECRET), folder.path(), "a,b");
    let second = with_devices(node(SECRET), folder.path(), "c,d,e");
    let mut run = first.start_with(&options("2", "0", &at, "60"));
    let other = second.start_with(&options("2", "1", &at, "60"));
    run.wait_for_step(3);
    let name = first.show("latest")["name"].clone();
    let held = |trainer: &Trainer| {
        let listed = trainer.command(&["slots", "--json"]).succeeds().json();
        let devices = listed["devices"].as_array().unwrap().clone();
        let held = devices.iter().filter(|device| device["run"] == name);
        held.count()
    };
    assert_eq!((held(&first), held(&second)), (2, 2));
    ends_as_alone(&first, run);
    other.wait().succeeds();
    assert_eq!((held(&first), held(&second)), (0, 0));
}

#[test]
fn a_host_without_enough_devices_ends_the_run_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let at = rendezvous();
    let first = with_devices(node(SECRET), folder.path(), "a,b");
    let second = with_devices(node(SECRET), folder.path(), "c");
    let run = first.start_with(&options("2", "0", &at, "60"));
    let _other = second.start_with(&options("2", "1", &at, "60"));
    run.wait().fails_with(3, &["devices of this host is free"]);
}

#[test]
fn a_complete_run_leaves_other_nodes_nothing_to_do_either() {
    let first = node(SECRET).set("train.epochs=1");
    first.run_with(&["--quiet"]).succeeds();
    let second = node(SECRET);
    let at = rendezvous();
    let resume = |trainer: &Trainer, place| {
        let options = options("2", place, &at, "60");
        let arguments = [&["resume", "latest", "--json"], options.as_slice()].concat();
        Process::start(trainer.prepare(&arguments))
    };
    let (run, other) = (resume(&first, "0"), resume(&second, "1"));
    let answer = run.wait().succeeds();
    assert_eq!(answer.json()["state"], "completed");
    other.wait().succeeds();
}

#[test]
fn whoever_does_not_know_the_token_stays_outside() {
    let at = rendezvous();
    let (first, run) = holder(&at, "3");
    let (_second, other) = agent(&at, "another secret, as long", "1");
    other.wait().fails_with(3, &["TRAINER_TOKEN"]);
    run.wait().fails_with(3, &["node 1", "TRAINER_TOKEN"]);
    assert!(first.run_dirs().is_empty());
}

#[test]
fn what_is_said_of_nodes_must_make_sense() {
    let at = rendezvous();
    digits()
        .run_with(&["--nnodes", "2"])
        .fails_with(2, &["--node-rank", "--rendezvous"]);
    digits()
        .run_with(&options("2", "0", &at, "60"))
        .fails_with(2, &["TRAINER_TOKEN"]);
    node(SECRET)
        .run_with(&options("2", "2", &at, "60"))
        .fails_with(2, &["node 2 of 2"]);
    node(SECRET)
        .run_with(&options("3", "0", &at, "60"))
        .fails_with(2, &["6 workers", "5 shards"]);
}

#[test]
fn workers_of_one_host_may_use_tcp_too() {
    let trainer = sharded().set("resources.transport=tcp");
    let mut run = trainer.start_with(&["--slots", "3"]);
    run.wait_for_step(20);
    run.kill_worker();
    run.wait_for("recovered", |_| true);
    ends_as_alone(&trainer, run);
}
