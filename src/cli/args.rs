//! What can be typed: names, help texts and defaults of the command line, nothing that acts.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCandidates;

use crate::run::RunState;

use super::select::run_names;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "trainer",
    version,
    about = "Trains deep-learning models from one TOML file",
    long_about = "Trains deep-learning models from one TOML file: every run is recorded, and \
                  continues after a crash or a pause with bit-for-bit the same result.",
    after_help = "Exit codes: 0 done, or paused on request; 2 wrong command line or config; \
                  3 the machine lacks something; 4 training failed; 5 workers kept dying; \
                  6 data or checkpoint damaged.",
    arg_required_else_help = true,
    infer_long_args = true,
    max_term_width = 100
)]
pub(super) struct Cli {
    /// Where and how much is printed.
    #[command(flatten)]
    pub(super) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub(super) struct Global {
    /// Folder that holds the run directories
    #[arg(
        long,
        global = true,
        env = "TRAINER_RUNS_DIR",
        hide_env_values = true,
        default_value = "runs",
        value_name = "FOLDER",
        value_hint = ValueHint::DirPath
    )]
    pub(super) runs_dir: PathBuf,
    /// Print results and errors only: no progress, no notices
    #[arg(long, short, global = true)]
    pub(super) quiet: bool,
}

/// The commands; each is a file of this module.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Train from a config file
    Run(Run),
    /// Continue a run that was paused, was stopped, failed or died
    Resume(Resume),
    /// List runs, newest first
    Ls(Ls),
    /// Show one run on one page
    Show(Query),
    /// Print the recorded metrics of a run
    Metrics(Metrics),
    /// Print what happened in a run, or what a worker printed
    Logs(Logs),
    /// List or verify the checkpoints of a run
    Checkpoints(Checkpoints),
    /// Write a checkpoint and end a running run as paused
    Pause(Control),
    /// Write a checkpoint and end a running run as cancelled
    Stop(Control),
    /// Write a checkpoint of a running run now
    Checkpoint(Control),
    /// Give a running run another number of workers
    Resize(Resize),
    /// Show which run has which device of this machine, and which wait
    Slots(Slots),
    /// Remove runs with all their files
    Rm(Rm),
    /// Print layers, shapes, parameters and memory of a config's model
    Model(ConfigFile),
    /// Measure training steps of a config, beside what this machine reaches
    Bench(Bench),
    /// Check a config, show it with every default, or print the JSON Schema
    Config {
        /// What to do with it.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Look at the data of a config
    Data {
        /// What to do with them.
        #[command(subcommand)]
        command: DataCommand,
    },
    /// Print the completion script of a shell; completes commands, options and run names
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
    Man {
        /// Write one page per command into this folder instead
        #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
    },
}

/// A config file with changes to it.
#[derive(Debug, Args)]
pub(super) struct ConfigFile {
    /// Config file (TOML)
    #[arg(value_name = "CONFIG", value_hint = ValueHint::FilePath)]
    pub(super) config: PathBuf,
    /// Changed keys.
    #[command(flatten)]
    pub(super) set: Overrides,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// `trainer bench`.
#[derive(Debug, Args)]
pub(super) struct Bench {
    /// Config file (TOML)
    #[arg(value_name = "CONFIG", value_hint = ValueHint::FilePath)]
    pub(super) config: PathBuf,
    /// Changed keys.
    #[command(flatten)]
    pub(super) set: Overrides,
    /// Steps that are measured
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=STEPS_MAX))]
    pub(super) steps: u64,
    /// Steps before them that are not
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=STEPS_MAX))]
    pub(super) warmup: u64,
    /// Compare with what `--json` printed at another time
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) against: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Most steps of a measurement; each is remembered.
const STEPS_MAX: u64 = 1_000_000;

/// `trainer data bench`.
#[derive(Debug, Args)]
pub(super) struct DataBench {
    /// The config.
    #[command(flatten)]
    pub(super) file: ConfigFile,
    /// How long batches are taken, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) seconds: u64,
}

