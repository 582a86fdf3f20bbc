//! What training is given, and how it begins and ends.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;

use super::due::Due;
use super::group::{Group, vector_len};
use super::halt::Halt;
use super::learner::Learner;
use super::memory::MemoryWatch;
use super::metric::Meter;
use super::save::Saver;
use super::state::{About, Boundary, Progress, State, Told};
use super::step::Session;
use super::watch::{self, MetricWatch};
use crate::checkpoint::{Snapshot, TrainState};
use crate::collective::Collective;
use crate::config::Config;
use crate::data::{Dataset, Part, Prefetcher};
use crate::ops;
use crate::plan::Timetable;
use crate::run::wire::{Outcome, Phase};
use crate::run::{Command, Event, Fault, Place, Rank, Step};

/// Where training tells what happens, and hears what is asked of it.
pub trait Reporter {
    /// Something happened. Events with a place are known to all workers of a group and told by the
    /// first; one that takes over may tell some again, at the same place.
    fn event(&mut self, place: Option<Place>, event: Event);

    /// All workers of the group hold the same state; told to the first one.
    fn agreed(&mut self);

    /// The next command that has arrived, if any. Does not wait.
    fn command(&mut self) -> Option<Command>;

    /// What training does from now on; cheap, called at least once per step.
    fn phase(&mut self, step: Step, phase: Phase);
}

/// Finds the checkpoint to continue from, with its directory name; called by one worker of a group,
/// and only when none of them holds a state in memory.
pub type FindCheckpoint<'a> =
    dyn FnMut(&mut dyn Reporter) -> Result<Option<(String, Snapshot)>, Fault> + Send + 'a;

/// One training, from a fresh start or from a checkpoint.
pub struct Job<'a> {
    /// Resolved config.
    pub config: &'a Config,
    /// Its SHA-256, written into checkpoints.
    pub config_sha256: &'a str,
    /// Data.
    pub dataset: Arc<Dataset>,
    /// Where tensors live, without autodiff.
    pub device: Device,
    /// Directory that checkpoints are written to; without one, none are written.
    pub checkpoints: Option<&'a Path>,
    /// Checkpoint to continue from.
    pub checkpoint: Box<FindCheckpoint<'a>>,
    /// Place of this process among the workers of the run, for what it says of itself.
    pub slot: Rank,
}

/// How a worker's part in a group ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With the training.
    Done(Outcome),
    /// The group came apart. The trainee holds the state of its last finished step and can go on in
    /// another.
    Interrupted,
}

/// A worker's side of a training: model, weights and optimiser in memory, from group to group.
pub struct Trainee<'a> {
    job: Job<'a>,
    timetable: Timetable,
    state: State,
    /// Whether `state` is that of the run, and not only its beginning.
    holds: bool,
    /// Whether the run had ended already at the step of `state`.
    ended: bool,
    saver: Option<Saver>,
}

impl<'a> Trainee<'a> {
    /// Builds the model. No device memory is written but that of fresh weights.
    ///
    /// # Errors
    ///
    /// When config and data do not fit together.
    pub fn new(job: Job<'a>, reporter: &mut dyn Reporter) -> Result<Self, Fault> {
        reporter.phase(Step::new(0), Phase::Preparing);
        let (config, dataset) = (job.config, &job.dataset);
        let samples = dataset.samples(Part::Train);
        if samples == 0 {
            return Err(Fault::usage("the training part of the data is empty")
                .advise("check `[data]` with `trainer data inspect`"));
        }
        let measured = match dataset.samples(Part::Validation) {
            0 => Vec::new(),
            _ => Meter::new(dataset.target(), config.eval.top_k).names(),
        };
        watch::check(config, &measured)?;
        let learner = Learner::new(config, dataset.input(), dataset.target(), &job.device)?;
        let early_stopping = config.train.early_stopping.as_ref();
        if job.slot.get() == 0 {
            let event = Event::ModelBuilt {
                layers: learner.network.summary(),
                parameters: learner.network.parameter_count() as u64,
            };
            reporter.event(None, event);
        }
        Ok(Self {
            timetable: Timetable::new(config, samples),
            state: State {
                learner,
                watch: MetricWatch::new(&config.checkpoint, early_stopping),
                step: Step::new(0),
                boundary: Boundary::Done,
                told: Told::default(),
            },
            holds: false,
            ended: false,
            saver: None,
            job,
        })
    }

