//! A small experiment, and a reporter that records and commands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use burn::tensor::Device;

use crate::checkpoint::{self, Snapshot, TrainState};
use crate::collective::{Collective, Handle, Segment, Shm, Solo};
use crate::config::{
    self, Activation, Checkpoint, Config, Data, Eval, Every, ImageData, ImageFormat, Keep,
    LayerConfig, Layers, Length, Log, Loss, Model, Normalize, Optimizer, Recovery, Resources,
    Schedule, Slots, Split, SumOrder, Train,
};
use crate::data::Dataset;
use crate::plan::nodes_max;
use crate::run::wire::{Outcome, Phase};
use crate::run::{Command, Event, Fault, Place, Rank, Step, WorldSize};
use crate::train::{Ended, Job, Reporter, Trainee};

/// Side of the images, in pixels.
const SIDE: usize = 6;
/// Classes of the images.
const CLASSES: usize = 3;
/// Images in the file.
pub(in crate::train) const IMAGES: usize = 75;
/// Images that are left for training, of which [`config`] makes five steps per epoch.
pub(in crate::train) const STEPS_PER_EPOCH: u64 = 5;

/// A convolutional network with batch normalisation and dropout, on augmented images, in batches
/// whose last one is short and in shards of unequal size.
pub(in crate::train) fn config() -> Config {
    Config {
        name: "test".into(),
        seed: 7,
        data: Data::Images(images(Path::new("images.idx"), Path::new("labels.idx"))),
        model: Model::Layers(Layers { layers: layers() }),
        train: Train {
            length: Length::Epochs(3),
            global_batch: 14,
            shards: 3,
            reduction: SumOrder::Canonical,
            clip_norm: 1.0,
            loss: Loss::Auto,
            label_smoothing: 0.1,
            early_stopping: None,
            prefetch: 0,
        },
        optimizer: Optimizer::Adamw {
            learning_rate: 0.01,
            betas: [0.9, 0.99],
            epsilon: 1e-8,
            weight_decay: 0.05,
        },
        schedule: Schedule::Cosine {
            warmup: Length::Steps(3),
            final_ratio: 0.1,
        },
        eval: Eval {
            every: Every::Epochs(1),
            batch: 4,
            top_k: 2,
        },
        resources: Resources {
            backend: config::Backend::Flex,
            slots: Slots::Count(1),
            devices: Vec::new(),
            priority: 0,
            transport: config::Transport::Auto,
            threads: 2,
        },
        checkpoint: Checkpoint {
            every: Every::Epochs(1),
            keep: Keep {
                latest: 100,
                best: 1,
                every: 0,
            },
            metric: "validation/loss".into(),
            goal: config::Goal::Min,
        },
        recovery: Recovery {
            max_restarts: 3,
            window_s: 60,
            hang_timeout_s: 0,
            elastic: true,
            min_slots: 1,
        },
        log: Log { every: 1 },
    }
}

/// A config from its text.
#[track_caller]
pub(in crate::train) fn parsed(text: &str) -> Config {
    let source = config::Source {
        name: "test.toml".into(),
        text: text.into(),
    };
    match config::parse(&source, &[], &|_| None) {
        Ok(config) => config,
        Err(diagnostics) => panic!("{}", diagnostics.render(false)),
    }
}

fn layers() -> Vec<LayerConfig> {
    let relu = LayerConfig::Activation {
        function: Activation::Relu,
    };
    let conv = |out| LayerConfig::Conv2d {
        out,
        kernel: 3,
        stride: 1,
        padding: 1,
        bias: false,
    };
    vec![
        conv(4),
        LayerConfig::BatchNorm,
        relu.clone(),
        LayerConfig::MaxPool2d {
            kernel: 2,
            stride: 2,
            padding: 0,
        },
        conv(6),
        LayerConfig::BatchNorm,
        relu,
        LayerConfig::Flatten,
        LayerConfig::Dropout { p: 0.2 },
        LayerConfig::Linear { out: 0, bias: true },
    ]
}

fn images(images: &Path, labels: &Path) -> ImageData {
    ImageData {
        format: ImageFormat::Idx,
        train: images.to_path_buf(),
        train_labels: labels.to_path_buf(),
        validation: Split::Fraction(0.1),
        validation_labels: PathBuf::new(),
        test: Split::None,
        test_labels: PathBuf::new(),
        size: [0, 0],
        channels: 0,
        normalize: Normalize::Auto,
        augment: config::Augment {
            flip: 0.5,
            crop_padding: 1,
        },
    }
}

/// A scratch folder with images of three kinds of bars, and checkpoints.
pub(in crate::train) struct Bench {
    folder: tempfile::TempDir,
    pub(in crate::train) config: Config,
}

