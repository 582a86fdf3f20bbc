//! The program against recorded PyTorch: whole runs, step by step, and the schedules.
//!
//! The parts (losses, optimisers, normalisations, attention…) are held against PyTorch by the unit
//! tests beside them; here everything between a config and a checkpoint has to fit together. The
//! recordings are described in `tests/fixtures/torch/README.md`.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it does not expect"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use safetensors::SafeTensors;
use serde_json::Value;
use trainer::config::{self, Source};
use trainer::plan::{Timetable, schedule};
use trainer::run::Step;

fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/torch")
        .join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn case<'a>(document: &'a Value, name: &str) -> &'a Value {
    let cases = document["cases"].as_array().unwrap();
    cases.iter().find(|case| case["name"] == name).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_f64().unwrap())
        .collect()
}

/// A run of the program on a recorded case.
struct Run {
    steps: Vec<Value>,
    weights: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
}

fn run(case: &Value) -> Run {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in case["files"].as_object().unwrap() {
        let text = text.as_str().unwrap();
        let bytes = if matches!(name.as_str(), "images" | "labels") {
            let pair = |i| u8::from_str_radix(&text[i..i + 2], 16).unwrap();
            (0..text.len()).step_by(2).map(pair).collect()
        } else {
            text.as_bytes().to_vec()
        };
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    fs::write(
        folder.path().join("config.toml"),
        case["config"].as_str().unwrap(),
    )
    .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_trainer"))
        .args(["run", "config.toml", "--runs-dir", "runs", "--quiet"])
        .args(["--set", "resources.backend=\"flex\""])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", case["name"]);
    let root = fs::read_dir(folder.path().join("runs")).unwrap();
    let root = root
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    let journal = fs::read_to_string(root.join("events.jsonl")).unwrap();
    let steps = journal
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|entry| entry["event"].get("step_finished").cloned())
        .collect();
    let checkpoint = fs::read_dir(root.join("checkpoints")).unwrap();
    let checkpoint = checkpoint.map(|entry| entry.unwrap().path()).max().unwrap();
    let bytes = fs::read(checkpoint.join("model.safetensors")).unwrap();
    let weights = SafeTensors::deserialize(&bytes)
        .unwrap()
        .iter()
        .map(|(name, tensor)| {
            let values = tensor
                .data()
                .chunks(4)
                .map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())));
            (
                name.to_string(),
                (tensor.shape().to_vec(), values.collect()),
            )
        })
        .collect();
    Run { steps, weights }
}

/// Follows a recorded run; `tolerance` is relative, for losses; weights are compared on the scale of
/// their tensor.
fn follow(name: &str, tolerance: f64) {
    let document = fixture("runs.json");
    let case = case(&document, name);
    let ours = run(case);
    let theirs = case["steps"].as_array().unwrap();
    assert_eq!(ours.steps.len(), theirs.len());
    for (place, (our, their)) in ours.steps.iter().zip(theirs).enumerate() {
        assert_eq!(our["step"], place as u64 + 1);
        for (key, tolerance) in [
            ("loss", tolerance),
            ("gradient_norm", 10.0 * tolerance),
            ("learning_rate", 1e-12),
        ] {
            let (our, their) = (our[key].as_f64().unwrap(), their[key].as_f64().unwrap());
            assert!(
                (our - their).abs() <= tolerance * their.abs(),
                "{name}, step {}: {key} is {our}, PyTorch's is {their}",
                place + 1
            );
        }
    }
    let theirs = case["weights"].as_object().unwrap();
    let names: BTreeSet<&String> = theirs.keys().collect();
    assert_eq!(ours.weights.keys().collect::<BTreeSet<_>>(), names);
    for (tensor, their) in theirs {
        let (shape, values) = &ours.weights[tensor];
        assert_eq!(
            &serde_json::json!(shape),
            &their["shape"],
            "{name}: {tensor}"
        );
        let their = numbers(&their["data"]);
        let scale = their.iter().fold(1e-3, |most: f64, v| most.max(v.abs()));
        for (our, their) in values.iter().zip(their) {
            let apart = (our - their).abs() / scale;
            assert!(
                apart <= 2.0 * tolerance,
                "{name}: {tensor} is off by {apart:e} of its scale"
            );
        }
    }
}

#[test]
fn an_mlp_with_embeddings_stays_on_the_curve() {
    follow("table_classes", 1e-5);
}

#[test]
fn a_clipped_regression_stays_on_the_curve() {
    follow("table_values", 1e-5);
}

#[test]
fn batch_norm_in_shards_stays_on_the_curve() {
    follow("images", 1e-5);
}

#[test]
fn a_gpt_stays_on_the_curve() {
    follow("gpt_learned_tied_adamw", 1e-5);
}

#[test]
fn a_gated_gpt_with_muon_stays_on_the_curve() {
    follow("gpt_rotary_gated_muon", 1e-5);
}

#[test]
fn schedules_are_those_of_the_table() {
    let document = fixture("schedules.json");
    for case in document["cases"].as_array().unwrap() {
        let mut section = String::new();
        for (key, value) in case["schedule"].as_object().unwrap() {
            writeln!(section, "{key} = {value}").unwrap();
        }
        let (total, peak) = (&case["steps_total"], case["peak"].as_f64().unwrap());
        let text = format!(
            "name = \"s\"\nseed = 1\n[data]\nkind = \"table\"\ntrain = \"t.csv\"\nlabel = \"y\"\n[model]\nkind = \"mlp\"\n\
             hidden = [4]\n[train]\nsteps = {total}\nglobal_batch = 4\n[optimizer]\nkind = \"sgd\"\nlearning_rate = {peak}\n[schedule]\n{section}"
        );
        let source = Source {
            name: "s.toml".into(),
            text,
        };
        let config = config::parse(&source, &[], &|_| None)
            .unwrap_or_else(|faults| panic!("{}", faults.render(false)));
        let timetable = Timetable::new(&config, 100);
        for (step, rate) in numbers(&case["rates"]).into_iter().enumerate() {
            let ours =
                schedule::learning_rate(&config.schedule, peak, &timetable, Step::new(step as u64));
            assert!(
                (ours - rate).abs() <= 1e-12 * peak,
                "{} at step {step}: {ours}, not {rate}",
                case["name"]
            );
        }
    }
}