    /// Numbers of a vector that a group sums in a step.
    #[must_use]
    pub fn vector_len(&self) -> usize {
        vector_len(&self.state.learner)
    }

    /// The step of the state in memory, if there is one.
    #[must_use]
    pub fn step(&self) -> Option<Step> {
        self.holds.then_some(self.state.step)
    }

    /// Trains as one of a group until the configured length, early stopping, or a command that ends
    /// it; a checkpoint exists for the step it ended at. Or until the group comes apart.
    ///
    /// # Errors
    ///
    /// When config, data and checkpoint do not fit together; when a loss or gradient is not finite;
    /// when data cannot be read, the device fails, or the last checkpoint cannot be written.
    /// Checkpoints written before stay.
    pub fn train(
        &mut self,
        collective: Box<dyn Collective>,
        reporter: &mut dyn Reporter,
    ) -> Result<Ended, Fault> {
        let mut group = Group::new(collective);
        let trained = match self.agree(&mut group, reporter) {
            Ok(Some(outcome)) => Ok(outcome),
            Ok(None) => self.run(&mut group, reporter),
            Err(halt) => Err(halt),
        };
        match trained {
            Ok(outcome) => Ok(Ended::Done(outcome)),
            Err(Halt::Regroup) => Ok(Ended::Interrupted),
            Err(Halt::Fault(fault)) => Err(fault),
        }
    }

    /// All workers of the group get the state of the one that has come farthest, or of the
    /// checkpoint. Returns how the run had ended already, if it had.
    fn agree(
        &mut self,
        group: &mut Group,
        reporter: &mut dyn Reporter,
    ) -> Result<Option<Outcome>, Halt> {
        let mine: Option<Progress> = self.holds.then(|| self.state.progress());
        let all = group.exchange(&mine)?;
        let ranks = (0..).map(Rank::new);
        let best = all.iter().copied().max().flatten();
        let source = ranks.zip(&all).find(|(_, of)| of.is_some() && **of == best);
        let Some((source, _)) = source else {
            return self.start(group, reporter);
        };
        if all.iter().any(|of| *of != best) {
            let mut bytes = if source == group.seat().rank {
                self.state.pack(about(&self.job, &self.timetable))?
            } else {
                Vec::new()
            };
            group.broadcast(source, &mut bytes)?;
            if mine != best {
                self.state.adopt(self.job.config, &bytes)?;
                self.holds = true;
            }
        }
        if group.seat().is_first() {
            reporter.agreed();
            reporter.phase(self.state.step, Phase::Stepping);
            for (place, event) in self.state.told.recent() {
                reporter.event(Some(place), event);
            }
        }
        Ok(None)
    }

