//! Adam (Kingma and Ba 2014), bias corrections in float64.
//!
//! burn's computes `1 - beta^t` in float32, where beta = 0.999 leaves five digits: its updates are
//! off by up to 1.5e-5. Otherwise this is the same rule with the same epsilon as PyTorch's:
//! `w - rate / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + epsilon)`.

use burn::tensor::{Device, Tensor};

use super::layout::{Saved, Slot, host, named};
use crate::checkpoint::TensorBytes;
use crate::run::Fault;

const MOMENT_1: &str = "moment_1";
const MOMENT_2: &str = "moment_2";
const TIME: &str = "time";

/// Adam without weight decay.
pub(super) struct Adam {
    betas: [f64; 2],
    epsilon: f64,
    state: Option<State>,
}

struct State {
    time: u64,
    moment_1: Tensor<1>,
    moment_2: Tensor<1>,
}

impl Adam {
    pub(super) fn new(betas: [f64; 2], epsilon: f64) -> Self {
        Self {
            betas,
            epsilon,
            state: None,
        }
    }

    /// The parameters after one step; `[n]`.
    #[expect(clippy::cast_precision_loss, reason = "steps stay far below 2^52")]
    pub(super) fn step(
        &mut self,
        parameters: Tensor<1>,
        gradient: Tensor<1>,
        rate: f64,
    ) -> Tensor<1> {
        let [beta_1, beta_2] = self.betas;
        let fresh_1 = gradient.clone().mul_scalar(1.0 - beta_1);
        let fresh_2 = gradient.square().mul_scalar(1.0 - beta_2);
        let (time, moment_1, moment_2) = match self.state.take() {
            None => (1, fresh_1, fresh_2),
            Some(State {
                time,
                moment_1,
                moment_2,
            }) => (
                time + 1,
                moment_1.mul_scalar(beta_1) + fresh_1,
                moment_2.mul_scalar(beta_2) + fresh_2,
            ),
        };
        let correction_1 = 1.0 - beta_1.powf(time as f64);
        let correction_2 = 1.0 - beta_2.powf(time as f64);
        let denominator = moment_2
            .clone()
            .sqrt()
            .mul_scalar(1.0 / correction_2.sqrt())
            .add_scalar(self.epsilon);
        let update = moment_1.clone().mul_scalar(rate / correction_1) / denominator;
        self.state = Some(State {
            time,
            moment_1,
            moment_2,
        });
        parameters - update
    }

    /// State over `slots`, which are the ones that the vectors of [`Adam::step`] hold.
    pub(super) fn to_bytes<'a, S>(&self, slots: S) -> Result<Vec<TensorBytes>, Fault>
    where
        S: IntoIterator<Item = &'a Slot> + Clone,
    {
        let Some(state) = &self.state else {
            return Ok(Vec::new());
        };
        let time = i64::try_from(state.time).unwrap_or(i64::MAX);
        let mut tensors = named(MOMENT_1, &host(&state.moment_1)?, slots.clone());
        tensors.extend(named(MOMENT_2, &host(&state.moment_2)?, slots));
        tensors.push(TensorBytes::from_i64(TIME, vec![1], &[time]));
        Ok(tensors)
    }

    pub(super) fn restore<'a, S>(&mut self, slots: S, saved: &mut Saved<'_>, device: &Device)
    where
        S: IntoIterator<Item = &'a Slot> + Clone,
    {
        self.state = Some(State {
            time: saved.count(TIME),
            moment_1: saved.flat(MOMENT_1, slots.clone(), device),
            moment_2: saved.flat(MOMENT_2, slots, device),
        });
    }
}
