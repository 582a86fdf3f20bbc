//! Metrics against their definitions written out here, and against scikit-learn's values.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    clippy::too_many_arguments,
    reason = "small numbers, compared exactly where they must be exact"
)]

use proptest::prelude::*;

use super::*;
use crate::train::tests::fixture::{self, assert_close};

fn names(count: usize) -> TargetShape {
    TargetShape::Classes {
        names: (0..count).map(|i| i.to_string()).collect(),
    }
}

fn classes(logits: &[f32], classes: &[i32], count: usize, top_k: u32) -> BTreeMap<String, f64> {
    let mut meter = Meter::new(&names(count), top_k);
    let losses = vec![0.5; classes.len()];
    meter
        .add(logits, &Target::Classes(classes.to_vec()), &losses)
        .unwrap();
    meter.values()
}

/// The share of (positive, negative) pairs in the right order, by looking at all of them.
fn pairs(scores: &[f64], truth: &[bool]) -> Option<f64> {
    let (mut right, mut all) = (0.0, 0.0);
    for (i, &a) in scores.iter().enumerate() {
        for (j, &b) in scores.iter().enumerate() {
            if truth[i] && !truth[j] {
                all += 1.0;
                right += if a > b {
                    1.0
                } else if a == b {
                    0.5
                } else {
                    0.0
                };
            }
        }
    }
    (all > 0.0).then(|| right / all)
}

proptest! {
    #[test]
    fn auroc_of_two_classes_counts_all_pairs(
        rows in prop::collection::vec((-3i8..3, -3i8..3, 0i32..2), 1..60)
    ) {
        let logits: Vec<f32> = rows.iter().flat_map(|r| [f32::from(r.0), f32::from(r.1)]).collect();
        let truth: Vec<i32> = rows.iter().map(|r| r.2).collect();
        let scores: Vec<f64> = rows.iter().map(|r| f64::from(r.1) - f64::from(r.0)).collect();
        let positive: Vec<bool> = truth.iter().map(|&c| c == 1).collect();
        let found = classes(&logits, &truth, 2, 0).get("auroc").copied();
        match (found, pairs(&scores, &positive)) {
            (Some(found), Some(wanted)) => prop_assert!((found - wanted).abs() < 1e-12),
            (found, wanted) => prop_assert_eq!(found, wanted),
        }
    }

    #[test]
    fn counts_are_those_of_the_definitions(
        rows in prop::collection::vec((prop::array::uniform4(-2i8..3), 0i32..4), 1..50)
    ) {
        let logits: Vec<f32> = rows.iter().flat_map(|r| r.0.map(f32::from)).collect();
        let truth: Vec<i32> = rows.iter().map(|r| r.1).collect();
        let found = classes(&logits, &truth, 4, 2);
        let n = rows.len() as f64;
        let order = |row: &[i8; 4]| {
            let mut order = [0usize, 1, 2, 3];
            order.sort_by_key(|&i| std::cmp::Reverse(row[i]));
            order
        };
        let guess: Vec<i32> = rows.iter().map(|r| order(&r.0)[0] as i32).collect();
        let hits = guess.iter().zip(&truth).filter(|(g, t)| g == t).count() as f64;
        prop_assert!((found["accuracy"] - hits / n).abs() < 1e-12);
        let top = rows.iter().filter(|r| order(&r.0)[..2].contains(&(r.1 as usize))).count() as f64;
        prop_assert!((found["top2_accuracy"] - top / n).abs() < 1e-12);
        let mut scores = Vec::new();
        for class in 0..4 {
            let count = |f: &dyn Fn(i32, i32) -> bool| {
                guess.iter().zip(&truth).filter(|&(&g, &t)| f(g, t)).count() as f64
            };
            let both = count(&|g, t| g == class && t == class);
            let either = count(&|g, _| g == class) + count(&|_, t| t == class);
            if either > 0.0 {
                scores.push(2.0 * both / either);
            }
        }
        let f1 = scores.iter().sum::<f64>() / scores.len() as f64;
        prop_assert!((found["f1"] - f1).abs() < 1e-12);
    }

    #[test]
    fn batches_and_merges_change_nothing(
        rows in prop::collection::vec((prop::array::uniform3(-2i8..3), 0i32..3), 2..50), cut in 1usize..49
    ) {
        let cut = cut.min(rows.len() - 1);
        let logits: Vec<f32> = rows.iter().flat_map(|r| r.0.map(f32::from)).collect();
        let truth: Vec<i32> = rows.iter().map(|r| r.1).collect();
        let losses: Vec<f32> = (0..rows.len()).map(|i| i as f32 * 0.25).collect();
        let add = |meter: &mut Meter, r: std::ops::Range<usize>| {
            let target = Target::Classes(truth[r.clone()].to_vec());
            meter.add(&logits[r.start * 3..r.end * 3], &target, &losses[r]).unwrap();
        };
        let mut whole = Meter::new(&names(3), 2);
        add(&mut whole, 0..rows.len());
        let mut cut_up = Meter::new(&names(3), 2);
        add(&mut cut_up, 0..cut);
        add(&mut cut_up, cut..rows.len());
        let (mut one, mut other) = (Meter::new(&names(3), 2), Meter::new(&names(3), 2));
        add(&mut one, 0..cut);
        add(&mut other, cut..rows.len());
        one.merge(&other).unwrap();
        prop_assert_eq!(cut_up.values(), whole.values());
        prop_assert_eq!(one.values(), whole.values());
    }
}