    /// Nobody holds a state: the first worker looks for a checkpoint, and gives it to all.
    fn start(
        &mut self,
        group: &mut Group,
        reporter: &mut dyn Reporter,
    ) -> Result<Option<Outcome>, Halt> {
        let is_first = group.seat().is_first();
        let found = if is_first {
            (self.job.checkpoint)(reporter)?
        } else {
            None
        };
        let mut bytes = Vec::new();
        let mut name = String::new();
        if let Some((directory, snapshot)) = found {
            self.check_data(&snapshot.state, reporter)?;
            name = directory;
            bytes = snapshot.pack()?;
        }
        let mut name = name.into_bytes();
        group.broadcast(Rank::new(0), &mut name)?;
        group.broadcast(Rank::new(0), &mut bytes)?;
        let mut told = Vec::new();
        if !bytes.is_empty() {
            let snapshot = Snapshot::unpack(&bytes)?;
            self.state.restore(self.job.config, &snapshot)?;
            self.ended = snapshot.state.ended;
            told = snapshot.state.told;
        }
        self.holds = true;
        let ended = self.finished();
        if ended.is_none() {
            let began = Event::TrainingBegan {
                step: self.state.step,
                steps_total: self.timetable.steps_total(),
                steps_per_epoch: self.timetable.steps_per_epoch(),
                checkpoint: String::from_utf8(name).ok().filter(|name| !name.is_empty()),
                device: ops::device::describe(&self.job.device),
            };
            told.retain(|event| !matches!(event, Event::TrainingBegan { .. }));
            // What was told of this step may have been lost with the supervisor: it is told again, and
            // recorded if it is news.
            for event in std::iter::once(began).chain(told) {
                let place = self.state.told.note(self.state.step, event.clone());
                if is_first {
                    reporter.event(Some(place), event);
                }
            }
        }
        Ok(ended)
    }

    fn run(&mut self, group: &mut Group, reporter: &mut dyn Reporter) -> Result<Outcome, Halt> {
        let (config, step) = (self.job.config, self.state.step);
        let evaluation = Due::new(config.eval.every);
        if step.get() >= self.timetable.steps_total() && self.state.boundary == Boundary::Done {
            // The config was made shorter: the end that this step has become is still to be measured.
            self.state.boundary = Boundary::Open {
                scheduled: evaluation.at(step, &self.timetable),
            };
        }
        let seat = group.seat();
        if seat.is_first() && self.saver.is_none() {
            let start = |folder| Saver::start(folder, &config.checkpoint, step);
            self.saver = self.job.checkpoints.map(start);
        }
        let batches = Prefetcher::start(
            Arc::clone(&self.job.dataset),
            self.timetable.clone(),
            config.seed,
            step,
            config.train.prefetch as usize,
            seat,
        );
        let mut session = Session {
            config,
            about: about(&self.job, &self.timetable),
            dataset: &self.job.dataset,
            timetable: &self.timetable,
            state: &mut self.state,
            group,
            batches,
            saver: self.saver.as_mut().filter(|_| seat.is_first()),
            evaluation,
            memory: MemoryWatch::new(self.job.slot),
            carried_seconds: 0.0,
            reporter,
        };
        let outcome = session.run();
        session.end(outcome)
    }

    /// How the run had ended already when its checkpoint was written, if it asks for nothing more: it
    /// died between its last checkpoint and its last word, or it is resumed without being extended.
    fn finished(&self) -> Option<Outcome> {
        if !self.ended {
            None
        } else if self.state.step.get() >= self.timetable.steps_total() {
            Some(Outcome::Completed)
        } else if self.state.watch.stops() {
            Some(Outcome::EarlyStopped)
        } else {
            None
        }
    }

    /// The data must be those that the checkpoint was trained on, unless the config was changed.
    fn check_data(&self, state: &TrainState, reporter: &mut dyn Reporter) -> Result<(), Fault> {
        let found = &self.job.dataset.summary().fingerprint;
        if *found == state.data_fingerprint {
            return Ok(());
        }
        let message = format!(
            "the data are not those that the checkpoint was trained on (fingerprint {found}, then {})",
            state.data_fingerprint
        );
        if state.config_sha256 == self.job.config_sha256 {
            return Err(Fault::damaged(message)
                .at(state.step)
                .advise("bring the files back to what they were, or start a new run"));
        }
        reporter.event(None, Event::Warned { message });
        Ok(())
    }
}

/// What is said of a state beside its tensors.
fn about<'b>(job: &'b Job<'_>, timetable: &'b Timetable) -> About<'b> {
    About {
        config_sha256: job.config_sha256,
        data_fingerprint: &job.dataset.summary().fingerprint,
        timetable,
    }
}
