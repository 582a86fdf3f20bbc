//! What is wrong is said in one place, with the right exit code, and nothing is written or lost.

use std::path::Path;

use crate::digits::{DIGITS, digits, undisturbed};
use crate::support::Trainer;

#[test]
fn a_wrong_config_leaves_nothing_behind() {
    for (change, texts) in [
        ("train.epoch=3", ["train.epoch", "epochs"]),
        ("train.epochs=-1", ["train.epochs", "-1"]),
        ("optimizer.kind=adamv", ["adamv", "adamw"]),
        ("train.global_batch=true", ["train.global_batch", "true"]),
    ] {
        let trainer = digits().set(change);
        trainer.run().fails_with(2, &texts);
        assert!(!trainer.runs_dir().exists(), "{change}");
    }
    let trainer = Trainer::new().config("name = \"x\"\nseed = \n");
    trainer.run().fails_with(2, &["config.toml:2"]);
    let trainer = Trainer::new().config_file("configs/absent.toml");
    trainer.run().fails_with(2, &["configs/absent.toml"]);
    let trainer = Trainer::new().config_file("configs");
    trainer.run().fails_with(2, &["folder"]);
    let trainer = Trainer::new();
    let binary = trainer.write("config.toml", &[0xff, 0xfe, 0]);
    trainer
        .command(&["config", "check", binary.to_str().unwrap()])
        .fails_with(2, &["UTF-8"]);
}

/// Where there is no NCCL, a run that is to use it does not begin, and one that exists stays as it is.
#[test]
fn a_library_that_is_missing_is_said_at_the_start() {
    if Path::new("/dev/nvidiactl").exists() {
        return;
    }
    let nccl = "resources.transport=nccl";
    let trainer = digits().set("resources.backend=auto").set(nccl);
    let texts = ["NCCL cannot be used", "resources.transport"];
    trainer.run().fails_with(3, &texts);
    assert!(!trainer.runs_dir().exists());
    let trainer = digits();
    let mut run = trainer.start();
    run.wait_for_step(10);
    trainer.command(&["pause", "latest"]).succeeds();
    run.wait().succeeds();
    let journal = trainer.run_dir().join("events.jsonl");
    let before = std::fs::read(&journal).unwrap();
    let resume = ["resume", "latest", "--allow-config-change"];
    let set = ["--set", "resources.backend=auto", "--set", nccl];
    let answer = trainer.command(&[&resume[..], &set].concat());
    answer.fails_with(3, &texts);
    assert_eq!(std::fs::read(&journal).unwrap(), before);
    trainer.command(&["resume", "latest", "--quiet"]).succeeds();
    assert_eq!(trainer.weights("latest"), undisturbed());
}

#[test]
fn a_variable_that_is_not_set_is_an_error() {
    let set = "name=${TRAINER_TEST_NAME}";
    digits()
        .set(set)
        .run()
        .fails_with(2, &["TRAINER_TEST_NAME"]);
    let trainer = digits()
        .environment("TRAINER_TEST_NAME", "from-environment")
        .set(set)
        .set("train.epochs=1");
    trainer.run_with(&["--quiet"]).succeeds();
    let name = trainer.show("latest")["name"].as_str().unwrap().to_string();
    assert!(name.starts_with("from-environment-"), "{name}");
}

#[test]
fn missing_and_damaged_data_are_told_apart() {
    let trainer = digits().set("data.train=no/such/file.gz");
    trainer.run().fails_with(2, &["no/such/file.gz"]);
    assert_nothing_is_kept(&trainer);

    let trainer = digits();
    let damaged = trainer.write("images.gz", b"this is no gzip file");
    let change = format!("data.train={}", damaged.display());
    let trainer = trainer.set(&change);
    trainer.run_with(&["--quiet"]).fails_with(6, &["images.gz"]);
    assert_nothing_is_kept(&trainer);
}

#[test]
fn a_model_that_does_not_fit_its_data_names_the_layer_and_leaves_no_run() {
    let config = DIGITS.replacen("kernel = 3", "kernel = 33", 1);
    let trainer = Trainer::new().config(&config);
    let answer = trainer.run().fails_with(2, &["Conv2d"]);
    assert!(answer.stdout.contains("not kept"), "{answer:?}");
    assert_nothing_is_kept(&trainer);
}

/// What was refused before the first step is in no list of runs.
fn assert_nothing_is_kept(trainer: &Trainer) {
    let left = std::fs::read_dir(trainer.runs_dir()).map_or(0, Iterator::count);
    assert_eq!(left, 0, "files are left in the folder of runs");
}

#[test]
fn a_run_that_diverges_stops_with_a_reason() {
    // Without normalisation each layer's step is as large as the other's weights: they explode.
    let config = DIGITS
        .replace("\"batch_norm\"", "\"activation\"\nfunction = \"relu\"")
        .replace("\"adamw\"", "\"sgd\"");
    let trainer = Trainer::new()
        .config(&config)
        .set("optimizer.learning_rate=1000")
        .set("train.clip_norm=0.0");
    let answer = trainer
        .run()
        .fails_with(4, &["NaN", "step", "samples", "layer", "learning_rate"]);
    assert!(answer.stdout.contains("failed"), "{answer:?}");
    assert_eq!(trainer.show("latest")["state"], "failed");
    trainer
        .command(&["checkpoints", "verify", "latest"])
        .succeeds();
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let trainer = digits();
    let file = trainer.write("occupied", b"");
    let runs = file.join("runs");
    let answer = trainer.run_with(&["--runs-dir", runs.to_str().unwrap()]);
    answer.fails_with(3, &["occupied/runs"]);
    trainer
        .command(&["ls", "--runs-dir", file.to_str().unwrap()])
        .fails_with(3, &["occupied"]);
}

#[test]
fn shapes_that_do_not_fit_name_the_layer() {
    let trainer = digits().set("model.layers.0.kernel=11");
    trainer
        .run()
        .fails_with(2, &["layers.0", "kernel 11", "8x8"]);
    let config = trainer.config_path().to_str().unwrap();
    trainer
        .command(&["model", config, "--set", "model.layers.0.kernel=11"])
        .fails_with(2, &["layers.0"]);
}

#[test]
fn the_hidden_command_is_for_supervisors() {
    let answer = Trainer::new().command(&["__worker"]);
    assert_ne!(answer.code, Some(0));
    assert!(
        answer.stderr.starts_with("error: ") && answer.stderr.lines().count() < 5,
        "{answer:?}"
    );
}
