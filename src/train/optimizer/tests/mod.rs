//! Optimisers against float64 written out here, against recorded PyTorch outputs, and across saves.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "small numbers, compared exactly where they must be exact"
)]

mod recorded;
mod reference;

use burn::tensor::TensorData;

use super::*;

fn device() -> Device {
    Device::flex()
}

fn vector(values: &[f64]) -> Tensor<1> {
    let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), &device())
}

fn read(tensor: &Tensor<1>) -> Vec<f64> {
    let values = tensor.to_data().try_into_vec::<f32>().unwrap();
    values.into_iter().map(f64::from).collect()
}

fn bits(tensor: &Tensor<1>) -> Vec<u32> {
    let values = tensor.to_data().try_into_vec::<f32>().unwrap();
    values.into_iter().map(f32::to_bits).collect()
}

/// A layout of parameters with these shapes; those flagged are hidden matrices. `decaying` of them
/// decay.
fn layout(shapes: &[(&[usize], bool)], decaying: usize) -> Layout {
    let mut end = 0;
    let slots: Vec<Slot> = shapes
        .iter()
        .enumerate()
        .map(|(index, (shape, hidden_matrix))| {
            let start = end;
            end += shape.iter().product::<usize>();
            Slot {
                name: format!("p{index}"),
                shape: shape.to_vec(),
                range: start..end,
                hidden_matrix: *hidden_matrix,
            }
        })
        .collect();
    let decay_count = slots[..decaying].iter().map(|s| s.range.len()).sum();
    Layout { slots, decay_count }
}

fn length(layout: &Layout) -> usize {
    layout.slots.last().unwrap().range.end
}

fn wave(count: usize, phase: f64) -> Vec<f64> {
    let value = |i: usize| {
        (0.7 * i as f64 + 1.3 + phase).sin() + 0.5 * (0.13 * (i * i) as f64 + phase).cos()
    };
    (0..count).map(|i| f64::from(value(i) as f32)).collect()
}

fn doubled(values: &[f64]) -> Vec<f64> {
    values.iter().map(|v| 2.0 * v).collect()
}

/// Every rule, with settings that exercise all of it.
fn every_rule() -> Vec<config::Optimizer> {
    use config::Optimizer as O;
    let learning_rate = 0.01;
    let betas = [0.9, 0.999];
    vec![
        O::Sgd {
            learning_rate,
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.05,
        },
        O::Sgd {
            learning_rate,
            momentum: 0.9,
            nesterov: false,
            weight_decay: 0.05,
        },
        O::Sgd {
            learning_rate,
            momentum: 0.9,
            nesterov: true,
            weight_decay: 0.0,
        },
        O::Adam {
            learning_rate,
            betas,
            epsilon: 1e-8,
            weight_decay: 0.05,
        },
        O::Adamw {
            learning_rate,
            betas,
            epsilon: 1e-8,
            weight_decay: 0.05,
        },
        O::Adamw {
            learning_rate,
            betas: [0.8, 0.95],
            epsilon: 1e-3,
            weight_decay: 0.0,
        },
        O::Lion {
            learning_rate,
            betas: [0.9, 0.99],
            weight_decay: 0.1,
        },
        O::Muon {
            learning_rate,
            momentum: 0.95,
            iterations: 5,
            weight_decay: 0.1,
        },
    ]
}

#[test]
fn state_survives_a_save_bit_for_bit() {
    let layout = layout(
        &[
            (&[4, 6], true),
            (&[2, 3], false),
            (&[6, 4], true),
            (&[5], false),
        ],
        3,
    );
    let count = length(&layout);
    for rule in every_rule() {
        for saved_at in 0..4 {
            let mut whole = Optimizer::new(&rule, layout.clone());
            let mut broken = Optimizer::new(&rule, layout.clone());
            let (mut a, mut b) = (vector(&wave(count, 2.0)), vector(&wave(count, 2.0)));
            for step in 0..6 {
                if step == saved_at {
                    let bytes = broken.to_bytes().unwrap();
                    broken =
                        Optimizer::from_bytes(&rule, layout.clone(), &bytes, &device()).unwrap();
                }
                let gradient = vector(&wave(count, 0.37 * f64::from(step)));
                a = whole.apply(a, gradient.clone(), 0.7, 0.01).unwrap();
                b = broken.apply(b, gradient, 0.7, 0.01).unwrap();
            }
            assert_eq!(bits(&a), bits(&b), "{rule:?} saved at {saved_at}");
            assert_eq!(whole.to_bytes().unwrap(), broken.to_bytes().unwrap());
        }
    }
}

#[test]
fn names_are_those_of_the_parameters() {
    let layout = layout(&[(&[2, 2], true), (&[3], false)], 1);
    let mut optimizer = Optimizer::new(&every_rule()[7], layout.clone());
    assert!(optimizer.to_bytes().unwrap().is_empty());
    let gradient = vector(&wave(7, 0.0));
    let _ = optimizer
        .apply(vector(&wave(7, 2.0)), gradient, 1.0, 0.01)
        .unwrap();
    let names: Vec<String> = optimizer
        .to_bytes()
        .unwrap()
        .into_iter()
        .map(|t| format!("{} {:?}", t.name, t.shape))
        .collect();
    assert_eq!(
        names,
        [
            "momentum.p0 [2, 2]",
            "moment_1.p1 [3]",
            "moment_2.p1 [3]",
            "time [1]"
        ]
    );
}

#[test]
fn foreign_state_is_refused_with_all_that_is_wrong() {
    let layout = layout(&[(&[2, 2], true), (&[3], false)], 1);
    let mut adamw = Optimizer::new(&every_rule()[4], layout.clone());
    let _ = adamw
        .apply(vector(&wave(7, 2.0)), vector(&wave(7, 0.0)), 1.0, 0.01)
        .unwrap();
    let mut tensors = adamw.to_bytes().unwrap();
    for rule in [&every_rule()[1], &every_rule()[6], &every_rule()[7]] {
        assert!(Optimizer::from_bytes(rule, layout.clone(), &tensors, &device()).is_err());
    }
    tensors[0].shape = vec![4];
    tensors[1].name = "odd".into();
    let Err(fault) = Optimizer::from_bytes(&every_rule()[4], layout, &tensors, &device()) else {
        panic!("taken");
    };
    assert_eq!(fault.class, crate::run::FaultClass::Damaged);
    for part in [
        "moment_1.p0 is f32 [4]",
        "moment_1.p1 is missing",
        "odd is unexpected",
    ] {
        assert!(fault.message.contains(part), "{}", fault.message);
    }
}
