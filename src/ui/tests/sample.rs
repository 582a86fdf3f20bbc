//! A run as events, with fixed times.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::super::Origin;
use crate::run::{
    Attempt, Best, CheckpointInfo, ClassCount, DataSummary, Entry, Environment, Epoch, Event,
    Fault, LayerSummary, MetricPoint, PartSummary, Phases, Rank, RunState, RunSummary, SampleId,
    StateCause, Step, StepReport,
};

/// 2026-11-30 10:03:21 UTC.
pub(super) const BEGIN_MS: u64 = 1_796_033_001_000;
/// Steps of the sample run.
pub(super) const STEPS: u64 = 120;
/// Steps of one of its epochs.
pub(super) const EPOCH: u64 = 40;

/// Collects entries, one after another in time.
pub(super) struct Script {
    pub(super) entries: Vec<Entry>,
    pub(super) now_ms: u64,
    pub(super) attempt: Attempt,
}

impl Script {
    pub(super) fn new() -> Self {
        Self {
            entries: Vec::new(),
            now_ms: BEGIN_MS,
            attempt: Attempt::new(1),
        }
    }

    /// Something happens `after_ms` later.
    pub(super) fn then(&mut self, after_ms: u64, event: Event) -> &mut Self {
        self.now_ms += after_ms;
        self.entries.push(Entry {
            seq: self.entries.len() as u64,
            time_ms: self.now_ms,
            attempt: self.attempt,
            event,
        });
        self
    }

    fn state(&mut self, from: RunState, to: RunState, cause: StateCause, reason: &str) {
        let reason = reason.to_string();
        self.then(
            1,
            Event::StateChanged {
                from,
                to,
                cause,
                reason,
            },
        );
    }

    /// From nothing to the first step.
    pub(super) fn start(&mut self) -> &mut Self {
        self.then(
            0,
            Event::RunCreated {
                format: 1,
                id: "01939d5e-7c1a-7f00-8000-00001a2b3c4d".parse().unwrap(),
                name: "digits-1a2b3c4d".into(),
                config_sha256: "c0ffee".repeat(10),
            },
        );
        let (queued, starting) = (RunState::Queued, RunState::Starting);
        self.state(queued, starting, StateCause::Started, "started");
        let environment = Environment {
            hostname: "box".into(),
            cpu: "Some CPU".into(),
            cpu_count: 2,
            ..Environment::default()
        };
        self.then(
            2,
            Event::AttemptStarted {
                supervisor_pid: 7,
                environment: Box::new(environment),
            },
        );
        self.then(
            90,
            Event::DataPrepared {
                summary: Box::new(data()),
            },
        );
        let layer = LayerSummary {
            name: "layers.0".into(),
            kind: "Conv2d".into(),
            output: vec![16, 8, 8],
            parameters: 160,
        };
        self.then(
            20,
            Event::ModelBuilt {
                layers: vec![layer; 7],
                parameters: 34_826,
            },
        );
        self.began(0, None)
    }

    /// Training begins or goes on.
    pub(super) fn began(&mut self, step: u64, checkpoint: Option<&str>) -> &mut Self {
        self.then(
            5,
            Event::TrainingBegan {
                step: Step::new(step),
                steps_total: STEPS,
                steps_per_epoch: EPOCH,
                checkpoint: checkpoint.map(Into::into),
                device: "flex (CPU, 2 threads)".into(),
            },
        );
        let (starting, running) = (RunState::Starting, RunState::Running);
        self.state(starting, running, StateCause::TrainingBegan, "training");
        self
    }

    /// Steps after `from` up to `to`, each of `step_ms`.
    pub(super) fn steps(&mut self, from: u64, to: u64, step_ms: u64) -> &mut Self {
        for step in from + 1..=to {
            let report = step_report(step, step_ms);
            self.then(step_ms, Event::StepFinished(report));
        }
        self
    }

    pub(super) fn evaluated(&mut self, step: u64, split: &str) -> &mut Self {
        let loss = 2.0 / f64::from(u32::try_from(step).unwrap());
        self.then(
            300,
            Event::Evaluated {
                step: Step::new(step),
                epoch: Epoch::new(step / EPOCH),
                split: split.into(),
                samples: 382,
                seconds: 0.3,
                metrics: BTreeMap::from([
                    ("accuracy".into(), 1.0 - loss / 4.0),
                    ("loss".into(), loss),
                ]),
            },
        );
        self.then(
            0,
            Event::Improved {
                step: Step::new(step),
                metric: "validation/loss".into(),
                value: loss,
            },
        )
    }

    pub(super) fn checkpoint(&mut self, step: u64) -> &mut Self {
        self.then(40, Event::CheckpointCommitted(checkpoint(step)))
    }

    pub(super) fn ends(&mut self, to: RunState, cause: StateCause, reason: &str) -> &mut Self {
        self.state(RunState::Running, to, cause, reason);
        self
    }

    /// What goes wrong on the way without ending the run.
    pub(super) fn trouble(&mut self) -> &mut Self {
        self.then(
            10,
            Event::CheckpointFailed {
                step: Step::new(60),
                reason: "cannot write model.safetensors: No space left on device".into(),
            },
        );
        self.then(
            1,
            Event::Warned {
                message: "the disk is nearly full\nsecond line \u{1b}[2J".into(),
            },
        );
        self.then(
            5,
            Event::WorkerExited {
                rank: Rank::new(0),
                pid: 8,
                status: "signal 9 (SIGKILL)".into(),
                restarts: true,
            },
        )
    }
}