/// `--set`.
#[derive(Debug, Args)]
pub(super) struct Overrides {
    /// Change a key of the config, e.g. `--set train.epochs=3`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
}

/// One existing run.
#[derive(Debug, Args)]
pub(super) struct RunName {
    /// Name, a prefix of it, short id or id of the run, or `latest`
    #[arg(value_name = "RUN", add = ArgValueCandidates::new(run_names))]
    pub(super) run: String,
}

/// `trainer run`.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// Config file (TOML)
    #[arg(value_name = "CONFIG", value_hint = ValueHint::FilePath)]
    pub(super) config: PathBuf,
    /// Changed keys.
    #[command(flatten)]
    pub(super) set: Overrides,
    /// Name of the run instead of the config's `name`
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Workers instead of the config's `resources.slots`: a number, or `all`
    #[arg(long, value_name = "N")]
    pub(super) slots: Option<String>,
    /// Place among runs that wait for devices, instead of the config's `resources.priority`; higher first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) priority: Option<i64>,
    /// Several hosts.
    #[command(flatten)]
    pub(super) nodes: Nodes,
    /// Print events as JSON lines; the first holds id, name and directory of the run
    #[arg(long)]
    pub(super) json: bool,
}

/// The hosts of a run. Under `srun`, and where `MASTER_ADDR`, `RANK` and `WORLD_SIZE` are set, none of
/// these is needed.
#[derive(Debug, Args)]
pub(super) struct Nodes {
    /// Number of nodes; `TRAINER_TOKEN` holds a secret that all of them know
    #[arg(long, value_name = "N", help_heading = "Several nodes")]
    pub(super) nnodes: Option<u32>,
    /// Number of this node, from 0; node 0 holds the run
    #[arg(long, value_name = "N", help_heading = "Several nodes")]
    pub(super) node_rank: Option<u32>,
    /// Where node 0 listens
    #[arg(long, value_name = "HOST:PORT", help_heading = "Several nodes")]
    pub(super) rendezvous: Option<String>,
    /// Seconds that nodes wait for each other at the start
    #[arg(long, value_name = "SECONDS", help_heading = "Several nodes")]
    pub(super) patience: Option<u64>,
}

/// `trainer resume`.
#[derive(Debug, Args)]
pub(super) struct Resume {
    /// Run (name, prefix, short id, id, `latest`), or the directory of one of its checkpoints
    #[arg(value_name = "RUN", add = ArgValueCandidates::new(run_names))]
    pub(super) run: String,
    /// Go on with a changed config: this file, or `--set`, against the recorded one
    #[arg(long, value_name = "CONFIG", value_hint = ValueHint::FilePath)]
    pub(super) config: Option<PathBuf>,
    /// Changed keys.
    #[command(flatten)]
    pub(super) set: Overrides,
    /// Workers of this attempt instead of the config's `resources.slots`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) slots: Option<u32>,
    /// Several hosts.
    #[command(flatten)]
    pub(super) nodes: Nodes,
    /// Permit a config that differs from the recorded one
    #[arg(long)]
    pub(super) allow_config_change: bool,
    /// Print events as JSON lines; the first holds id, name and directory of the run
    #[arg(long)]
    pub(super) json: bool,
}

/// `trainer resize`.
#[derive(Debug, Args)]
pub(super) struct Resize {
    /// The run.
    #[command(flatten)]
    pub(super) name: RunName,
    /// Number of workers, at most the config's `train.shards`
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) size: u32,
    /// Seconds to wait for the run's answer
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub(super) timeout: u64,
}