impl Bench {
    /// With a changed config.
    pub(in crate::train) fn new(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (pixels, labels) = (
            folder.path().join("images.idx"),
            folder.path().join("labels.idx"),
        );
        write_images(&pixels, &labels);
        let mut config = config();
        let mut data = images(&pixels, &labels);
        data.test = Split::None;
        config.data = Data::Images(data);
        change(&mut config);
        Self { folder, config }
    }

    pub(in crate::train) fn dataset(&self) -> Arc<Dataset> {
        Arc::new(Dataset::open(&self.config.data, self.config.seed, None).unwrap())
    }

    fn checkpoints(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Trains into the folder `name`, from a checkpoint if one is given.
    pub(in crate::train) fn train(
        &self,
        name: &str,
        checkpoint: Option<Snapshot>,
        reporter: &mut Recorder,
    ) -> Result<Outcome, Fault> {
        self.train_on(self.dataset(), name, checkpoint, reporter)
    }

    /// As [`Bench::train`], on an opened data set.
    pub(in crate::train) fn train_on(
        &self,
        dataset: Arc<Dataset>,
        name: &str,
        checkpoint: Option<Snapshot>,
        reporter: &mut Recorder,
    ) -> Result<Outcome, Fault> {
        let checkpoints = self.checkpoints(name);
        let mut trainee = self.trainee(0, dataset, &checkpoints, checkpoint, reporter)?;
        let alone = Solo::new(trainee.vector_len(), 1);
        match trainee.train(Box::new(alone), reporter)? {
            Ended::Done(outcome) => Ok(outcome),
            Ended::Interrupted => panic!("nobody interrupts"),
        }
    }

    fn trainee<'a>(
        &'a self,
        slot: u32,
        dataset: Arc<Dataset>,
        checkpoints: &'a Path,
        mut checkpoint: Option<Snapshot>,
        reporter: &mut Recorder,
    ) -> Result<Trainee<'a>, Fault> {
        let job = Job {
            config: &self.config,
            config_sha256: "test",
            dataset,
            device: Device::flex(),
            checkpoints: Some(checkpoints),
            checkpoint: Box::new(move |_: &mut dyn Reporter| {
                Ok(checkpoint
                    .take()
                    .map(|snapshot| ("given".to_string(), snapshot)))
            }),
            slot: Rank::new(slot),
        };
        Trainee::new(job, reporter)
    }

    /// Trains into the folder `name` with groups of workers, one thread each, one group after another:
    /// each group trains until its first worker has reported the given step, then falls apart, and
    /// the workers of the next one go on; those that were not there before start afresh. The last
    /// group trains to the end. Returns what was reported, without repetitions.
    pub(in crate::train) fn train_groups(
        &self,
        name: &str,
        groups: &[(u32, Option<u64>)],
    ) -> Recorder {
        let (checkpoints, dataset) = (self.checkpoints(name), self.dataset());
        let train = &self.config.train;
        let mut trainees: Vec<(Trainee<'_>, Recorder)> = Vec::new();
        let mut reported = Recorder::default();
        for &(size, until) in groups {
            trainees.truncate(size as usize);
            for slot in trainees.len() as u32..size {
                let mut recorder = Recorder::default();
                let dataset = Arc::clone(&dataset);
                let trainee = self.trainee(slot, dataset, &checkpoints, None, &mut recorder);
                trainees.push((trainee.unwrap(), recorder));
            }
            let world = WorldSize::new(size);
            let nodes_max = nodes_max(train.shards, world, train.reduction);
            let segment = Segment::create(world, trainees[0].0.vector_len(), nodes_max).unwrap();
            let join = |rank| Shm::join(&segment, Rank::new(rank), Duration::from_mins(1)).unwrap();
            let members: Vec<Shm> = (0..size).map(join).collect();
            let handles: Vec<_> = members.iter().map(Collective::handle).collect();
            trainees[0].1.ends = until.map(|step| (step, handles));
            let ended = thread::scope(|scope| {
                let threads: Vec<_> = trainees
                    .iter_mut()
                    .zip(members)
                    .map(|((trainee, recorder), member)| {
                        scope.spawn(move || trainee.train(Box::new(member), recorder).unwrap())
                    })
                    .collect();
                let ended = threads.into_iter().map(|thread| thread.join().unwrap());
                ended.collect::<Vec<_>>()
            });
            assert!(ended.iter().all(|one| *one == ended[0]), "{ended:?}");
            assert_eq!(ended[0] == Ended::Interrupted, until.is_some());
            reported.absorb(&mut trainees[0].1);
        }
        reported
    }

    /// The newest checkpoint in the folder `name`.
    pub(in crate::train) fn newest(&self, name: &str) -> Snapshot {
        let (newest, rejected) = checkpoint::newest_good(&self.checkpoints(name)).unwrap();
        assert!(rejected.is_empty(), "{rejected:?}");
        newest.unwrap().1
    }
}

