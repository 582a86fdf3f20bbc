//! Asking a live run for something and waiting for it: the part that `pause`, `stop` and `checkpoint`
//! share.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::run::{ControlReply, ControlRequest, Fault, FaultClass, RunDir, RunState};
use crate::supervisor;

use super::select::Standing;

/// Time between two looks at a run that was asked to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A limit on waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    until: Instant,
    seconds: u64,
}

impl Patience {
    /// From now on.
    pub(super) fn new(seconds: u64) -> Self {
        // A century is as good as for ever, and does not overflow.
        let wait = Duration::from_secs(seconds.min(3_000_000_000));
        Self {
            until: Instant::now() + wait,
            seconds,
        }
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    fn over(&self, name: &str) -> Fault {
        Fault::machine(format!(
            "run `{name}` has the request, but has not done it within {} s",
            self.seconds
        ))
        .advise("it still will; `trainer show` tells, and --timeout waits longer")
    }
}

/// Sends a request to a live run and waits for the answer.
///
/// # Errors
///
/// When the run is not alive, refuses, or does not answer in time.
pub(super) fn ask(
    standing: &Standing,
    request: ControlRequest,
    patience: Patience,
) -> Result<(), Fault> {
    let name = &standing.summary.name;
    if !standing.alive {
        let text = format!(
            "run `{name}` is not running: it is {}",
            standing.summary.state
        );
        return Err(Fault::usage(text).advise("`trainer resume` continues it"));
    }
    let (sender, answer) = channel();
    let run = standing.run.clone();
    // The answer to a checkpoint comes when it is on disk. The thread ends with this process.
    thread::spawn(move || sender.send(supervisor::control(&run, request)));
    match answer.recv_timeout(patience.left()) {
        Ok(Ok(ControlReply::Refused(reason))) => {
            Err(Fault::usage(format!("run `{name}` refuses: {reason}")))
        }
        Ok(Ok(_)) => Ok(()),
        Ok(Err(fault)) => Err(fault),
        Err(RecvTimeoutError::Timeout) => Err(patience.over(name)),
        Err(RecvTimeoutError::Disconnected) => Err(Fault::internal("the request was lost")),
    }
}

/// Waits until the supervisor of a run has left, and says how the run stands then.
///
/// # Errors
///
/// When that takes too long, the run failed instead, or its journal cannot be read.
pub(super) fn wait_for_end(run: &RunDir, patience: Patience) -> Result<Standing, Fault> {
    loop {
        let standing = Standing::of(run.clone())?;
        if !standing.alive {
            let summary = &standing.summary;
            if summary.state == RunState::Failed {
                let text = format!("run `{}` failed: {}", summary.name, summary.reason);
                return Err(Fault::new(FaultClass::Training, text));
            }
            return Ok(standing);
        }
        if patience.left().is_zero() {
            return Err(patience.over(&standing.summary.name));
        }
        thread::sleep(LOOK_INTERVAL.min(patience.left()));
    }
}
