//! `trainer bench` and `trainer data bench`: what they say, not how fast they are.

use serde_json::Value;

use crate::support::Trainer;

const DOCS: &str = include_str!("../../docs/json.md");

/// A small network on random rows, a step of which takes no time.
const SMALL: &str = r#"
name = "small"
[data]
kind = "synthetic_table"
samples = 64
numeric = 3
categories = [5]
[model]
kind = "mlp"
hidden = [8]
[train]
steps = 1
global_batch = 16
shards = 2
[resources]
threads = 1
"#;

/// Digits become `#`, so that a text does not depend on how fast the machine is.
fn masked(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        // Numbers have more or fewer digits from run to run.
        if !(c == '#' && out.ends_with('#')) {
            out.push(c);
        }
    }
    for parted in ["#.#", "# #"] {
        while out.contains(parted) {
            out = out.replace(parted, "#");
        }
    }
    let lines = out.lines().map(|line| line.trim_end().to_string() + "\n");
    lines.collect()
}

/// Every key of an object, and of those inside, is documented.
#[track_caller]
fn is_documented(object: &Value) {
    for (name, value) in object.as_object().unwrap() {
        let text = format!("`{name}`");
        assert!(DOCS.contains(&text), "{text} is not in docs/json.md");
        if value.is_object() {
            is_documented(value);
        }
    }
}

#[track_caller]
fn is_positive(object: &Value, path: &[&str]) {
    let value = path.iter().fold(object, |value, key| &value[*key]);
    assert!(value.as_f64().unwrap() > 0.0, "{path:?} in {object}");
}

fn bench(trainer: &Trainer, options: &[&str]) -> Vec<String> {
    let config = trainer.config_path().to_str().unwrap();
    let counts = ["bench", config, "--steps", "4", "--warmup", "1"];
    let all = counts.iter().chain(options);
    all.map(ToString::to_string).collect()
}

fn run(trainer: &Trainer, arguments: &[String]) -> crate::support::Answer {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    trainer.command(&arguments)
}

