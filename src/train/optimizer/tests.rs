//! Optimisers against float64 written out here, against recorded PyTorch outputs, and across saves.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    clippy::too_many_arguments,
    reason = "small numbers, compared exactly where they must be exact"
)]

use burn::tensor::TensorData;

use super::*;
use crate::train::tests::fixture::{self, assert_close};

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

/// The rules in float64, element by element, with decay `decay` for this element.
struct Reference {
    m: Vec<f64>,
    v: Vec<f64>,
    time: i32,
}

impl Reference {
    fn step(
        &mut self,
        rule: &config::Optimizer,
        w: &mut [f64],
        g: &[f64],
        rate: f64,
        decays: usize,
    ) {
        use config::Optimizer as O;
        self.time += 1;
        for i in 0..w.len() {
            let on = |decay: f64| if i < decays { decay } else { 0.0 };
            let (m, v) = (&mut self.m[i], &mut self.v[i]);
            match *rule {
                O::Sgd {
                    momentum,
                    nesterov,
                    weight_decay,
                    ..
                } => {
                    let g = g[i] + on(weight_decay) * w[i];
                    *m = if self.time == 1 { g } else { momentum * *m + g };
                    let update = match (momentum > 0.0, nesterov) {
                        (false, _) => g,
                        (true, false) => *m,
                        (true, true) => g + momentum * *m,
                    };
                    w[i] -= rate * update;
                }
                O::Adam {
                    betas,
                    epsilon,
                    weight_decay,
                    ..
                }
                | O::Adamw {
                    betas,
                    epsilon,
                    weight_decay,
                    ..
                } => {
                    let mut g = g[i];
                    if matches!(rule, O::Adam { .. }) {
                        g += on(weight_decay) * w[i];
                    } else {
                        w[i] -= rate * on(weight_decay) * w[i];
                    }
                    *m = betas[0] * *m + (1.0 - betas[0]) * g;
                    *v = betas[1] * *v + (1.0 - betas[1]) * g * g;
                    let m_hat = *m / (1.0 - betas[0].powi(self.time));
                    let v_hat = *v / (1.0 - betas[1].powi(self.time));
                    w[i] -= rate * m_hat / (v_hat.sqrt() + epsilon);
                }
                O::Lion {
                    betas,
                    weight_decay,
                    ..
                } => {
                    let direction = betas[0] * *m + (1.0 - betas[0]) * g[i];
                    let sign = if direction == 0.0 {
                        0.0
                    } else {
                        direction.signum()
                    };
                    w[i] -= rate * (sign + on(weight_decay) * w[i]);
                    *m = betas[1] * *m + (1.0 - betas[1]) * g[i];
                }
                O::Muon { .. } => unreachable!("has a test of its own"),
            }
        }
    }
}

#[test]
fn element_wise_rules_are_those_of_float64() {
    let layout = layout(&[(&[4, 3], false), (&[5], false)], 1);
    for rule in every_rule() {
        if matches!(rule, config::Optimizer::Muon { .. }) {
            continue;
        }
        let count = length(&layout);
        let mut optimizer = Optimizer::new(&rule, layout.clone());
        let mut wanted = wave(count, 2.0);
        let mut found = vector(&wanted);
        let mut reference = Reference {
            m: vec![0.0; count],
            v: vec![0.0; count],
            time: 0,
        };
        for step in 0..30 {
            let rate = 0.01 * (1.0 + f64::from(step % 3));
            let gradient = wave(count, 0.37 * f64::from(step));
            let before = (read(&found), wanted.clone());
            reference.step(&rule, &mut wanted, &gradient, rate, layout.decay_count);
            found = optimizer
                .apply(found, vector(&doubled(&gradient)), 0.5, rate)
                .unwrap();
            assert_close(&read(&found), &wanted, 1e-5, 1e-6);
            // The movement itself, not only the weights it hardly changes: float32 weights hold it
            // to about 1e-7 / rate.
            let moved = |after: &[f64], before: &[f64]| -> Vec<f64> {
                after.iter().zip(before).map(|(a, b)| a - b).collect()
            };
            let (found, wanted) = (moved(&read(&found), &before.0), moved(&wanted, &before.1));
            assert_close(&found, &wanted, 1e-5, 5e-7);
        }
    }
}

