//! Real data: the UCI digits, with the config that is shipped.

use std::path::Path;
use std::time::Instant;

use burn::tensor::Device;

use super::run::{Bench, Recorder, parsed};
use crate::config::{Config, Length};
use crate::data::Prefetcher;
use crate::model::Mode;
use crate::plan::Timetable;
use crate::run::{Event, Step};
use crate::train::learner::Learner;
use crate::train::loss;

fn config() -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/digits.toml");
    parsed(&std::fs::read_to_string(path).unwrap())
}

#[test]
fn four_epochs_learn_most_digits() {
    let bench = Bench::new(|mine| {
        *mine = config();
        mine.train.length = Length::Epochs(4);
    });
    let mut recorder = Recorder::default();
    bench.train("a", None, &mut recorder).unwrap();
    let (split, _, metrics) = recorder.evaluations().pop().unwrap();
    assert_eq!(split, "test");
    assert!(
        metrics["accuracy"] > 0.9 && metrics["auroc"] > 0.98,
        "{metrics:?}"
    );
    assert!(metrics["f1"] > 0.9 && metrics["loss"] < 0.4, "{metrics:?}");
}

/// The whole config; printed, not judged here.
#[test]
#[ignore = "takes its time"]
fn all_epochs() {
    let bench = Bench::new(|mine| *mine = config());
    let mut recorder = Recorder::default();
    let start = Instant::now();
    bench.train("a", None, &mut recorder).unwrap();
    println!("{:.1} s", start.elapsed().as_secs_f64());
    for event in &recorder.events {
        match event {
            Event::StepFinished(report) if report.step.get() % 20 == 0 => {
                println!("{} {:.4} {:?}", report.step, report.loss, report.metrics);
            }
            Event::Evaluated {
                step,
                split,
                metrics,
                ..
            } => println!("{step} {split} {metrics:?}"),
            _ => {}
        }
    }
}

/// Time per step of the whole loop against forward and backward alone; printed, not judged.
#[test]
#[ignore = "a measurement"]
fn overhead() {
    let bench = Bench::new(|mine| {
        *mine = config();
        mine.train.length = Length::Steps(300);
        mine.checkpoint.every = crate::config::Every::Never;
        mine.eval.every = crate::config::Every::Never;
        mine.data = match &mine.data {
            crate::config::Data::Images(images) => {
                let mut images = images.clone();
                images.validation = crate::config::Split::None;
                images.test = crate::config::Split::None;
                crate::config::Data::Images(images)
            }
            other => other.clone(),
        };
    });
    let dataset = bench.dataset();
    let device = Device::flex();
    let learner = Learner::new(&bench.config, dataset.input(), dataset.target(), &device).unwrap();
    let timetable = Timetable::new(&bench.config, dataset.samples(crate::data::Part::Train));
    let mut batches = Prefetcher::start(dataset, timetable, 7, Step::new(0), 0);
    let batches: Vec<_> = (0..300).map(|_| batches.next().unwrap()).collect();
    for round in 0..3 {
        let start = Instant::now();
        for batch in &batches {
            for shard in &batch.shards {
                let mode = Mode::Train { dropout_seed: 1 };
                let forward = learner.network.forward(
                    &learner.parameters,
                    &learner.buffers,
                    &shard.input,
                    mode,
                );
                let rows = loss::rows(forward.output);
                let losses = learner.objective.losses(&rows, &shard.target).unwrap();
                let _ = losses.surrogate(rows).backward();
            }
        }
        let alone = start.elapsed().as_secs_f64() * 1e3 / 300.0;
        let mut recorder = Recorder::default();
        let start = Instant::now();
        bench.train("a", None, &mut recorder).unwrap();
        let whole = start.elapsed().as_secs_f64() * 1e3 / 300.0;
        let mut sums = [0.0; 6];
        for event in &recorder.events {
            if let Event::StepFinished(report) = event {
                let p = report.phases;
                let parts = [
                    p.data,
                    p.forward,
                    p.backward,
                    p.reduce,
                    p.optimizer,
                    report.seconds,
                ];
                sums.iter_mut()
                    .zip(parts)
                    .for_each(|(sum, part)| *sum += part * 1e3 / 300.0);
            }
        }
        println!(
            "round {round}: passes alone {alone:.3} ms, whole run {whole:.3} ms per step: data {:.3} \
             forward {:.3} backward {:.3} reduce {:.3} optimizer {:.3} step {:.3}",
            sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
        );
    }
}
