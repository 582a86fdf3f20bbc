//! What happens at a step boundary, and in which order.

use super::run::{Bench, IMAGES, Recorder, STEPS_PER_EPOCH};
use crate::config::{Every, Length, Split};
use crate::run::wire::{Outcome, Phase};
use crate::run::{Command, Event};

/// The kinds of events of a step, in order.
fn kinds(recorder: &Recorder) -> Vec<&'static str> {
    let name = |event: &Event| match event {
        Event::ModelBuilt { .. } => "built",
        Event::TrainingBegan { .. } => "began",
        Event::StepFinished(_) => "step",
        Event::Evaluated { split, .. } if split == "test" => "test",
        Event::Evaluated { .. } => "valid",
        _ => "",
    };
    recorder
        .events
        .iter()
        .map(name)
        .filter(|kind| !kind.is_empty())
        .collect()
}

#[test]
fn a_whole_run_reports_everything_once_and_in_order() {
    let bench = Bench::new(|config| {
        config.train.length = Length::Epochs(2);
        if let crate::config::Data::Images(images) = &mut config.data {
            images.test = Split::Fraction(0.04);
        }
    });
    let mut recorder = Recorder::default();
    assert_eq!(
        bench.train("a", None, &mut recorder).unwrap(),
        Outcome::Completed
    );
    let dataset = bench.dataset();
    let steps = dataset.samples(crate::data::Part::Train).div_ceil(14);
    let mut wanted = vec!["built", "began"];
    for epoch in 0..2 {
        wanted.extend((0..steps).map(|_| "step"));
        wanted.push("valid");
        if epoch == 1 {
            wanted.push("test");
        }
    }
    assert_eq!(kinds(&recorder), wanted);
    assert_eq!(recorder.steps(), (1..=2 * steps).collect::<Vec<_>>());
    assert_eq!(recorder.checkpoints(), [steps, 2 * steps].into());
    let memory = |event: &_| matches!(event, Event::MemoryMeasured { .. });
    assert!(recorder.events.iter().any(memory));
    let seen: u64 = recorder
        .events
        .iter()
        .map(|event| match event {
            Event::StepFinished(report) => report.samples,
            _ => 0,
        })
        .sum();
    assert_eq!(seen, 2 * dataset.samples(crate::data::Part::Train));
    assert_eq!(bench.newest("a").state.samples_seen, seen);
    assert!(dataset.samples(crate::data::Part::Train) < IMAGES as u64);
}

#[test]
fn a_step_says_what_it_did() {
    let bench = Bench::new(|config| config.train.length = Length::Steps(4));
    let mut recorder = Recorder::default();
    bench.train("a", None, &mut recorder).unwrap();
    for event in &recorder.events {
        let Event::StepFinished(report) = event else {
            continue;
        };
        assert!(report.loss > 0.0 && report.gradient_norm > 0.0);
        // Warm-up over three steps to a peak of 0.01.
        let rate = 0.01 * (report.step.get() as f64 / 3.0).min(1.0);
        assert!((report.learning_rate - rate).abs() < 1e-12);
        assert_eq!(report.samples, 14);
        assert_eq!(report.tokens, 0);
        let accuracy = report.metrics["accuracy"];
        assert!((0.0..=1.0).contains(&accuracy));
        assert!((accuracy * 14.0 - (accuracy * 14.0).round()).abs() < 1e-9);
        let phases = report.phases;
        let parts = phases.data
            + phases.forward
            + phases.backward
            + phases.reduce
            + phases.optimizer
            + phases.checkpoint;
        assert!(phases.forward > 0.0 && phases.backward > 0.0 && parts <= report.seconds);
    }
    assert!(recorder.phases.contains(&(0, Phase::Stepping)));
    assert!(recorder.phases.contains(&(4, Phase::Saving)));
}

#[test]
fn only_every_nth_step_is_recorded_and_the_last() {
    let bench = Bench::new(|config| {
        config.log.every = 3;
        config.train.length = Length::Steps(7);
    });
    let mut recorder = Recorder::default();
    bench.train("a", None, &mut recorder).unwrap();
    assert_eq!(recorder.steps(), [3, 6, 7]);
}

#[test]
fn commands_are_obeyed_at_the_next_boundary() {
    let bench = Bench::new(|config| config.checkpoint.every = Every::Never);
    let mut recorder = Recorder::at(2, Command::Checkpoint);
    recorder
        .commands
        .insert(4, vec![Command::Checkpoint, Command::Stop]);
    assert_eq!(
        bench.train("a", None, &mut recorder).unwrap(),
        Outcome::Stopped
    );
    assert_eq!(recorder.steps(), [1, 2, 3, 4]);
    assert_eq!(recorder.checkpoints(), [2, 4].into());
    assert!(!bench.newest("a").state.ended);
    // Before the first step too.
    let mut recorder = Recorder::at(0, Command::Pause);
    assert_eq!(
        bench.train("b", None, &mut recorder).unwrap(),
        Outcome::Paused
    );
    assert!(recorder.steps().is_empty());
    assert_eq!(bench.newest("b").step.get(), 0);
}

#[test]
fn evaluation_does_not_depend_on_the_batch() {
    let evaluations = |batch| {
        let bench = Bench::new(|config| {
            config.eval.batch = batch;
            config.train.length = Length::Steps(STEPS_PER_EPOCH);
        });
        let mut recorder = Recorder::default();
        bench.train("a", None, &mut recorder).unwrap();
        recorder.evaluations()
    };
    let one = evaluations(1);
    for (split, step, metrics) in evaluations(1000) {
        let (_, _, wanted) = one.iter().find(|e| e.0 == split && e.1 == step).unwrap();
        assert_eq!(
            metrics.keys().collect::<Vec<_>>(),
            ["accuracy", "auroc", "f1", "loss", "top2_accuracy"]
        );
        for (name, value) in metrics {
            assert!((value - wanted[&name]).abs() < 1e-6, "{name}");
        }
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_fails_only_the_end() {
    let bench = Bench::new(|config| config.train.length = Length::Steps(6));
    let folder = tempfile::tempdir().unwrap();
    // A file where the folder of checkpoints should be.
    let place = folder.path().join("checkpoints");
    std::fs::write(&place, "in the way").unwrap();
    let name = place.to_str().unwrap();
    let mut recorder = Recorder::default();
    let fault = bench.train(name, None, &mut recorder).unwrap_err();
    assert_eq!(fault.class, crate::run::FaultClass::Machine);
    assert_eq!(recorder.steps().len(), 6);
    let failed = recorder
        .events
        .iter()
        .filter(|e| matches!(e, Event::CheckpointFailed { .. }));
    assert_eq!(failed.count(), 2);
}