/// A run that goes well from beginning to end.
pub(super) fn good_run() -> Vec<Entry> {
    let mut script = Script::new();
    script.start();
    for epoch in 0..3 {
        script.steps(epoch * EPOCH, (epoch + 1) * EPOCH, 250);
        script.evaluated((epoch + 1) * EPOCH, "valid");
        script.checkpoint((epoch + 1) * EPOCH);
    }
    script.evaluated(STEPS, "test");
    script.ends(
        RunState::Completed,
        StateCause::LengthReached,
        "reached its configured length",
    );
    script.entries
}

/// A run that meets trouble, loses its worker, repeats steps, and fails.
pub(super) fn bad_run() -> Vec<Entry> {
    let mut script = Script::new();
    script.start();
    script
        .steps(0, 40, 250)
        .evaluated(40, "valid")
        .checkpoint(40);
    script.steps(40, 70, 250).trouble();
    script.began(40, Some("step-00000040")).steps(40, 50, 250);
    let fault = Fault::training("the loss of step 51 is not a number")
        .at(Step::new(51))
        .in_layer("head")
        .on_samples(&[SampleId::new(3), SampleId::new(14)])
        .advise("lower the learning rate");
    script.then(250, Event::FaultRaised { fault });
    script.ends(
        RunState::Failed,
        StateCause::FaultRaised,
        "the loss of step 51 is not a number",
    );
    script.entries
}

fn data() -> DataSummary {
    let part = |split: &str, samples| PartSummary {
        split: split.into(),
        samples,
        classes: vec![ClassCount {
            class: "0".into(),
            count: samples,
        }],
    };
    DataSummary {
        kind: "images".into(),
        fingerprint: "da7a".repeat(16),
        parts: vec![part("train", 3441), part("valid", 382), part("test", 1797)],
        facts: vec![],
        warnings: vec!["2 rows are in both train and valid".into()],
        seconds: 0.088,
    }
}

fn step_report(step: u64, step_ms: u64) -> StepReport {
    let x = f64::from(u32::try_from(step).unwrap());
    StepReport {
        step: Step::new(step),
        epoch: Epoch::new((step - 1) / EPOCH),
        samples: 64,
        tokens: 0,
        loss: 2.3 / x.sqrt(),
        learning_rate: 1e-3,
        gradient_norm: 1.5,
        seconds: f64::from(u32::try_from(step_ms).unwrap()) / 1000.0,
        phases: Phases::default(),
        metrics: BTreeMap::new(),
    }
}

fn checkpoint(step: u64) -> CheckpointInfo {
    CheckpointInfo {
        step: Step::new(step),
        directory: format!("step-{step:08}"),
        bytes: 421_000,
        model_sha256: "ab".repeat(32),
        metric: Some(0.05),
        blocked_seconds: 0.001,
        write_seconds: 0.012,
    }
}

/// The record of a run that was paused at step 80.
pub(super) fn paused_summary() -> RunSummary {
    let point = |step, value| MetricPoint {
        step: Step::new(step),
        value,
    };
    RunSummary {
        id: "01939d5e-7c1a-7f00-8000-00001a2b3c4d".parse().unwrap(),
        name: "digits-1a2b3c4d".into(),
        state: RunState::Paused,
        reason: "paused on request".into(),
        created_ms: BEGIN_MS,
        updated_ms: BEGIN_MS + 21_000,
        step: Step::new(80),
        steps_total: STEPS,
        steps_per_epoch: EPOCH,
        attempts: Attempt::new(1),
        workers: 1,
        best: Some(Best {
            metric: "validation/loss".into(),
            value: 0.025,
            step: Step::new(80),
        }),
        metrics: BTreeMap::from([
            (
                "train".into(),
                BTreeMap::from([("loss".into(), point(80, 0.257_147))]),
            ),
            (
                "valid".into(),
                BTreeMap::from([
                    ("accuracy".into(), point(80, 0.99375)),
                    ("loss".into(), point(80, 0.025)),
                ]),
            ),
        ]),
        checkpoints: vec![checkpoint(40), checkpoint(80)],
        config_sha256: "c0ffee".repeat(10),
        data_fingerprint: "da7a".repeat(16),
        parameters: 34_826,
        peak_bytes: 187_000_000,
        entries: 99,
    }
}

pub(super) fn new_origin() -> Origin {
    Origin::New {
        runs_dir: PathBuf::from("runs"),
    }
}

pub(super) fn existing_origin() -> Origin {
    Origin::Existing {
        directory: PathBuf::from("elsewhere/digits-1a2b3c4d"),
        summary: Box::new(paused_summary()),
    }
}

/// Output that a test can look at, and that can be closed.
#[derive(Clone, Default)]
pub(super) struct Sink {
    bytes: Arc<Mutex<Vec<u8>>>,
    closed_after: Option<usize>,
}

impl Sink {
    /// Refuses to take more than this.
    pub(super) fn closing(bytes: usize) -> Self {
        Self {
            closed_after: Some(bytes),
            ..Self::default()
        }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Sink {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        if self.closed_after.is_some_and(|max| bytes.len() >= max) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        bytes.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
