//! Rules that look at one element at a time, with their state.

use burn::tensor::{Device, Tensor};

use super::layout::{Saved, Slot, named};
use super::{Update, device, host};
use crate::checkpoint::TensorBytes;
use crate::ops;
use crate::run::Fault;

const TIME: &str = "time";

/// A rule without its state. g is the scaled gradient, with L2 decay already added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// As PyTorch's: `m = momentum m + g`; `w - rate m`, or `w - rate (g + momentum m)` (Nesterov).
    Sgd {
        /// 0 keeps no state.
        momentum: f64,
        /// Whether to look ahead.
        nesterov: bool,
    },
    /// `w - rate / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + epsilon)` (Kingma and Ba 2014).
    Adam {
        /// Decay rates of the moments.
        betas: [f64; 2],
        /// Added to the denominator.
        epsilon: f64,
    },
    /// `w - rate sign(b1 m + (1 - b1) g)`, then `m = b2 m + (1 - b2) g` (Chen et al. 2023).
    Lion {
        /// Interpolation rates of update and momentum.
        betas: [f64; 2],
    },
}

/// A rule with its state.
pub(super) struct Elementwise {
    rule: Rule,
    state: Option<State>,
}

/// State after at least one step.
struct State {
    /// Steps so far.
    time: u64,
    /// One vector per [`Rule::kinds`], each as long as the parameters.
    vectors: Vec<Tensor<1>>,
}

impl Rule {
    /// What the vectors of the state are called.
    pub(super) fn kinds(self) -> &'static [&'static str] {
        match self {
            Rule::Sgd { momentum, .. } if momentum > 0.0 => &["momentum"],
            Rule::Sgd { .. } => &[],
            Rule::Adam { .. } => &["moment_1", "moment_2"],
            Rule::Lion { .. } => &["momentum"],
        }
    }
}

impl Elementwise {
    pub(super) fn new(rule: Rule) -> Self {
        Self { rule, state: None }
    }

    /// The parameters after one step.
    pub(super) fn step(
        &mut self,
        parameters: Tensor<1>,
        gradient: Tensor<1>,
        update: &Update,
    ) -> Result<Tensor<1>, Fault> {
        let State { time, mut vectors } = self.state.take().unwrap_or_else(|| State {
            time: 0,
            vectors: self
                .rule
                .kinds()
                .iter()
                .map(|_| gradient.zeros_like())
                .collect(),
        });
        let time = time + 1;
        let parameters = if ops::is_host(&gradient.device()) {
            host::step(self.rule, time, update, parameters, gradient, &mut vectors)?
        } else {
            device::step(self.rule, time, update, parameters, gradient, &mut vectors)
        };
        self.state = Some(State { time, vectors });
        Ok(parameters)
    }

    /// State over `slots`, which are the ones that the vectors of [`Elementwise::step`] hold.
    pub(super) fn to_bytes(&self, slots: &[Slot]) -> Result<Vec<TensorBytes>, Fault> {
        let mut tensors = Vec::new();
        let Some(state) = &self.state else {
            return Ok(tensors);
        };
        for (kind, vector) in self.rule.kinds().iter().zip(&state.vectors) {
            tensors.extend(named(kind, &ops::download(vector.clone())?, slots));
        }
        if !tensors.is_empty() {
            let time = i64::try_from(state.time).unwrap_or(i64::MAX);
            tensors.push(TensorBytes::from_i64(TIME, vec![1], &[time]));
        }
        Ok(tensors)
    }

    /// Takes the state from what [`Elementwise::to_bytes`] gave.
    pub(super) fn restore(&mut self, slots: &[Slot], saved: &mut Saved<'_>, device: &Device) {
        if self.rule.kinds().is_empty() {
            return;
        }
        let kinds = self.rule.kinds().iter();
        self.state = Some(State {
            time: saved.count(TIME),
            vectors: kinds.map(|kind| saved.flat(kind, slots, device)).collect(),
        });
    }
}

/// `1 - beta^time` in float64.
#[expect(clippy::cast_precision_loss, reason = "steps stay far below 2^52")]
pub(super) fn correction(beta: f64, time: u64) -> f64 {
    1.0 - beta.powf(time as f64)
}