#[test]
fn what_is_not_defined_is_absent() {
    assert!(Meter::new(&names(3), 0).values().is_empty());
    let one_sided = classes(&[0.0, 1.0, 1.0, 0.0], &[1, 1], 2, 5);
    assert_eq!(
        one_sided.keys().collect::<Vec<_>>(),
        ["accuracy", "f1", "loss"]
    );
    // A NaN predicts nothing and has no AUROC; the rest is measured.
    let spoilt = classes(&[0.0, f32::NAN, 1.0, 0.0], &[1, 0], 2, 0);
    assert_eq!(spoilt["accuracy"], 0.5);
    assert!(!spoilt.contains_key("auroc"));
    let mut values = Meter::new(
        &TargetShape::Value {
            mean: 0.0,
            std: 2.0,
        },
        0,
    );
    values
        .add(&[1.5], &Target::Values(vec![1.0]), &[0.25])
        .unwrap();
    assert_eq!(
        values.values().keys().collect::<Vec<_>>(),
        ["loss", "mae", "mse"]
    );
    let wrong = values.add(&[1.0, 2.0], &Target::Values(vec![1.0]), &[0.0]);
    assert!(wrong.is_err());
    assert!(
        values
            .add(&[1.0], &Target::Classes(vec![0]), &[0.0])
            .is_err()
    );
    assert!(values.merge(&Meter::new(&names(2), 0)).is_err());
}

#[test]
fn numbers_are_measured_in_the_units_of_the_data() {
    let (mean, std) = (50.0, 4.0);
    let truth = [40.0f64, 52.0, 58.0, 47.0];
    let guess = [42.0f64, 50.0, 57.0, 51.0];
    let scaled =
        |values: &[f64]| -> Vec<f32> { values.iter().map(|v| ((v - mean) / std) as f32).collect() };
    let mut meter = Meter::new(&TargetShape::Value { mean, std }, 0);
    meter
        .add(&scaled(&guess), &Target::Values(scaled(&truth)), &[0.0; 4])
        .unwrap();
    let values = meter.values();
    let average = truth.iter().sum::<f64>() / 4.0;
    let squared: f64 = truth.iter().zip(guess).map(|(t, g)| (t - g).powi(2)).sum();
    let spread: f64 = truth.iter().map(|t| (t - average).powi(2)).sum();
    assert_close(
        &[values["mse"], values["mae"], values["r2"]],
        &[squared / 4.0, 9.0 / 4.0, 1.0 - squared / spread],
        1e-6,
        0.0,
    );
}

#[test]
fn tokens_that_do_not_count_are_left_out() {
    let mut meter = Meter::new(&TargetShape::NextToken { vocabulary: 3 }, 2);
    let logits = [3.0, 2.0, 1.0, 0.0, 9.0, 0.0, 0.0, 1.0, 2.0, 5.0, 5.0, 5.0];
    let target = Target::Tokens(vec![0, -1, 1, 2]);
    meter.add(&logits, &target, &[0.5, 0.0, 1.0, 1.5]).unwrap();
    let values = meter.values();
    assert_eq!(values["loss"], 1.0);
    assert!((values["perplexity"] - std::f64::consts::E).abs() < 1e-12);
    assert!((values["accuracy"] - 1.0 / 3.0).abs() < 1e-12);
    assert!((values["top2_accuracy"] - 2.0 / 3.0).abs() < 1e-12);
}

#[test]
fn scores_are_bounded() {
    let mut meter = Meter::new(&names(2), 0);
    let rows = 1 << 16;
    let logits: Vec<f32> = (0..rows * 2).map(|i| (i % 7) as f32).collect();
    let target = Target::Classes((0..rows).map(|i| i % 2).collect());
    let losses = vec![0.0; usize::try_from(rows).unwrap()];
    for _ in 0..AUROC_SCORES_MAX / losses.len() {
        meter.add(&logits, &target, &losses).unwrap();
    }
    assert!(meter.values().contains_key("auroc"));
    meter.add(&logits, &target, &losses).unwrap();
    assert!(!meter.values().contains_key("auroc"));
    assert!(meter.values().contains_key("f1"));
}

#[test]
fn scikit_learn_agrees() {
    for case in fixture::cases("metrics.json") {
        let name = case["name"].as_str().unwrap();
        let wanted = case["values"].as_object().unwrap();
        let targets = fixture::numbers(&case["targets"]);
        let found = if case["task"] == "regression" {
            let mut meter = Meter::new(
                &TargetShape::Value {
                    mean: 0.0,
                    std: 1.0,
                },
                0,
            );
            let guess: Vec<f32> = fixture::numbers(&case["predictions"])
                .iter()
                .map(|&v| v as f32)
                .collect();
            let truth = Target::Values(targets.iter().map(|&v| v as f32).collect());
            meter.add(&guess, &truth, &vec![0.0; guess.len()]).unwrap();
            meter.values()
        } else {
            let width = usize::try_from(case["logits"]["shape"][1].as_u64().unwrap()).unwrap();
            let logits: Vec<f32> = fixture::numbers(&case["logits"]["data"])
                .iter()
                .map(|&v| v as f32)
                .collect();
            let truth: Vec<i32> = targets.iter().map(|&t| t as i32).collect();
            classes(&logits, &truth, width, 2)
        };
        let mut compared = 0;
        for (theirs, ours) in [
            ("accuracy", "accuracy"),
            ("top_2", "top2_accuracy"),
            ("f1_macro", "f1"),
            ("auroc", "auroc"),
            ("auroc_macro_ovr", "auroc"),
            ("mse", "mse"),
            ("mae", "mae"),
            ("r2", "r2"),
        ] {
            if let (Some(wanted), Some(found)) = (wanted.get(theirs), found.get(ours)) {
                let wanted = wanted.as_f64().unwrap();
                assert!(
                    (found - wanted).abs() <= 1e-6 * wanted.abs(),
                    "{name} {ours}: {found} {wanted}"
                );
                compared += 1;
            }
        }
        assert!(compared >= 3, "{name}");
    }
}
