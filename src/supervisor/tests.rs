//! Whole sessions with workers that are threads and follow a script.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::create::{NewRun, start_with};
use super::ending::Ending;
use super::launch::{Launch, Launched};
use super::resume::{Resume, resume_with};
use super::session::Finished;
use super::{control, follow};
use crate::config::{Config, Source, parse};
use crate::run::wire::{self, FromWorker, Job, Outcome, WIRE_VERSION};
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
            let ending = script(job, talk);
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
        self.say(&FromWorker::Event(Box::new(event)));
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
        wire::receive(&mut self.0).ok()
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
    };
    start_with(new, &mut [], &mut Threads::new(scripts)).unwrap()
}

fn resume(dir: &RunDir, scripts: Vec<Script>) -> Result<Finished, Fault> {
    let request = Resume {
        dir,
        checkpoint: None,
        config: None,
        allow_config_change: false,
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

#[test]
fn a_run_is_recorded_from_first_to_last() {
    let folder = tempfile::tempdir().unwrap();
    let config = config();
    let finished = start(folder.path(), &config, vec![completing(0, 30)]);
    assert_eq!(finished.state, RunState::Completed);
    assert_eq!(finished.fault, None);
    let dir = &finished.dir;
    let name = dir.root().file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("toy-") && name.len() == "toy-".len() + 8,
        "{name}"
    );
    let entries = entries(dir);
    assert!(
        entries
            .iter()
            .enumerate()
            .all(|(at, entry)| entry.seq == at as u64)
    );
    assert!(matches!(&entries[0].event, Event::RunCreated { name: found, .. } if found == name));
    let started = entries.iter().find_map(|entry| match &entry.event {
        Event::AttemptStarted { environment, .. } => Some(environment.as_ref().clone()),
        _ => None,
    });
    assert!(!started.unwrap().hostname.is_empty());
    assert_eq!(
        states(dir),
        [RunState::Starting, RunState::Running, RunState::Completed]
    );
    assert_eq!(
        std::fs::read_to_string(dir.config_source()).unwrap(),
        "the source"
    );
    assert_eq!(
        std::fs::read_to_string(dir.config()).unwrap(),
        config.to_toml()
    );
    let (summary, source) = store::summary_from(dir).unwrap();
    assert_eq!(
        (summary.step, source),
        (Step::new(30), store::Source::Cache)
    );
    assert!(!is_alive(dir));
    assert!(!dir.control_socket().exists());
    let rows = store::metrics(dir, &store::MetricQuery::default()).unwrap();
    assert_eq!(rows.iter().filter(|row| row.name == "loss").count(), 30);
}

#[test]
fn a_dead_worker_is_replaced_and_the_summary_follows() {
    let folder = tempfile::tempdir().unwrap();
    let finished = start(
        folder.path(),
        &config(),
        vec![dying(0, 20), dying(10, 25), completing(20, 40)],
    );
    assert_eq!(finished.state, RunState::Completed);
    let summary = store::summary(&finished.dir).unwrap();
    assert_eq!(summary.attempts, Attempt::new(3));
    let rows = store::metrics(&finished.dir, &store::MetricQuery::default()).unwrap();
    let steps: Vec<u64> = rows
        .iter()
        .filter(|row| row.name == "loss")
        .map(|row| row.step.get())
        .collect();
    assert_eq!(steps, (1..=40).collect::<Vec<_>>());
    let attempts = entries(&finished.dir)
        .iter()
        .filter(|entry| matches!(entry.event, Event::AttemptStarted { .. }))
        .map(|entry| entry.attempt.get())
        .max();
    assert_eq!(attempts, Some(3));
}

#[test]
fn a_fault_of_the_worker_decides_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let script: Script = Box::new(|_, mut talk| {
        talk.train(0, 3);
        let fault = Fault::training("the loss is not finite").at(Step::new(4));
        talk.say(&FromWorker::Failed(Box::new(fault)));
        Ending::Exited(4)
    });
    let finished = start(folder.path(), &config(), vec![script]);
    assert_eq!(finished.state, RunState::Failed);
    let fault = finished.fault.unwrap();
    assert_eq!(fault.class, FaultClass::Training);
    assert_eq!(fault.rank.map(crate::run::Rank::get), Some(0));
    assert_eq!(
        store::summary(&finished.dir).unwrap().reason,
        "the loss is not finite"
    );
}

