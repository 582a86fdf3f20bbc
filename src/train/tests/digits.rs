//! Real data: the UCI digits, with the config that is shipped.

use std::path::Path;

use super::run::{Bench, Recorder, parsed};
use crate::config::{Config, Length};

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
