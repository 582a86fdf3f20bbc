//! A loss or gradient that is not finite ends the run where it happens, and says where.

use super::run::{Bench, Recorder};
use crate::config::{Every, Length, Optimizer};
use crate::run::{Command, FaultClass, Step};

#[test]
fn diverging_weights_are_named_as_such_and_the_last_checkpoint_stays() {
    let bench = Bench::new(|config| {
        config.checkpoint.every = Every::Steps(2);
        config.train.clip_norm = 0.0;
    });
    bench
        .train("a", None, &mut Recorder::at(4, Command::Pause))
        .unwrap();
    let mut snapshot = bench.newest("a");
    // One weight of the first convolution is spoilt, as a bad update would.
    let weight = &mut snapshot.model[0];
    assert_eq!(weight.shape, [4, 1, 3, 3]);
    weight.bytes[..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let spoilt = weight.name.trim_end_matches(".weight").to_string();
    let mut recorder = Recorder::default();
    let fault = bench.train("a", Some(snapshot), &mut recorder).unwrap_err();
    assert_eq!(fault.class, FaultClass::Training);
    assert_eq!(fault.step, Some(Step::new(5)));
    assert_eq!(fault.layer.as_deref(), Some(spoilt.as_str()));
    assert!(
        fault.message.contains("all 5 samples of shard 0"),
        "{}",
        fault.message
    );
    assert_eq!(fault.samples.len(), 5);
    assert!(fault.advice.contains("learning_rate"), "{}", fault.advice);
    assert!(recorder.steps().is_empty());
    assert_eq!(bench.newest("a").step, Step::new(4));
}

#[test]
fn a_rate_that_is_far_too_high_ends_in_a_fault_not_in_nonsense() {
    let bench = Bench::new(|config| {
        config.optimizer = Optimizer::Sgd {
            learning_rate: 1e30,
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.0,
        };
        config.train.clip_norm = 0.0;
        config.train.length = Length::Epochs(4);
        config.eval.every = Every::Never;
    });
    let mut recorder = Recorder::default();
    let fault = bench.train("a", None, &mut recorder).unwrap_err();
    assert_eq!(fault.class, FaultClass::Training, "{fault:?}");
    let step = fault.step.unwrap().get();
    assert_eq!(recorder.steps(), (1..step).collect::<Vec<_>>());
    assert!(fault.layer.is_some(), "{fault:?}");
}
