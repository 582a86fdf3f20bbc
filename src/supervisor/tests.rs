//! Whole sessions with workers that are threads and follow a script.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::create::{Crew, NewRun, start_with};
use super::ending::Ending;
use super::launch::{Launch, Launched};
use super::resume::{Resume, resume_with};
use super::session::Finished;
use crate::config::{Config, Source, parse};
use crate::run::wire::{self, FromWorker, Job, Outcome, ToWorker, WIRE_VERSION};
use crate::run::{
    Attempt, CheckpointInfo, Command, ControlReply, ControlRequest, Entry, Epoch, Event, Fault,
    FaultClass, Phases, Reader, RunDir, RunState, StateCause, Step, StepReport,
};
use crate::store::{self, Runs, is_alive};

/// One worker: talks over its end of the channel and says how it ended.
type Script = Box<dyn FnOnce(Job, Talk) -> Ending + Send>;

/// Starts threads in the place of processes, one script after another.
#[derive(Default)]
struct Threads {
    scripts: Vec<Script>,
    jobs: Arc<Mutex<Vec<Job>>>,
}

impl Threads {
    fn new(scripts: Vec<Script>) -> Self {
        Self {
            scripts,
            jobs: Arc::default(),
        }
    }
}

impl Launch for Threads {
    fn launch(&mut self, job: &Job) -> io::Result<Launched> {
        if self.scripts.is_empty() {
            return Err(io::Error::other("no more workers"));
        }
        let script = self.scripts.remove(0);
        self.jobs.lock().unwrap().push(job.clone());
        let (ours, theirs) = UnixStream::pair()?;
        let killer = theirs.try_clone()?;
        let closing = theirs.try_clone()?;
        let killed = Arc::new(Mutex::new(false));
        let was_killed = Arc::clone(&killed);
        let thread = thread::spawn(move || {
            let mut talk = Talk(theirs);
            let job: Job = wire::receive(&mut talk.0).unwrap();
            let hello = FromWorker::Hello {
                version: WIRE_VERSION,
                pid: std::process::id(),
            };
            talk.say(&hello);
            talk.say(&FromWorker::Ready {
                vector_len: 1,
                step: None,
                address: None,
            });
            // A killed worker is in no group.
            let ending = match wire::receive(&mut talk.0) {
                Ok(ToWorker::Form(_)) => script(job, talk),
                _ => Ending::Exited(0),
            };
            // What the end of a process does.
            let _ = closing.shutdown(Shutdown::Both);
            ending
        });
        Ok(Launched {
            pid: std::process::id(),
            channel: ours,
            kill: Box::new(move || {
                *killed.lock().unwrap() = true;
                let _ = killer.shutdown(Shutdown::Both);
            }),
            wait: Box::new(move || {
                let ending = thread.join().unwrap();
                if *was_killed.lock().unwrap() {
                    return Ending::Signalled(libc::SIGKILL);
                }
                ending
            }),
            examine: None,
        })
    }
}

/// The worker's end of the channel.
struct Talk(UnixStream);

impl Talk {
    fn say(&mut self, message: &FromWorker) {
        // A killed worker talks to nobody.
        let _ = wire::send(&mut self.0, message);
    }

    fn event(&mut self, event: Event) {
        self.say(&FromWorker::Event {
            place: None,
            event: Box::new(event),
        });
    }

    fn train(&mut self, from: u64, to: u64) {
        self.event(Event::TrainingBegan {
            step: Step::new(from),
            steps_total: 100,
            steps_per_epoch: 10,
            checkpoint: None,
            device: "cpu".to_string(),
        });
        for step in from + 1..=to {
            self.event(Event::StepFinished(StepReport {
                step: Step::new(step),
                epoch: Epoch::new(0),
                samples: 1,
                tokens: 0,
                loss: 1.0,
                learning_rate: 0.1,
                gradient_norm: 1.0,
                seconds: 0.001,
                phases: Phases::default(),
                metrics: BTreeMap::new(),
            }));
        }
    }

    fn done(mut self, outcome: Outcome) -> Ending {
        self.say(&FromWorker::Done(outcome));
        Ending::Exited(0)
    }

    /// The next command; `None` when the supervisor is gone or the worker is killed.
    fn command(&mut self) -> Option<Command> {
        loop {
            if let ToWorker::Command(command) = wire::receive(&mut self.0).ok()? {
                return Some(command);
            }
        }
    }
}

fn config() -> Config {
    let source = Source {
        name: "test.toml".to_string(),
        text: "name = \"toy\"\n[data]\nkind = \"table\"\ntrain = \"t.csv\"\nlabel = \"y\"\n\
               [model]\nkind = \"mlp\"\nhidden = [4]\n[train]\nepochs = 1\nglobal_batch = 8\n\
               [optimizer]\nkind = \"sgd\"\nlearning_rate = 0.1\n"
            .to_string(),
    };
    parse(&source, &[], &|_: &str| None).unwrap_or_else(|faults| panic!("{}", faults.render(false)))
}

fn start(folder: &Path, config: &Config, scripts: Vec<Script>) -> Finished {
    let new = NewRun {
        config,
        source: "the source",
        runs_dir: folder,
        cluster: None,
    };
    let crew = Crew::of(config, None, None).unwrap();
    start_with(new, &crew, &mut [], &mut Threads::new(scripts)).unwrap()
}

fn resume(dir: &RunDir, scripts: Vec<Script>) -> Result<Finished, Fault> {
    let request = Resume {
        dir,
        checkpoint: None,
        config: None,
        allow_config_change: false,
        slots: None,
        cluster: None,
    };
    resume_with(request, &mut [], &mut Threads::new(scripts))
}

fn entries(dir: &RunDir) -> Vec<Entry> {
    store::read(dir).unwrap().map(Result::unwrap).collect()
}

fn states(dir: &RunDir) -> Vec<RunState> {
    entries(dir)
        .iter()
        .filter_map(|entry| match entry.event {
            Event::StateChanged { to, .. } => Some(to),
            _ => None,
        })
        .collect()
}

/// The one run of a folder, once it is there.
fn run_in(folder: &Path) -> RunDir {
    wait_for(|| Runs::open(folder).find("latest").ok())
}

fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain");
        thread::sleep(Duration::from_millis(2));
    }
}

fn completing(from: u64, to: u64) -> Script {
    Box::new(move |_, mut talk| {
        talk.train(from, to);
        talk.done(Outcome::Completed)
    })
}

fn dying(from: u64, to: u64) -> Script {
    Box::new(move |_, mut talk| {
        talk.train(from, to);
        Ending::Signalled(libc::SIGKILL)
    })
}

/// Trains, then does what it is told.
fn obedient(to: u64) -> Script {
    Box::new(move |_, mut talk| {
        talk.train(0, to);
        loop {
            match talk.command() {
                Some(Command::Pause) => return talk.done(Outcome::Paused),
                Some(Command::Stop) => return talk.done(Outcome::Stopped),
                Some(Command::Checkpoint) => {
                    talk.event(Event::CheckpointCommitted(CheckpointInfo {
                        step: Step::new(to),
                        directory: format!("step-{to:08}"),
                        bytes: 1,
                        model_sha256: "hash".to_string(),
                        metric: None,
                        blocked_seconds: 0.0,
                        write_seconds: 0.0,
                    }));
                }
                None => return Ending::Exited(0),
            }
        }
    })
}

mod resumed;
mod started;
