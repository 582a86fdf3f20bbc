//! From what was typed to the function that does it.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};

use clap::Parser;

use crate::run::{Fault, FaultClass, WORKER_COMMAND};
use crate::worker;

use super::args::{Cli, Command, Global};
use super::outcome::{CommandResult, Outcome, Stop};
use super::{
    bench, checkpoint, checkpoints, completions, config, data, logs, ls, man, metrics, model,
    pause, resize, resume, rm, run, show, slots,
};

/// Runs the command line `arguments`, the program's name first.
///
/// # Errors
///
/// The fault that ended the command; the caller shows it.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Result<Outcome, Fault> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // First of all: a worker starts for every run, and what it does not need takes time.
    if arguments.get(1).is_some_and(|name| name == WORKER_COMMAND) {
        return worker::main().map(|()| Outcome::Done);
    }
    if completions::answer_shell(&arguments)? {
        return Ok(Outcome::Done);
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return Ok(explain(&error)),
    };
    let mut out = BufWriter::new(io::stdout());
    let result = dispatch(&cli, &mut out).and_then(|outcome| {
        out.flush()?;
        Ok(outcome)
    });
    match result {
        Ok(outcome) => Ok(outcome),
        Err(Stop::PipeClosed) => Ok(Outcome::Done),
        Err(Stop::Fault(fault)) => {
            // What was printed before it comes first; a fault is shown in any case.
            let _ = out.flush();
            Err(fault)
        }
    }
}

/// Prints help, version or what is wrong with the command line, each to its stream.
fn explain(error: &clap::Error) -> Outcome {
    // Nothing is left to do when even this cannot be printed.
    let _ = error.print();
    if error.use_stderr() {
        Outcome::Shown(FaultClass::Usage)
    } else {
        Outcome::Done
    }
}

fn dispatch(cli: &Cli, out: &mut dyn Write) -> CommandResult {
    let Global { runs_dir, quiet } = &cli.global;
    let quiet = *quiet;
    match &cli.command {
        Command::Run(args) => run::run(args, runs_dir, quiet),
        Command::Resume(args) => resume::resume(args, runs_dir, quiet, out),
        Command::Ls(args) => ls::ls(args, runs_dir, quiet, out),
        Command::Show(args) => show::show(args, runs_dir, out),
        Command::Metrics(args) => metrics::metrics(args, runs_dir, out),
        Command::Logs(args) => logs::logs(args, runs_dir, out),
        Command::Checkpoints(args) => checkpoints::checkpoints(args, runs_dir, out),
        Command::Pause(args) => pause::pause(args, runs_dir, quiet, out),
        Command::Resize(args) => resize::resize(args, runs_dir, quiet, out),
        Command::Stop(args) => pause::stop(args, runs_dir, quiet, out),
        Command::Checkpoint(args) => checkpoint::checkpoint(args, runs_dir, quiet, out),
        Command::Slots(args) => slots::slots(args, out),
        Command::Rm(args) => rm::rm(args, runs_dir, quiet, out),
        Command::Model(args) => model::model(args, out),
        Command::Bench(args) => bench::bench(args, out),
        Command::Config { command } => config::config(command, quiet, out),
        Command::Data { command } => data::data(command, out),
        Command::Completions { shell } => completions::completions(*shell, out),
        Command::Man { out: folder } => man::man(folder.as_deref(), out),
    }
}
