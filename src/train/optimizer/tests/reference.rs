//! Rules in float64, written out here.

use super::*;
use crate::train::tests::fixture::assert_close;

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
                    let sign = f64::from(direction != 0.0) * direction.signum();
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
