//! Losses against float64 written out here, and against recorded PyTorch outputs.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    clippy::type_complexity,
    reason = "small numbers, compared exactly where they must be exact"
)]

use burn::tensor::{Device, Tensor, TensorData};

use super::*;
use crate::train::tests::fixture::{self, assert_close};

fn matrix(values: &[f64], width: usize) -> Tensor<2> {
    let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
    let shape = [values.len() / width, width];
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    let values = tensor.into_data().try_into_vec::<f32>().unwrap();
    values.into_iter().map(f64::from).collect()
}

/// Loss and gradient of one row of logits, in float64, by the definition: cross-entropy of the mixed
/// target distribution with the softmax.
fn reference(row: &[f64], class: i32, smoothing: f64) -> (f64, Vec<f64>) {
    let width = row.len() as f64;
    if class < 0 {
        return (0.0, vec![0.0; row.len()]);
    }
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|z| (z - largest).exp()).sum();
    let log_probability = |z: f64| z - largest - sum.ln();
    let wanted = |index: usize| {
        let hot = if index == class as usize { 1.0 } else { 0.0 };
        (1.0 - smoothing) * hot + smoothing / width
    };
    let loss = row
        .iter()
        .enumerate()
        .map(|(i, &z)| -wanted(i) * log_probability(z))
        .sum();
    let gradient = row
        .iter()
        .enumerate()
        .map(|(i, &z)| log_probability(z).exp() - wanted(i))
        .collect();
    (loss, gradient)
}

fn wave(count: usize, scale: f64) -> Vec<f64> {
    let value =
        |i: usize| scale * ((0.7 * i as f64 + 1.3).sin() + 0.5 * (0.13 * (i * i) as f64).cos());
    (0..count).map(|i| f64::from(value(i) as f32)).collect()
}

/// The pass over host memory against the chain of tensor operations.
#[test]
fn the_pass_is_the_chain() {
    let (rows, width) = (700, 37);
    let logits = wave(rows * width, 3.0);
    let classes: Vec<i32> = (0..rows as i32).map(|i| i * 5 % 38 - 1).collect();
    for smoothing in [0.0, 0.2] {
        let pass = classes::on_host(matrix(&logits, width), &classes, smoothing).unwrap();
        let chain = classes::on_device(matrix(&logits, width), &classes, smoothing);
        assert_eq!(pass.count, chain.count);
        assert_close(&host(pass.values), &host(chain.values), 1e-5, 1e-6);
        assert_close(&host(pass.gradient), &host(chain.gradient), 1e-5, 1e-6);
    }
}

#[test]
fn cross_entropy_is_that_of_float64() {
    let width = 7;
    for scale in [0.5, 5.0, 80.0] {
        let logits = wave(9 * width, scale);
        for classes in [
            [0, 1, 2, 3, 4, 5, 6, 0, 3],
            [6, -1, 2, -1, -100, 5, 6, 0, 3],
        ] {
            for smoothing in [0.0, 0.1] {
                let losses = Objective::CrossEntropy { smoothing }
                    .losses(&matrix(&logits, width), &Target::Classes(classes.to_vec()))
                    .unwrap();
                let rows = logits.chunks_exact(width).zip(classes);
                let (values, gradients): (Vec<f64>, Vec<Vec<f64>>) = rows
                    .map(|(row, class)| reference(row, class, smoothing))
                    .unzip();
                assert_close(
                    &host(losses.values),
                    &values,
                    1e-5,
                    1e-5 * scale.max(1.0) * 1e-2,
                );
                assert_close(&host(losses.gradient), &gradients.concat(), 1e-5, 1e-7);
                assert_eq!(
                    losses.count,
                    classes.iter().filter(|&&c| c >= 0).count() as u64
                );
            }
        }
    }
}

#[test]
fn extreme_logits_stay_finite_and_bad_ones_do_not() {
    let losses = |logits: &[f64]| {
        Objective::CrossEntropy { smoothing: 0.0 }
            .losses(&matrix(logits, 3), &Target::Classes(vec![0, 1]))
            .unwrap()
    };
    let extreme = losses(&[1e4, -1e4, 0.0, 1e4, -1e4, 3e38]);
    assert!(host(extreme.values).iter().all(|v| v.is_finite()));
    assert!(host(extreme.gradient).iter().all(|v| v.is_finite()));
    // Only the row with the NaN is spoilt: that is how it is found.
    let bad = host(losses(&[1.0, 2.0, 3.0, f64::NAN, 0.0, 0.0]).values);
    assert!(bad[0].is_finite() && bad[1].is_nan());
}

