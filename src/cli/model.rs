//! `trainer model`: layers, shapes, parameters and memory of a config's model, without training.

use std::io::Write;

use serde::Serialize;

use crate::data::Dataset;
use crate::model::{MemoryEstimate, Network, layer_table, memory_table};
use crate::run::LayerSummary;

use super::args::ConfigFile;
use super::json::{self, FORMAT};
use super::load::load;
use super::outcome::{CommandResult, Outcome};

#[derive(Serialize)]
struct ModelJson<'a> {
    format: u32,
    parameters: u64,
    layers: &'a [LayerSummary],
    memory: MemoryJson,
}

/// Estimates in bytes.
#[derive(Serialize)]
struct MemoryJson {
    parameters: u64,
    gradients: u64,
    optimizer: u64,
    activations: u64,
    total: u64,
}

/// Prints the model. The data are read, because they decide the shapes at both ends.
pub(super) fn model(file: &ConfigFile, out: &mut dyn Write) -> CommandResult {
    let config = load(&file.config, &file.set.set)?.config;
    let dataset = Dataset::open(&config.data, config.seed, None)?;
    let network = Network::expand(&config.model, dataset.input(), dataset.target())
        .map_err(crate::run::Fault::from)?;
    let layers = network.summary();
    let train = &config.train;
    let shard_samples = u64::from(train.global_batch.div_ceil(train.shards.max(1)));
    let memory = network.memory(&config.optimizer, shard_samples, train.shards);
    if file.json {
        let shown = ModelJson {
            format: FORMAT,
            parameters: layers.iter().map(|layer| layer.parameters).sum(),
            layers: &layers,
            memory: in_json(&memory),
        };
        json::pretty(&shown, out)?;
    } else {
        write!(out, "{}", layer_table(&layers))?;
        writeln!(
            out,
            "\nestimated memory of a worker, shards of {shard_samples}"
        )?;
        write!(out, "{}", memory_table(&memory))?;
    }
    Ok(Outcome::Done)
}

fn in_json(memory: &MemoryEstimate) -> MemoryJson {
    MemoryJson {
        parameters: memory.parameters,
        gradients: memory.gradients,
        optimizer: memory.optimizer,
        activations: memory.activations,
        total: memory.total(),
    }
}