fn write_images(images: &Path, labels: &Path) {
    let side = SIDE as u8;
    let mut pixels = vec![
        0,
        0,
        8,
        3,
        0,
        0,
        0,
        IMAGES as u8,
        0,
        0,
        0,
        side,
        0,
        0,
        0,
        side,
    ];
    let mut classes = vec![0, 0, 8, 1, 0, 0, 0, IMAGES as u8];
    for image in 0..IMAGES {
        let class = image * 7 % CLASSES;
        classes.push(class as u8);
        for place in 0..SIDE * SIDE {
            let (row, column) = (place / SIDE, place % SIDE);
            let bar = match class {
                0 => row % 3 == image % 3,
                1 => column % 3 == image % 3,
                _ => (row + column) % 3 == image % 3,
            };
            // Some noise, without pattern: no two images are the same.
            let noise = (image * 131 + place * 37 + image * place * 11) % 97;
            pixels.push(if bar { 150 + noise } else { noise } as u8);
        }
    }
    std::fs::write(images, pixels).unwrap();
    std::fs::write(labels, classes).unwrap();
}

/// What a checkpoint remembers, but for what was told of its step: that has times in it.
pub(in crate::train) fn remembered(snapshot: &Snapshot) -> TrainState {
    TrainState {
        told: Vec::new(),
        ..snapshot.state.clone()
    }
}

/// Records what happens, and gives commands when certain steps are finished.
#[derive(Default)]
pub(in crate::train) struct Recorder {
    pub(in crate::train) events: Vec<Event>,
    pub(in crate::train) commands: BTreeMap<u64, Vec<Command>>,
    pub(in crate::train) phases: Vec<(u64, Phase)>,
    step: u64,
    /// What was told of the step that training continued from.
    pub(in crate::train) repeated: Vec<Event>,
    /// Where training began.
    began: Option<Step>,
    /// Place of the last event that has one.
    told: Option<Place>,
    /// What to abort once this step is reported.
    ends: Option<(u64, Vec<Handle>)>,
}

impl Recorder {
    /// Gives `command` at the boundary after `step` steps.
    pub(in crate::train) fn at(step: u64, command: Command) -> Self {
        Self {
            commands: BTreeMap::from([(step, vec![command])]),
            ..Self::default()
        }
    }

    /// Steps of the reported steps.
    pub(in crate::train) fn steps(&self) -> Vec<u64> {
        let steps = self.events.iter().filter_map(|event| match event {
            Event::StepFinished(report) => Some(report.step.get()),
            _ => None,
        });
        steps.collect()
    }

    /// Losses of the reported steps, bit for bit.
    pub(in crate::train) fn losses(&self) -> Vec<u64> {
        let losses = self.events.iter().filter_map(|event| match event {
            Event::StepFinished(report) => Some(report.loss.to_bits()),
            _ => None,
        });
        losses.collect()
    }

    /// Split, step and metrics of all evaluations.
    pub(in crate::train) fn evaluations(&self) -> Vec<(String, u64, BTreeMap<String, f64>)> {
        let found = self.events.iter().filter_map(|event| match event {
            Event::Evaluated {
                step,
                split,
                metrics,
                ..
            } => Some((split.clone(), step.get(), metrics.clone())),
            _ => None,
        });
        found.collect()
    }

    /// Steps of committed checkpoints.
    pub(in crate::train) fn checkpoints(&self) -> BTreeSet<u64> {
        let steps = self.events.iter().filter_map(|event| match event {
            Event::CheckpointCommitted(info) => Some(info.step.get()),
            _ => None,
        });
        steps.collect()
    }
}

impl Recorder {
    /// Takes what a later group has reported, but for what was known.
    fn absorb(&mut self, later: &mut Recorder) {
        self.events.append(&mut later.events);
        self.phases.append(&mut later.phases);
    }
}

impl Reporter for Recorder {
    fn event(&mut self, place: Option<Place>, event: Event) {
        if place.is_some() && place <= self.told {
            return;
        }
        self.told = self.told.max(place);
        // As a supervisor does with what it has recorded before.
        if let Event::TrainingBegan { step, .. } = &event {
            self.began = Some(*step);
        } else if place.is_some_and(|place| Some(place.step) <= self.began) {
            self.repeated.push(event);
            return;
        }
        if let Event::StepFinished(report) = &event {
            self.step = report.step.get();
            let due = |(step, _): &mut (u64, Vec<Handle>)| *step <= report.step.get();
            if let Some((_, handles)) = self.ends.take_if(due) {
                handles.iter().for_each(Handle::abort);
            }
        }
        self.events.push(event);
    }

    fn agreed(&mut self) {}

    fn command(&mut self) -> Option<Command> {
        let waiting = self.commands.get_mut(&self.step)?;
        (!waiting.is_empty()).then(|| waiting.remove(0))
    }

    fn phase(&mut self, step: Step, phase: Phase) {
        self.step = step.get();
        self.phases.push((step.get(), phase));
    }
}
