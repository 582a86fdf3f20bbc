//! Every config that ships is right and trains: those whose data is in `assets/` on them, the others
//! on a small stand-in of the same format at the path they name.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it does not expect"
)]

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use trainer::config::{self, Source};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn shipped() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["configs", "configs/bench"]
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    found.sort();
    found
}

fn trainer(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trainer"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Runs a shipped config in a folder; gives the summary of the run.
fn train(folder: &Path, config: &str, set: &[&str]) -> Value {
    let config = root().join("configs").join(config);
    let mut arguments = vec![
        "run",
        config.to_str().unwrap(),
        "--runs-dir",
        "runs",
        "--quiet",
    ];
    for change in set {
        arguments.extend(["--set", change]);
    }
    let output = trainer(folder, &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", config.display());
    let shown = trainer(folder, &["show", "latest", "--runs-dir", "runs", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert!(
        matches!(shown["state"].as_str(), Some("completed" | "early_stopped")),
        "{shown}"
    );
    shown
}

/// A scratch folder in which `assets/` is that of the repository.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("assets"), folder.path().join("assets")).unwrap();
    folder
}

fn gunzip(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = fs::File::open(root().join(path)).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

fn gzip(path: &Path, bytes: &[u8]) {
    let mut encoder = GzEncoder::new(fs::File::create(path).unwrap(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap();
}

#[test]
fn every_config_is_checked_and_says_the_same_when_resolved() {
    let shipped = shipped();
    assert!(shipped.len() >= 8, "{shipped:?}");
    for path in shipped {
        let text = fs::read_to_string(&path).unwrap();
        let source = Source {
            name: path.display().to_string(),
            text,
        };
        let config = config::parse(&source, &[], &|_| None)
            .unwrap_or_else(|faults| panic!("{}", faults.render(false)));
        let resolved = Source {
            name: "resolved".into(),
            text: config.to_toml(),
        };
        let again = config::parse(&resolved, &[], &|_| None)
            .unwrap_or_else(|faults| panic!("{}", faults.render(false)));
        assert_eq!(config.sha256(), again.sha256(), "{}", path.display());
        let checked = trainer(root(), &["config", "check", path.to_str().unwrap()]);
        assert!(checked.status.success(), "{}: {checked:?}", path.display());
    }
}

#[test]
fn digits_learns_in_four_epochs() {
    let folder = folder();
    let shown = train(folder.path(), "digits.toml", &["train.epochs=4"]);
    let accuracy = shown["metrics"]["test"]["accuracy"].as_f64().unwrap();
    assert!(accuracy > 0.9, "{accuracy}");
}

#[test]
fn adult_learns_in_an_epoch() {
    let folder = folder();
    let shown = train(folder.path(), "adult.toml", &["train.epochs=1"]);
    let test = &shown["metrics"]["test"];
    // Saying "no" to everybody is right for 76 % of the test rows.
    assert!(test["accuracy"].as_f64().unwrap() > 0.82, "{test}");
    assert!(test["loss"].as_f64().unwrap() < 0.4, "{test}");
}

/// Images of 28 x 28 pixels from the digits of 8 x 8: each pixel three by three, with a border.
fn enlarged(count: usize) -> (Vec<u8>, Vec<u8>) {
    let images = gunzip("assets/data/digits/images-idx3-ubyte.gz");
    let labels = gunzip("assets/data/digits/labels-idx1-ubyte.gz");
    let mut large = vec![0, 0, 8, 3];
    for size in [count, 28, 28] {
        large.extend(u32::try_from(size).unwrap().to_be_bytes());
    }
    for image in images[16..].chunks(64).take(count) {
        for row in 0..28 {
            for column in 0..28 {
                let inside = (2..26).contains(&row) && (2..26).contains(&column);
                large.push(if inside {
                    image[(row - 2) / 3 * 8 + (column - 2) / 3]
                } else {
                    0
                });
            }
        }
    }
    let mut few = labels[..4].to_vec();
    few.extend(u32::try_from(count).unwrap().to_be_bytes());
    few.extend(&labels[8..8 + count]);
    (large, few)
}

#[test]
fn fashion_trains_on_a_stand_in() {
    let folder = folder();
    let data = folder.path().join("data/fashion-mnist");
    fs::create_dir_all(&data).unwrap();
    let (images, labels) = enlarged(96);
    for part in ["train", "t10k"] {
        gzip(&data.join(format!("{part}-images-idx3-ubyte.gz")), &images);
        gzip(&data.join(format!("{part}-labels-idx1-ubyte.gz")), &labels);
    }
    let set = ["train.epochs=1", "train.global_batch=16", "train.shards=1"];
    let shown = train(folder.path(), "fashion.toml", &set);
    assert!(shown["step"].as_u64().unwrap() >= 5, "{shown}");
    assert!(shown["metrics"]["test"]["accuracy"].is_f64(), "{shown}");
    let model = root().join("configs/fashion.toml");
    let output = trainer(folder.path(), &["model", model.to_str().unwrap()]);
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("layer3.0"),
        "{output:?}"
    );
}

#[test]
fn text_trains_on_a_stand_in() {
    let folder = folder();
    let data = folder.path().join("data/shakespeare");
    fs::create_dir_all(&data).unwrap();
    let table = gunzip("assets/data/adult/test.csv.gz");
    fs::write(data.join("a.txt"), &table[..20_000]).unwrap();
    fs::write(data.join("b.txt"), &table[20_000..30_000]).unwrap();
    let set = ["train.epochs=1", "train.global_batch=16"];
    let shown = train(folder.path(), "text.toml", &set);
    let loss = shown["metrics"]["valid"]["loss"].as_f64().unwrap();
    assert!(loss < 257f64.ln(), "{loss}");
}

/// They need no files: not even `assets/` is there.
#[test]
fn what_is_benchmarked_trains() {
    let folder = tempfile::tempdir().unwrap();
    for (name, batch) in [("gpt", 2), ("resnet20", 4), ("mlp", 512), ("digits", 64)] {
        let config = format!("bench/{name}.toml");
        let batch = format!("train.global_batch={batch}");
        let shown = train(folder.path(), &config, &["train.steps=2", &batch]);
        assert_eq!(shown["step"], 2, "{name}: {shown}");
    }
}