#[test]
fn errors_of_numbers_are_those_of_float64() {
    let output = [0.5, -1.25, 3.0, 0.0, 2.0, -7.0];
    let wanted = [0.5, -0.5, 1.0, 1.0, 3.0, 9.5];
    let expected = |loss: &dyn Fn(f64) -> (f64, f64)| -> (Vec<f64>, Vec<f64>) {
        output.iter().zip(wanted).map(|(o, w)| loss(o - w)).unzip()
    };
    let cases: [(Objective, &dyn Fn(f64) -> (f64, f64)); 3] = [
        (Objective::Mse, &|d| (d * d, 2.0 * d)),
        (Objective::Mae, &|d| {
            (d.abs(), if d == 0.0 { 0.0 } else { d.signum() })
        }),
        (Objective::Huber, &|d| {
            if d.abs() <= 1.0 {
                (0.5 * d * d, d)
            } else {
                (d.abs() - 0.5, d.signum())
            }
        }),
    ];
    for (objective, loss) in cases {
        let target = Target::Values(wanted.iter().map(|&w| w as f32).collect());
        let losses = objective.losses(&matrix(&output, 1), &target).unwrap();
        let (values, gradients) = expected(loss);
        assert_close(&host(losses.values), &values, 1e-6, 1e-7);
        assert_close(&host(losses.gradient), &gradients, 1e-6, 1e-7);
        assert_eq!(losses.count, 6);
    }
}

#[test]
fn the_surrogate_hands_the_gradient_to_the_graph() {
    let device = Device::flex();
    let weight: Tensor<2> = matrix(&wave(6, 1.0), 2).autodiff().require_grad();
    let input = matrix(&wave(12, 1.0), 3).autodiff();
    let output = input.clone().matmul(weight.clone());
    let target = Target::Classes(vec![0, 1, 1, 0]);
    let losses = Objective::CrossEntropy { smoothing: 0.0 }
        .losses(&output, &target)
        .unwrap();
    let expected = input.inner().transpose().matmul(losses.gradient.clone());
    let mut gradients = losses.surrogate(output).backward();
    let found = weight.grad_remove(&mut gradients).unwrap();
    assert_eq!(found.device(), device);
    assert_close(&host(found), &host(expected), 1e-6, 1e-7);
}

#[test]
fn pytorch_agrees() {
    for case in fixture::cases("losses.json") {
        let name = case["name"].as_str().unwrap();
        let smoothing = case["label_smoothing"].as_f64().unwrap();
        let input = fixture::numbers(&case["input"]["data"]);
        let width = usize::try_from(case["input"]["shape"][1].as_u64().unwrap()).unwrap();
        let targets = fixture::numbers(&case["targets"]);
        let classes = || Target::Classes(targets.iter().map(|&t| t as i32).collect());
        let values = || Target::Values(targets.iter().map(|&t| t as f32).collect());
        let (objective, target) = match case["loss"].as_str().unwrap() {
            "cross_entropy" => (Objective::CrossEntropy { smoothing }, classes()),
            "mse" => (Objective::Mse, values()),
            "mae" => (Objective::Mae, values()),
            "huber" => (Objective::Huber, values()),
            other => panic!("{other}"),
        };
        let losses = objective.losses(&matrix(&input, width), &target).unwrap();
        let recorded = &case["float64"];
        let sum: f64 = host(losses.values).iter().sum();
        assert_close(&[sum], &[recorded["sum"].as_f64().unwrap()], 1e-5, 0.0);
        assert_eq!(losses.count, case["count"].as_u64().unwrap(), "{name}");
        let gradient = fixture::numbers(&recorded["gradient_of_sum"]);
        assert_close(&host(losses.gradient), &gradient, 1e-5, 1e-6);
    }
}

#[test]
fn loss_and_target_must_fit() {
    let train = |loss| Train {
        loss,
        ..crate::train::tests::run::config().train
    };
    for (loss, classes, fits) in [
        (Loss::Auto, true, true),
        (Loss::Auto, false, true),
        (Loss::CrossEntropy, true, true),
        (Loss::CrossEntropy, false, false),
        (Loss::Mse, true, false),
        (Loss::Mae, false, true),
        (Loss::Huber, true, false),
        (Loss::Huber, false, true),
    ] {
        assert_eq!(
            Objective::resolve(&train(loss), classes).is_ok(),
            fits,
            "{loss:?} {classes}"
        );
    }
    let smoothed = Objective::CrossEntropy { smoothing: 0.1 };
    assert_eq!(
        smoothed.measured(),
        Objective::CrossEntropy { smoothing: 0.0 }
    );
    assert_eq!(Objective::Huber.measured(), Objective::Huber);
}
