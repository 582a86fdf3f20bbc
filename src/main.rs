//! The executable: turns a result into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    match trainer::cli::main(std::env::args_os()) {
        Ok(outcome) => outcome.exit_code(),
        Err(fault) => {
            fault.show(&mut std::io::stderr());
            fault.class.exit_code()
        }
    }
}