/// `trainer slots`.
#[derive(Debug, Args)]
pub(super) struct Slots {
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// `trainer ls`.
#[derive(Debug, Args)]
pub(super) struct Ls {
    /// Only runs in this state; may be repeated
    #[arg(long, value_name = "STATE", value_parser = state)]
    pub(super) state: Vec<RunState>,
    /// Print a JSON array
    #[arg(long)]
    pub(super) json: bool,
}

/// A state by the name that everything prints it under.
fn state(text: &str) -> Result<RunState, String> {
    let name = serde_json::Value::String(text.to_string());
    serde_json::from_value(name).map_err(|_| {
        "states are queued, starting, running, pausing, paused, completed, early_stopped, failed, \
         cancelled"
            .to_string()
    })
}

/// A query about one run.
#[derive(Debug, Args)]
pub(super) struct Query {
    /// The run.
    #[command(flatten)]
    pub(super) name: RunName,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// `trainer metrics`.
#[derive(Debug, Args)]
pub(super) struct Metrics {
    /// The run.
    #[command(flatten)]
    pub(super) name: RunName,
    /// Only this split: train, valid or test
    #[arg(long)]
    pub(super) split: Option<String>,
    /// Only this metric, e.g. `loss`
    #[arg(long, value_name = "NAME")]
    pub(super) metric: Option<String>,
    /// Only steps from this one on
    #[arg(long, value_name = "STEP")]
    pub(super) from: Option<u64>,
    /// Only steps up to this one
    #[arg(long, value_name = "STEP")]
    pub(super) to: Option<u64>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(super) json: bool,
}

/// `trainer logs`.
#[derive(Debug, Args)]
pub(super) struct Logs {
    /// The run.
    #[command(flatten)]
    pub(super) name: RunName,
    /// Go on until the run ends
    #[arg(long, short)]
    pub(super) follow: bool,
    /// What the worker of this rank printed, instead of the run's events
    #[arg(long, value_name = "RANK", conflicts_with = "json")]
    pub(super) rank: Option<u32>,
    /// Print journal entries as JSON lines
    #[arg(long)]
    pub(super) json: bool,
}

/// `trainer checkpoints`: `list` is the default.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Checkpoints {
    /// What to do; absent means `list`.
    #[command(subcommand)]
    pub(super) command: Option<CheckpointsCommand>,
    /// Name, a prefix of it, short id or id of the run, or `latest`
    #[arg(value_name = "RUN", required = true, add = ArgValueCandidates::new(run_names))]
    pub(super) run: Option<String>,
    /// Print a JSON array
    #[arg(long)]
    pub(super) json: bool,
}

/// What to do with checkpoints.
#[derive(Debug, Subcommand)]
pub(super) enum CheckpointsCommand {
    /// List the checkpoints
    List(Query),
    /// Read every file of every checkpoint and compare it with its hash
    Verify(Query),
}

/// A request to a running run.
#[derive(Debug, Args)]
pub(super) struct Control {
    /// The run.
    #[command(flatten)]
    pub(super) name: RunName,
    /// Seconds to wait until it is done
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(super) timeout: u64,
}

/// `trainer rm`.
#[derive(Debug, Args)]
pub(super) struct Rm {
    /// Names, prefixes, short ids or ids of the runs
    #[arg(value_name = "RUN", required = true, add = ArgValueCandidates::new(run_names))]
    pub(super) runs: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// What to do with a config.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Report every fault of a config
    Check(ConfigFile),
    /// Print a config with every default, as TOML that gives the same run
    Show(ConfigFile),
    /// Print the JSON Schema of a config, for editors
    Schema,
}

/// What to do with data.
#[derive(Debug, Subcommand)]
pub(super) enum DataCommand {
    /// Read, split and validate the data as a run would, and show them on one screen
    Inspect(ConfigFile),
    /// Measure how fast training batches come from the files, with nobody who trains on them
    Bench(DataBench),
}

/// Shells with completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    /// Bourne-again shell
    Bash,
    /// Elvish
    Elvish,
    /// Fish
    Fish,
    /// `PowerShell`
    Powershell,
    /// Z shell
    Zsh,
}