#[test]
fn steps_are_measured_beside_what_the_machine_reaches() {
    let trainer = Trainer::new().config(SMALL);
    let answer = run(&trainer, &bench(&trainer, &[])).succeeds();
    insta::assert_snapshot!(masked(&answer.stdout), @r"
    config      small, # parameters
    device      cpu (flex, # thread)
    step        # ms, # % below #, # % below # (# steps after #)
    phases      data #, forward #, backward #, reduce #, optimizer # ms
    samples     # a second, # a step
    arithmetic  # GFLOP a step, # a second: # % of the # of a matrix product here
    memory      # GB a step, # a second: # % of the # of a copy here
    peak        # MB
    ");
    assert!(answer.stderr.is_empty(), "{answer:?}");
    assert!(!trainer.runs_dir().exists(), "nothing is written");
}

#[test]
fn a_measurement_is_one_object_and_can_be_held_against() {
    let trainer = Trainer::new().config(SMALL);
    let answer = run(&trainer, &bench(&trainer, &["--json"])).succeeds();
    let shown = answer.json();
    is_documented(&shown);
    assert_eq!(shown["format"], 1);
    assert_eq!(shown["name"], "small");
    assert_eq!((&shown["steps"], &shown["warmup"]), (&4.into(), &1.into()));
    assert_eq!(shown["samples_per_step"], 16.0);
    assert_eq!(shown["tokens_per_step"], 0.0);
    assert_eq!(shown["against"], Value::Null);
    for path in [
        ["step_ms", "median"].as_slice(),
        &["step_ms", "p10"],
        &["step_ms", "p90"],
        &["phases_ms", "forward"],
        &["phases_ms", "backward"],
        &["phases_ms", "optimizer"],
        &["samples_per_s"],
        &["peak_bytes"],
        &["gflop_per_s"],
        &["gb_per_s"],
        &["limits", "gflop_per_s"],
        &["limits", "gb_per_s"],
        &["limit_share"],
    ] {
        is_positive(&shown, path);
    }
    let file = trainer.write("before.json", answer.stdout.as_bytes());
    let file = file.to_str().unwrap();
    let against = bench(&trainer, &["--json", "--against", file]);
    let shown = run(&trainer, &against).succeeds().json();
    is_documented(&shown);
    is_positive(&shown, &["against", "ratio"]);
    assert_eq!(shown["against"]["same_config"], true);
    let against = ["--against", file, "--set", "train.shards=1"];
    run(&trainer, &bench(&trainer, &against))
        .succeeds()
        .prints("of another config");
}

#[test]
fn tokens_are_counted() {
    let text = SMALL
        .replace("synthetic_table", "synthetic_text")
        .replace("numeric = 3\ncategories = [5]", "sequence_length = 8")
        .replace(
            "\"mlp\"\nhidden = [8]",
            "\"gpt\"\nlayers = 1\nwidth = 8\nheads = 2",
        );
    let trainer = Trainer::new().config(&text);
    let answer = run(&trainer, &bench(&trainer, &["--json"])).succeeds();
    assert_eq!(answer.json()["tokens_per_step"], 128.0);
    is_positive(&answer.json(), &["tokens_per_s"]);
}

#[test]
fn wrong_input_is_told_before_anything_is_measured() {
    let trainer = Trainer::new().config(SMALL);
    let absent = trainer.path("absent.toml");
    let absent = absent.to_str().unwrap();
    for command in [["bench", absent].as_slice(), &["data", "bench", absent]] {
        trainer.command(command).fails_with(2, &["absent.toml"]);
    }
    let config = trainer.config_path().to_str().unwrap();
    for (arguments, text) in [
        (["bench", config, "--steps", "0"].as_slice(), "--steps"),
        (&["bench", config, "--warmup", "soon"], "--warmup"),
        (&["bench", config, "--against", absent], "absent.toml"),
        (&["bench", config, "--set", "train.stepz=1"], "train.stepz"),
        (&["data", "bench", config, "--seconds", "0"], "--seconds"),
    ] {
        trainer.command(arguments).fails_with(2, &[text]);
    }
    for text in [
        "",
        "{",
        "{}",
        "[1]",
        r#"{"format":1,"config_sha256":"","step_ms":{"median":0,"p10":1,"p90":1}}"#,
        r#"{"format":2,"config_sha256":"","step_ms":{"median":1,"p10":1,"p90":1}}"#,
        r#"{"format":1,"config_sha256":"","step_ms":{"median":"fast","p10":1,"p90":1}}"#,
    ] {
        let file = trainer.write("damaged.json", text.as_bytes());
        let arguments = bench(&trainer, &["--against", file.to_str().unwrap()]);
        run(&trainer, &arguments).fails_with(2, &["damaged.json", "trainer bench --json"]);
    }
}

#[test]
fn absent_data_and_a_loss_that_is_not_finite_are_faults_as_in_a_run() {
    let trainer = Trainer::new().config_file("configs/fashion.toml");
    let absent = trainer.path("absent");
    let train = format!("data.train={:?}", absent.to_str().unwrap());
    for command in [["bench"].as_slice(), &["data", "bench"]] {
        let options = ["configs/fashion.toml", "--set", &train];
        let arguments = [command, options.as_slice()].concat();
        trainer.command(&arguments).fails_with(2, &["absent"]);
    }
    let trainer = Trainer::new().config(SMALL);
    let options = [
        "--set",
        "optimizer.learning_rate=1000",
        "--set",
        "optimizer.kind=\"sgd\"",
    ];
    let arguments = bench(&trainer, &options)
        .into_iter()
        .map(|word| match word.as_str() {
            "4" => "400".to_string(),
            _ => word,
        });
    let arguments: Vec<String> = arguments.collect();
    run(&trainer, &arguments).fails_with(4, &["step"]);
}

#[test]
fn batches_are_measured_without_training() {
    let trainer = Trainer::new();
    let config = "configs/digits.toml";
    let bench = ["data", "bench", config, "--seconds", "1"];
    let answer = trainer.command(&bench).succeeds();
    insta::assert_snapshot!(masked(&answer.stdout), @r"
    data       images, # samples
    opened in  # s
    delivered  # samples in # batches in # s
    samples    # a second
    per core   # a second, on # cores
    ");
    let json = [bench.as_slice(), &["--json"]].concat();
    let shown = trainer.command(&json).succeeds().json();
    is_documented(&shown);
    assert_eq!(shown["format"], 1);
    assert_eq!(shown["kind"], "images");
    assert_eq!(shown["samples"], 1258);
    for key in [
        "samples_per_s",
        "samples_per_core_s",
        "open_seconds",
        "batches",
    ] {
        is_positive(&shown, &[key]);
    }
    assert!(!trainer.runs_dir().exists(), "nothing is written");
}
