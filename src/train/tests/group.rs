//! The same run for any number of workers, and through any sequence of groups.

use std::collections::BTreeMap;

use super::run::{Bench, Recorder, STEPS_PER_EPOCH, remembered};
use crate::config::{Config, EarlyStopping, Every, Goal, Length, Optimizer, SumOrder};

/// Batch normalisation, dropout, augmentation, clipping and a short last batch, in eight shards.
fn eight_shards(config: &mut Config) {
    config.train.shards = 8;
    config.eval.every = Every::Steps(4);
}

type Evaluations = Vec<(String, u64, BTreeMap<String, f64>)>;

fn told(recorder: &Recorder) -> (Vec<u64>, Vec<u64>, Evaluations) {
    (recorder.steps(), recorder.losses(), recorder.evaluations())
}

/// Trains alone and in groups; both must say and leave the same.
#[track_caller]
fn check(bench: &Bench, groups: &[(u32, Option<u64>)]) {
    let mut alone = Recorder::default();
    bench.train("alone", None, &mut alone).unwrap();
    let found = bench.train_groups("groups", groups);
    assert_eq!(told(&found), told(&alone), "{groups:?}");
    let (one, other) = (bench.newest("alone"), bench.newest("groups"));
    assert_eq!(remembered(&one), remembered(&other));
    assert!(one.model == other.model, "weights differ: {groups:?}");
    assert!(
        one.optimizer == other.optimizer,
        "optimizer state differs: {groups:?}"
    );
}

#[test]
fn any_number_of_workers_gives_the_same_run() {
    for size in [1, 2, 3, 4, 8] {
        check(&Bench::new(eight_shards), &[(size, None)]);
    }
}

#[test]
fn shards_that_do_not_share_out_evenly_give_the_same_run() {
    for (shards, size) in [(3, 2), (3, 3), (5, 4), (7, 3), (14, 8)] {
        let bench = Bench::new(|config| config.train.shards = shards);
        check(&bench, &[(size, None)]);
    }
}

#[test]
fn groups_that_fall_apart_and_form_anew_give_the_same_run() {
    let last = 3 * STEPS_PER_EPOCH;
    for groups in [
        // The same workers again.
        vec![(2, Some(3)), (2, None)],
        // More, fewer, one, more: some of them start with nothing in memory.
        vec![
            (2, Some(2)),
            (4, Some(5)),
            (1, Some(8)),
            (8, Some(11)),
            (3, None),
        ],
        // At an evaluation, at the end of an epoch, at the very end.
        vec![
            (3, Some(4)),
            (2, Some(STEPS_PER_EPOCH)),
            (4, Some(last)),
            (2, None),
        ],
    ] {
        check(&Bench::new(eight_shards), &groups);
    }
}

#[test]
fn memory_of_optimizers_and_early_stopping_goes_from_worker_to_worker() {
    let bench = Bench::new(|config| {
        eight_shards(config);
        config.train.length = Length::Epochs(20);
        config.optimizer = Optimizer::Muon {
            learning_rate: 0.01,
            momentum: 0.95,
            iterations: 5,
            weight_decay: 0.01,
        };
        config.train.early_stopping = Some(EarlyStopping {
            metric: "validation/loss".into(),
            goal: Goal::Min,
            patience: 3,
            min_delta: 100.0,
        });
    });
    // The evaluation at step 4 is the best, those at 8, 12 and 16 do not improve on it.
    check(
        &bench,
        &[(1, Some(6)), (2, Some(9)), (4, Some(12)), (2, None)],
    );
    assert_eq!(bench.newest("groups").step.get(), 16);
}

fn fast(config: &mut Config) {
    eight_shards(config);
    config.train.reduction = SumOrder::Fast;
}

#[test]
fn the_fast_order_gives_the_same_run_for_the_same_number_of_workers() {
    let bench = Bench::new(fast);
    for size in [1, 2, 3, 8] {
        let names = [format!("whole{size}"), format!("parts{size}")];
        let whole = bench.train_groups(&names[0], &[(size, None)]);
        let parts = [
            (size, Some(3)),
            (size, Some(STEPS_PER_EPOCH + 1)),
            (size, None),
        ];
        let parts = bench.train_groups(&names[1], &parts);
        assert_eq!(told(&parts), told(&whole), "{size} workers");
        let (one, other) = (bench.newest(&names[0]), bench.newest(&names[1]));
        assert!(one.model == other.model, "weights differ: {size} workers");
        assert!(one.optimizer == other.optimizer, "{size} workers");
    }
}

#[test]
fn the_fast_order_stays_close_to_the_canonical_one() {
    let mut canonical = Recorder::default();
    Bench::new(eight_shards)
        .train("alone", None, &mut canonical)
        .unwrap();
    let bench = Bench::new(fast);
    for size in [1, 2, 3, 4, 8] {
        let found = bench.train_groups(&format!("group{size}"), &[(size, None)]);
        let pairs = found.losses().into_iter().zip(canonical.losses());
        // Rounding grows with the steps: the first epoch.
        for (step, (found, wanted)) in pairs.enumerate().take(5) {
            let (found, wanted) = (f64::from_bits(found), f64::from_bits(wanted));
            let error = (found - wanted).abs();
            assert!(
                error <= 1e-5 * wanted,
                "{size} workers, step {step}: {found}, {wanted}"
            );
        }
    }
}