/// Jordan et al. 2024, with the coefficients given there; row-major [rows, columns].
fn newton_schulz(g: &[f64], rows: usize, columns: usize, iterations: u32) -> Vec<f64> {
    let transpose = |x: &[f64], r: usize, c: usize| -> Vec<f64> {
        (0..r * c).map(|i| x[(i % r) * c + i / r]).collect()
    };
    let product = |a: &[f64], b: &[f64], r: usize, k: usize, c: usize| -> Vec<f64> {
        (0..r * c)
            .map(|i| (0..k).map(|j| a[i / c * k + j] * b[j * c + i % c]).sum())
            .collect()
    };
    let tall = rows > columns;
    let (r, c) = if tall {
        (columns, rows)
    } else {
        (rows, columns)
    };
    let mut x = if tall {
        transpose(g, rows, columns)
    } else {
        g.to_vec()
    };
    let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
    for v in &mut x {
        *v /= norm;
    }
    for _ in 0..iterations {
        let square = product(&x, &transpose(&x, r, c), r, c, r);
        let fourth = product(&square, &square, r, r, r);
        let both: Vec<f64> = square
            .iter()
            .zip(fourth)
            .map(|(s, f)| -4.775 * s + 2.0315 * f)
            .collect();
        let turned = product(&both, &x, r, r, c);
        x.iter_mut()
            .zip(turned)
            .for_each(|(x, t)| *x = 3.4445 * *x + t);
    }
    if tall { transpose(&x, r, c) } else { x }
}