#[test]
fn a_run_is_controlled_from_outside_and_cannot_be_resumed_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    // Longer than a socket's path may be.
    let deep = folder.path().join("d".repeat(150));
    thread::scope(|scope| {
        let run = scope.spawn(|| start(&deep, &config(), vec![obedient(5)]));
        let dir = run_in(&deep);
        let summary = wait_for(|| match control(&dir, ControlRequest::Status) {
            Ok(ControlReply::Status(summary)) if summary.step == Step::new(5) => Some(summary),
            _ => None,
        });
        assert_eq!(summary.state, RunState::Running);
        assert!(is_alive(&dir));
        let refused = resume(&dir, vec![]).unwrap_err();
        assert_eq!(refused.class, FaultClass::Usage);
        assert!(refused.message.contains("alive"), "{refused}");
        let reply = control(&dir, ControlRequest::Checkpoint).unwrap();
        assert_eq!(reply, ControlReply::Accepted);
        assert_eq!(store::summary(&dir).unwrap().checkpoints.len(), 1);
        assert_eq!(
            control(&dir, ControlRequest::Pause).unwrap(),
            ControlReply::Accepted
        );
        let finished = run.join().unwrap();
        assert_eq!(finished.state, RunState::Paused);
        assert!(
            finished.reason.contains("trainer pause"),
            "{}",
            finished.reason
        );
        let fault = control(&dir, ControlRequest::Pause).unwrap_err();
        assert!(fault.message.contains("not alive"), "{fault}");
    });
}

#[test]
fn a_paused_run_goes_on_and_a_complete_one_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let finished = thread::scope(|scope| {
        let run = scope.spawn(|| start(folder.path(), &config(), vec![obedient(5)]));
        let dir = run_in(folder.path());
        wait_for(|| control(&dir, ControlRequest::Stop).ok());
        run.join().unwrap()
    });
    assert_eq!(finished.state, RunState::Cancelled);
    let resumed = resume(&finished.dir, vec![completing(5, 9)]).unwrap();
    assert_eq!(resumed.state, RunState::Completed);
    let summary = store::summary(&finished.dir).unwrap();
    assert_eq!(
        (summary.attempts, summary.step),
        (Attempt::new(2), Step::new(9))
    );
    let before = entries(&finished.dir).len();
    let again = resume(&finished.dir, vec![]).unwrap();
    assert_eq!(again.state, RunState::Completed);
    assert_eq!(entries(&finished.dir).len(), before);
}

#[test]
fn a_supervisor_without_a_last_word_is_noted_on_resume() {
    let folder = tempfile::tempdir().unwrap();
    let finished = start(folder.path(), &config(), vec![completing(0, 5)]);
    let dir = finished.dir;
    // As after a kill: the journal ends in the middle of a line of the running state.
    let text = std::fs::read_to_string(dir.journal()).unwrap();
    let cut = text.find("step_finished").unwrap() + 20;
    std::fs::write(dir.journal(), &text[..cut]).unwrap();
    let resumed = resume(&dir, vec![completing(0, 5)]).unwrap();
    assert_eq!(resumed.state, RunState::Completed);
    let causes: Vec<StateCause> = entries(&dir)
        .iter()
        .filter_map(|entry| match entry.event {
            Event::StateChanged { cause, .. } => Some(cause),
            _ => None,
        })
        .collect();
    assert_eq!(
        causes,
        [
            StateCause::Started,
            StateCause::TrainingBegan,
            StateCause::FoundDead,
            StateCause::Started,
            StateCause::TrainingBegan,
            StateCause::LengthReached
        ]
    );
    let warned = entries(&dir).iter().any(
        |entry| matches!(&entry.event, Event::Warned { message } if message.contains("cut or garbled")),
    );
    assert!(warned);
}

