//! A loss or gradient that is not finite ends the run where it happens, and says where.

use std::fmt::Write as _;

use super::run::{Bench, Recorder, parsed};
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
        fault.message.contains("all 4 samples of shard 0"),
        "{}",
        fault.message
    );
    assert_eq!(fault.samples.len(), 4);
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

/// A table of which one row holds a number that overflows when it is multiplied.
#[test]
fn a_single_bad_sample_is_found_in_its_shard() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    let bad = 23;
    let mut text = "a,b,y\n".to_string();
    for row in 0..40 {
        let a = if row == bad {
            "3e38".to_string()
        } else {
            format!("0.{row}")
        };
        writeln!(text, "{a},1.{row},{}", row % 7).unwrap();
    }
    std::fs::write(&path, text).unwrap();
    let config = parsed(&format!(
        "name = \"t\"\n[data]\nkind = \"table\"\ntrain = {path:?}\nlabel = \"y\"\n\
         task = \"regression\"\nstandardize = false\n\
         [model]\nkind = \"mlp\"\nhidden = [8]\n\
         [train]\nepochs = 1\nglobal_batch = 40\nshards = 2\n"
    ));
    let bench = Bench::new(|mine| *mine = config);
    let mut recorder = Recorder::default();
    let fault = bench.train("a", None, &mut recorder).unwrap_err();
    assert_eq!(fault.class, FaultClass::Training, "{fault:?}");
    assert_eq!(fault.step, Some(Step::new(1)));
    assert_eq!(fault.samples.len(), 1, "{fault:?}");
    let name = bench
        .dataset()
        .sample_name(crate::data::Part::Train, fault.samples[0]);
    assert!(name.contains("rows.csv"), "{name}");
    // The header is not a row.
    assert!(
        name.contains(&(bad + 1).to_string()) || name.contains(&bad.to_string()),
        "{name}"
    );
    assert!(fault.message.contains(&name), "{}", fault.message);
    assert!(fault.layer.is_some());
    assert!(fault.advice.contains("these samples"), "{}", fault.advice);
    println!("{}", fault.render());
}