#[test]
fn muon_is_that_of_float64_and_leaves_the_rest_to_adamw() {
    // Wide, then something for AdamW in between, tall, a kernel, and a bias without decay.
    let layout = layout(
        &[
            (&[4, 6], true),
            (&[2, 3], false),
            (&[6, 4], true),
            (&[4, 2, 3, 3], true),
            (&[5], false),
        ],
        4,
    );
    let (momentum, decay) = (0.95, 0.1);
    let rule = config::Optimizer::Muon {
        learning_rate: 0.02,
        momentum,
        iterations: 5,
        weight_decay: decay,
    };
    let adamw = config::Optimizer::Adamw {
        learning_rate: 0.02,
        betas: MUON_ADAMW_BETAS,
        epsilon: MUON_ADAMW_EPSILON,
        weight_decay: decay,
    };
    let count = length(&layout);
    let mut optimizer = Optimizer::new(&rule, layout.clone());
    let mut wanted = wave(count, 2.0);
    let mut found = vector(&wanted);
    let mut velocity = vec![0.0; count];
    let mut rest = Reference {
        m: vec![0.0; count],
        v: vec![0.0; count],
        time: 0,
    };
    for step in 0..10 {
        let rate = 0.02 / f64::from(1 + step);
        let gradient = wave(count, 0.37 * f64::from(step));
        let mut by_adamw = wanted.clone();
        rest.step(&adamw, &mut by_adamw, &gradient, rate, layout.decay_count);
        for slot in &layout.slots {
            if !slot.hidden_matrix {
                wanted[slot.range.clone()].copy_from_slice(&by_adamw[slot.range.clone()]);
                continue;
            }
            for i in slot.range.clone() {
                velocity[i] = momentum * velocity[i] + gradient[i];
            }
            let nesterov: Vec<f64> = slot
                .range
                .clone()
                .map(|i| gradient[i] + momentum * velocity[i])
                .collect();
            let rows = slot.shape[0];
            let columns = slot.range.len() / rows;
            let update = newton_schulz(&nesterov, rows, columns, 5);
            let adjusted = rate * 0.2 * (rows.max(columns) as f64).sqrt();
            for (i, u) in slot.range.clone().zip(update) {
                wanted[i] = wanted[i] * (1.0 - rate * decay) - adjusted * u;
            }
        }
        found = optimizer
            .apply(found, vector(&doubled(&gradient)), 0.5, rate)
            .unwrap();
        assert_close(&read(&found), &wanted, 1e-5, 1e-6);
    }
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

/// Runs recorded gradients through `optimizer` and compares with the recorded parameters.
fn replay(file: &serde_json::Value, case: &serde_json::Value, mut optimizer: Optimizer) {
    let rates = fixture::numbers(&case["learning_rates"]);
    let gradients = file["gradients"].as_array().unwrap();
    let history = case["float64"]["parameters_after_step"].as_array().unwrap();
    let mut parameters = vector(&fixture::numbers(&file["initial"]));
    for ((rate, gradient), wanted) in rates.iter().zip(gradients).zip(history) {
        let gradient = vector(&fixture::numbers(gradient));
        parameters = optimizer.apply(parameters, gradient, 1.0, *rate).unwrap();
        let wanted = fixture::numbers(wanted);
        assert_close(&read(&parameters), &wanted, 1e-5, 1e-6);
    }
}

#[test]
fn pytorch_agrees() {
    let file = fixture::file("optimizers.json");
    for case in file["cases"].as_array().unwrap() {
        let rule: config::Optimizer = serde_json::from_value(case["optimizer"].clone()).unwrap();
        let layout = layout(&[(&[4, 3], false), (&[5], false)], 1);
        replay(&file, case, Optimizer::new(&rule, layout));
    }
}

#[test]
fn recorded_muon_agrees() {
    let file = fixture::file("muon.json");
    for case in file["cases"].as_array().unwrap() {
        let config: config::Optimizer = serde_json::from_value(case["optimizer"].clone()).unwrap();
        let layout = layout(&[(&[4, 6], true), (&[6, 4], true), (&[3, 3], true)], 3);
        // Recorded with the rate of the first paper.
        replay(
            &file,
            case,
            Optimizer::with(&config, layout, AdjustLrFn::Original),
        );
    }
}

/// The pass over host memory against the chain of tensor operations, over more than one chunk and
/// with a decaying prefix that ends inside one.
#[test]
fn the_pass_is_the_chain() {
    let count = 40_000;
    for rule in [
        Rule::Sgd {
            momentum: 0.0,
            nesterov: false,
        },
        Rule::Sgd {
            momentum: 0.9,
            nesterov: false,
        },
        Rule::Sgd {
            momentum: 0.9,
            nesterov: true,
        },
        Rule::Adam {
            betas: [0.9, 0.999],
            epsilon: 1e-8,
        },
        Rule::Lion { betas: [0.9, 0.99] },
    ] {
        for decay in [Decay::Gradient(0.1), Decay::Weights(0.1)] {
            let update = Update {
                scale: 0.3,
                rate: 0.01,
                decay,
                decay_count: 20_001,
            };
            let mut states = [(); 2].map(|()| {
                rule.kinds()
                    .iter()
                    .map(|_| Tensor::zeros([count], &device()))
                    .collect::<Vec<_>>()
            });
            let mut weights = [(); 2].map(|()| vector(&wave(count, 2.0)));
            for time in 1..4u32 {
                let gradient = vector(&wave(count, f64::from(time)));
                let [by_pass, by_chain] = &mut states;
                let [a, b] = weights;
                let time = u64::from(time);
                let a = host::step(rule, time, &update, a, gradient.clone(), by_pass).unwrap();
                let b = super::device::step(rule, time, &update, b, gradient, by_chain);
                assert_close(&read(&a), &read(&b), 1e-6, 1e-7);
                for (a, b) in by_pass.iter().zip(by_chain) {
                    assert_close(&read(a), &read(b), 1e-6, 1e-7);
                }
                weights = [a, b];
            }
        }
    }
}

/// Our element-wise rules against burn's own.
#[test]
fn burn_agrees() {
    use burn::optim::momentum::MomentumConfig;
    use burn::optim::{AdamWConfig, LionConfig, SgdConfig};
    fn compare<O: burn::optim::Optimizer>(theirs: &O, ours: &config::Optimizer) {
        let layout = layout(&[(&[30], false)], 1);
        let mut optimizer = Optimizer::new(ours, layout);
        let (mut a, mut b) = (vector(&wave(30, 2.0)), vector(&wave(30, 2.0)));
        let mut state = None;
        for step in 0..10 {
            let gradient = vector(&wave(30, 0.37 * f64::from(step)));
            a = optimizer.apply(a, gradient.clone(), 1.0, 0.01).unwrap();
            (b, state) = theirs.step(0.01, b, gradient, state);
            // burn's Adam rounds its bias correction to float32.
            assert_close(&read(&a), &read(&b), 2e-5, 2e-7);
        }
    }
    let momentum = MomentumConfig {
        momentum: 0.9,
        dampening: 0.0,
        nesterov: true,
    };
    let learning_rate = 0.01;
    compare(
        &SgdConfig::new().with_momentum(Some(momentum)).build(),
        &config::Optimizer::Sgd {
            learning_rate,
            momentum: 0.9,
            nesterov: true,
            weight_decay: 0.0,
        },
    );
    compare(
        &LionConfig::new().with_weight_decay(0.1).build(),
        &config::Optimizer::Lion {
            learning_rate,
            betas: [0.9, 0.99],
            weight_decay: 0.1,
        },
    );
    compare(
        &AdamWConfig::new()
            .with_epsilon(1e-8)
            .with_weight_decay(0.1)
            .build(),
        &config::Optimizer::Adamw {
            learning_rate,
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            weight_decay: 0.1,
        },
    );
}
