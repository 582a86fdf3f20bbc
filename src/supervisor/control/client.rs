//! The asking side, in any other process.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::socket::connect_to;
use crate::run::wire::{self, WireError};
use crate::run::{ControlReply, ControlRequest, Fault, RunDir};

/// Longest time that a live supervisor may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Longest time that a checkpoint may take to be committed.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_mins(10);

/// Asks the supervisor of a run for something.
///
/// # Errors
///
/// When the run is not alive or its supervisor does not answer.
pub fn control(dir: &RunDir, request: ControlRequest) -> Result<ControlReply, Fault> {
    let timeout = match request {
        ControlRequest::Checkpoint => CHECKPOINT_TIMEOUT,
        _ => ANSWER_TIMEOUT,
    };
    let mut stream = ask(dir, request, Some(timeout))?;
    wire::receive(&mut stream).map_err(|error| match error {
        WireError::Io(error) if is_timeout(&error) => Fault::machine(format!(
            "the supervisor of {} did not answer within {} s",
            dir.root().display(),
            timeout.as_secs()
        ))
        .advise("`trainer logs` may show what it is busy with"),
        WireError::Closed => not_alive(dir),
        error => Fault::machine(format!("the answer of the supervisor is lost: {error}")),
    })
}

/// Follows a live run.
///
/// # Errors
///
/// When the run is not alive.
pub fn follow(dir: &RunDir) -> Result<Follow, Fault> {
    Ok(Follow {
        stream: ask(dir, ControlRequest::Follow, None)?,
    })
}

/// The entries of a live run from now on; ends when the run does.
#[derive(Debug)]
pub struct Follow {
    stream: UnixStream,
}

impl Iterator for Follow {
    type Item = ControlReply;

    fn next(&mut self) -> Option<ControlReply> {
        wire::receive(&mut self.stream).ok()
    }
}

fn ask(
    dir: &RunDir,
    request: ControlRequest,
    timeout: Option<Duration>,
) -> Result<UnixStream, Fault> {
    let connect = || -> Result<UnixStream, WireError> {
        let mut stream = connect_to(&dir.control_socket())?;
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        wire::send(&mut stream, &request)?;
        Ok(stream)
    };
    connect().map_err(|error| match error {
        WireError::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Fault::machine(format!(
                "the run in {} belongs to another user",
                dir.root().display()
            ))
            .advise("only the user who started a run can control it")
        }
        _ => not_alive(dir),
    })
}

fn not_alive(dir: &RunDir) -> Fault {
    let name = dir.root().file_name().unwrap_or(dir.root().as_os_str());
    Fault::usage(format!("run `{}` is not alive", name.to_string_lossy()))
        .advise("`trainer ls` shows the state of runs; `trainer resume` continues one")
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
