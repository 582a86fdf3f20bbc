//! Rules against recorded PyTorch outputs, against burn's own, and the pass over host memory against
//! the chain of tensor operations.

use super::*;
use crate::train::tests::fixture::{self, assert_close};

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
