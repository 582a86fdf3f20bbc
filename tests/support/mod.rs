//! Runs the real `trainer` executable in scratch folders, in the user's language:
//!
//! ```text
//! let trainer = Trainer::new().config(DIGITS).set("train.epochs=2");
//! trainer.run().succeeds();
//! assert_eq!(trainer.weights("latest"), undisturbed);
//! ```
//!
//! The working folder is the repository root, so that configs find `assets/`; runs go to the
//! scratch folder, which is removed with the `Trainer`.

// Each test crate uses its own part of this.
#![allow(dead_code)]
// A test stops at what it does not expect.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answer;
mod process;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) use answer::Answer;
// Not every test crate kills.
#[allow(unused_imports)]
pub(crate) use process::{Process, kill};

use serde_json::Value;
use tempfile::TempDir;

/// A scratch folder with a config and the options that commands get.
pub(crate) struct Trainer {
    scratch: TempDir,
    config: PathBuf,
    set: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Trainer {
    /// With an empty runs folder and no config yet.
    pub(crate) fn new() -> Self {
        Self {
            scratch: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            config: PathBuf::new(),
            set: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Takes this text as the config.
    pub(crate) fn config(mut self, text: &str) -> Self {
        self.config = self.write("config.toml", text.as_bytes());
        self
    }

    /// Takes a file of the repository, e.g. `configs/digits.toml`, as the config.
    pub(crate) fn config_file(mut self, path: &str) -> Self {
        self.config = PathBuf::from(path);
        self
    }

    /// Changes a key, for `run` and `start`.
    pub(crate) fn set(mut self, change: &str) -> Self {
        self.set.push(change.to_string());
        self
    }

    /// Sets an environment variable for every command.
    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_string(), value.to_string()));
        self
    }

    /// Writes a file into the scratch folder.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// A path in the scratch folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The runs folder.
    pub(crate) fn runs_dir(&self) -> PathBuf {
        self.path("runs")
    }

    /// The config file.
    pub(crate) fn config_path(&self) -> &Path {
        &self.config
    }

    /// The directories of all runs.
    pub(crate) fn run_dirs(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.runs_dir()) else {
            return Vec::new();
        };
        let mut found: Vec<PathBuf> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.join("run.json").is_file())
            .collect();
        found.sort();
        found
    }

    /// The directory of the only run.
    pub(crate) fn run_dir(&self) -> PathBuf {
        let mut found = self.run_dirs();
        assert_eq!(found.len(), 1, "expected one run");
        found.remove(0)
    }

    /// A command that is ready to start.
    pub(crate) fn prepare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainer"));
        command
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("TRAINER_RUNS_DIR", self.runs_dir())
            .env_remove("NO_COLOR")
            .env("RUST_BACKTRACE", "0")
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn command(&self, arguments: &[&str]) -> Answer {
        Answer::of(self.prepare(arguments).output().unwrap())
    }

    /// `trainer run` on the config, to its end, with more options.
    pub(crate) fn run_with(&self, options: &[&str]) -> Answer {
        let arguments = self.run_arguments(options);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.command(&arguments)
    }

    /// `trainer run` on the config, to its end.
    pub(crate) fn run(&self) -> Answer {
        self.run_with(&[])
    }

    /// Starts `trainer run --json` on the config.
    pub(crate) fn start(&self) -> Process {
        self.start_with(&[])
    }

    /// Starts `trainer run --json` on the config, with more options.
    pub(crate) fn start_with(&self, options: &[&str]) -> Process {
        let options = [&["--json"], options].concat();
        let arguments = self.run_arguments(&options);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Process::start(self.prepare(&arguments))
    }

    /// Starts `trainer resume latest --json`.
    pub(crate) fn start_resume(&self) -> Process {
        Process::start(self.prepare(&["resume", "latest", "--json"]))
    }

    /// `trainer show <run> --json`.
    pub(crate) fn show(&self, run: &str) -> Value {
        self.command(&["show", run, "--json"]).succeeds().json()
    }

    /// SHA-256 of the model in the last checkpoint.
    pub(crate) fn weights(&self, run: &str) -> String {
        let shown = self.show(run);
        shown["model_sha256"]
            .as_str()
            .unwrap_or_else(|| panic!("no model in {shown}"))
            .to_string()
    }

    fn run_arguments(&self, options: &[&str]) -> Vec<String> {
        let config = self.config.to_str().unwrap();
        let sets = self
            .set
            .iter()
            .flat_map(|change| ["--set".to_string(), change.clone()]);
        ["run".to_string(), config.to_string()]
            .into_iter()
            .chain(sets)
            .chain(options.iter().map(ToString::to_string))
            .collect()
    }
}
