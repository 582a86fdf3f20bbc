//! The network with everything that changes while it learns.

use burn::tensor::{Device, Tensor};

use super::loss::Objective;
use super::optimizer::{Layout, Optimizer, Slot};
use crate::checkpoint::{Snapshot, TensorBytes};
use crate::config::Config;
use crate::data::{InputShape, TargetShape};
use crate::model::{Buffers, Network, Parameters};
use crate::run::Fault;

/// A network, its weights and running statistics, and the optimiser that moves them.
pub(super) struct Learner {
    pub(super) network: Network,
    pub(super) objective: Objective,
    pub(super) parameters: Parameters,
    pub(super) buffers: Buffers,
    optimizer: Optimizer,
    pub(super) device: Device,
}

impl Learner {
    /// A fresh learner, weights drawn from the seed.
    ///
    /// # Errors
    ///
    /// When model, data and loss do not fit together.
    pub(super) fn new(
        config: &Config,
        input: &InputShape,
        target: &TargetShape,
        device: &Device,
    ) -> Result<Self, Fault> {
        let network = Network::expand(&config.model, input, target)?;
        let classes = !matches!(target, TargetShape::Value { .. });
        Ok(Self {
            objective: Objective::resolve(&config.train, classes)?,
            parameters: Parameters::initial(&network, config.seed, device),
            buffers: Buffers::initial(&network, device),
            optimizer: Optimizer::new(&config.optimizer, layout(&network)),
            network,
            device: device.clone(),
        })
    }

    /// Takes weights, statistics and optimiser state from a checkpoint.
    ///
    /// # Errors
    ///
    /// When they are not exactly what this learner has.
    pub(super) fn restore(&mut self, config: &Config, snapshot: &Snapshot) -> Result<(), Fault> {
        self.parameters = Parameters::from_bytes(&self.network, &snapshot.model, &self.device)?;
        self.buffers = Buffers::from_bytes(&self.network, &snapshot.model, &self.device)?;
        self.optimizer = Optimizer::from_bytes(
            &config.optimizer,
            layout(&self.network),
            &snapshot.optimizer,
            &self.device,
        )?;
        Ok(())
    }

    /// Moves the weights along `scale` times `gradient` `[parameters]`.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(super) fn update(
        &mut self,
        gradient: Tensor<1>,
        scale: f64,
        learning_rate: f64,
    ) -> Result<(), Fault> {
        // Nobody else holds the vector now, so it changes in place.
        let flat = self.parameters.take();
        let updated = self.optimizer.apply(flat, gradient, scale, learning_rate)?;
        self.parameters = Parameters::from_flat(&self.network, updated);
        Ok(())
    }

    /// Moves running statistics towards those of a batch, given as a sum over its samples.
    pub(super) fn follow(&mut self, statistics: Option<Tensor<1>>, samples: f64) {
        if let Some(sums) = statistics {
            self.buffers.update(sums.div_scalar(samples));
        }
    }

    /// Waits until the device has done what it was given.
    ///
    /// # Errors
    ///
    /// When it failed.
    pub(super) fn wait(&self) -> Result<(), Fault> {
        self.device.sync().map_err(|error| {
            Fault::machine(format!("the device failed: {error:?}"))
                .advise("check the device, then continue with `trainer resume`")
        })
    }

    /// A copy of weights and statistics on the host.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(super) fn model_bytes(&self) -> Result<Vec<TensorBytes>, Fault> {
        let mut tensors = self.parameters.to_bytes(&self.network)?;
        tensors.extend(self.buffers.to_bytes(&self.network)?);
        Ok(tensors)
    }

    /// A copy of the optimiser's state on the host.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(super) fn optimizer_bytes(&self) -> Result<Vec<TensorBytes>, Fault> {
        self.optimizer.to_bytes()
    }
}

fn layout(network: &Network) -> Layout {
    let mut slots: Vec<Slot> = network
        .parameters()
        .iter()
        .map(|spec| Slot {
            name: spec.name.clone(),
            shape: spec.shape.clone(),
            range: spec.range.clone(),
            hidden_matrix: spec.hidden_matrix,
        })
        .collect();
    slots.sort_by_key(|slot| slot.range.start);
    Layout {
        slots,
        decay_count: network.decay_count(),
    }
}