#[test]
fn a_changed_config_needs_permission() {
    let folder = tempfile::tempdir().unwrap();
    let own = config();
    let finished = start(folder.path(), &own, vec![completing(0, 5)]);
    let mut other = own.clone();
    other.train.length = crate::config::Length::Epochs(2);
    let mut request = Resume {
        dir: &finished.dir,
        checkpoint: None,
        config: Some((&other, "the new source")),
        allow_config_change: false,
    };
    let before = std::fs::read(finished.dir.journal()).unwrap();
    let refused = resume_with(request, &mut [], &mut Threads::default()).unwrap_err();
    assert_eq!(refused.class, FaultClass::Usage);
    assert!(refused.message.contains("epochs"), "{refused}");
    assert_eq!(std::fs::read(finished.dir.journal()).unwrap(), before);
    request.allow_config_change = true;
    let mut threads = Threads::new(vec![completing(5, 10)]);
    let resumed = resume_with(request, &mut [], &mut threads).unwrap();
    assert_eq!(resumed.state, RunState::Completed);
    let job = threads.jobs.lock().unwrap()[0].clone();
    assert_eq!(job.config_sha256, other.sha256());
    assert_eq!(
        std::fs::read_to_string(finished.dir.config()).unwrap(),
        other.to_toml()
    );
    let summary = store::summary(&finished.dir).unwrap();
    assert_eq!(summary.config_sha256, other.sha256());
    // The changed config is the run's own from now on.
    assert_eq!(
        resume(&finished.dir, vec![]).unwrap().state,
        RunState::Completed
    );
}

#[test]
fn a_tampered_config_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let finished = start(folder.path(), &config(), vec![completing(0, 5)]);
    let text = std::fs::read_to_string(finished.dir.config()).unwrap();
    std::fs::write(
        finished.dir.config(),
        text.replacen("seed = ", "seed = 1", 1),
    )
    .unwrap();
    let refused = resume(&finished.dir, vec![]).unwrap_err();
    assert_eq!(refused.class, FaultClass::Damaged);
}

#[test]
fn a_checkpoint_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let finished = start(folder.path(), &config(), vec![completing(0, 5)]);
    let request = Resume {
        dir: &finished.dir,
        checkpoint: Some("step-00000003"),
        config: None,
        allow_config_change: false,
    };
    let refused = resume_with(request, &mut [], &mut Threads::default()).unwrap_err();
    assert_eq!(refused.class, FaultClass::Usage);
}

#[test]
fn no_worker_to_be_had_is_a_fault_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let finished = start(folder.path(), &config(), vec![]);
    assert_eq!(finished.state, RunState::Failed);
    assert_eq!(finished.fault.unwrap().class, FaultClass::Machine);
    assert!(!is_alive(&finished.dir));
}

#[test]
fn followers_see_every_entry_and_one_that_does_not_read_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (go, wait) = std::sync::mpsc::channel();
    let script: Script = Box::new(move |_, mut talk| {
        let _ = wait.recv();
        talk.train(0, 3000);
        talk.done(Outcome::Completed)
    });
    thread::scope(|scope| {
        let run = scope.spawn(|| start(folder.path(), &config(), vec![script]));
        let dir = run_in(folder.path());
        let stuck = wait_for(|| follow(&dir).ok());
        let reading = follow(&dir).unwrap();
        // Both are followers before the training begins.
        wait_for(|| control(&dir, ControlRequest::Status).ok());
        let reader = scope.spawn(move || {
            let (mut seen, mut skipped) = (Vec::new(), 0);
            for reply in reading {
                match reply {
                    ControlReply::Entry(entry) => seen.push(entry.seq),
                    ControlReply::Skipped(count) => skipped += count,
                    other => panic!("{other:?}"),
                }
            }
            (seen, skipped)
        });
        go.send(()).unwrap();
        assert_eq!(run.join().unwrap().state, RunState::Completed);
        let (seen, skipped) = reader.join().unwrap();
        assert!(
            seen.is_sorted() && seen.len() as u64 + skipped > 3000,
            "{} {skipped}",
            seen.len()
        );
        drop(stuck);
    });
}

/// Collects what displays get.
struct Collect(Arc<Mutex<Vec<u64>>>);

impl Reader for Collect {
    fn take(&mut self, entry: &Entry) {
        self.0.lock().unwrap().push(entry.seq);
    }
}

#[test]
fn displays_get_what_the_journal_has() {
    let folder = tempfile::tempdir().unwrap();
    let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
    let mut readers: Vec<Box<dyn Reader + Send>> = vec![Box::new(Collect(Arc::clone(&seen)))];
    let config = config();
    let new = NewRun {
        config: &config,
        source: "",
        runs_dir: folder.path(),
    };
    let mut threads = Threads::new(vec![completing(0, 500)]);
    let finished = start_with(new, &mut readers, &mut threads).unwrap();
    let journaled: Vec<u64> = entries(&finished.dir)
        .iter()
        .map(|entry| entry.seq)
        .collect();
    assert_eq!(*seen.lock().unwrap(), journaled);
}
