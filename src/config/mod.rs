//! The experiment file as plain data: one Rust file per section.
//!
//! Text becomes a [`Config`] in one pass that finds every fault ([`parse`]), with spans, nearest
//! names and the source line for each. What comes out is complete: defaults filled in, ranges and
//! contradictions checked, nothing optional that a reader would have to decide again.
//!
//! Refuses to: read data files, know devices, or change after it was resolved.

mod checkpoint;
mod data;
mod eval;
mod log;
mod model;
mod optimizer;
mod recovery;
mod resources;
mod schedule;
mod train;
mod unit;

pub use checkpoint::{Checkpoint, Keep};
pub use data::{
    Augment, Columns, Data, ImageData, ImageFormat, Normalize, Split, TableData, TableFormat, Task,
    TextData, TextFormat,
};
pub use eval::Eval;
pub use log::Log;
pub use model::{
    Activation, Block, Gpt, GptActivation, LayerConfig, Layers, Mlp, Model, Norm, Position, Resnet,
    Stem,
};
pub use optimizer::Optimizer;
pub use recovery::Recovery;
pub use resources::{Backend, Resources, Slots};
pub use schedule::Schedule;
pub use train::{EarlyStopping, Goal, Loss, Train};
pub use unit::{Every, Length};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One experiment, resolved: what `trainer config show` prints and what a run stores and hashes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the experiment: letters, digits, `-`, `_` and `.`; names the run directory.
    pub name: String,
    /// Seed of everything random: order, initial weights, dropout, augmentation, splits.
    pub seed: u64,
    /// What to learn from.
    pub data: Data,
    /// What to train.
    pub model: Model,
    /// How long, and in which batches.
    pub train: Train,
    /// How weights follow gradients.
    pub optimizer: Optimizer,
    /// The learning rate over the optimiser steps.
    pub schedule: Schedule,
    /// When and on what to evaluate.
    pub eval: Eval,
    /// Devices and processes.
    pub resources: Resources,
    /// When to write checkpoints and which to keep.
    pub checkpoint: Checkpoint,
    /// What to do when a process dies.
    pub recovery: Recovery,
    /// What is recorded, and how often.
    pub log: Log,
}
