//! The whole experiment: the top of the file.

use super::checkpoint::Checkpoint;
use super::data::Data;
use super::declare::record;
use super::eval::Eval;
use super::form::{either, name, whole};
use super::log::Log;
use super::model::Model;
use super::optimizer::Optimizer;
use super::recovery::Recovery;
use super::resources::Resources;
use super::schedule::Schedule;
use super::section::{Section, Shape, section};
use super::train::Train;

/// Largest seed: the largest integer that every TOML reader takes.
const SEED_MAX: u64 = i64::MAX as u64;

/// Sections that are planned and that this version does not know.
pub(super) const LATER: [&str; 6] = [
    "search",
    "hyperparameters",
    "fairness",
    "audit",
    "profile",
    "pipeline",
];

record! {
    /// One experiment, resolved: what `trainer config show` prints and what a run stores and
    /// hashes.
    pub struct Config {
        /// Name of the experiment; names the run directory.
        name: String => name();
        /// Seed of everything random: order, initial weights, dropout, augmentation, splits.
        seed: u64 => whole(0..=SEED_MAX), default 0;
        /// What to learn from.
        data: Data => section();
        /// What to train.
        model: Model => section();
        /// How long, and in which batches.
        train: Train => section();
        /// How weights follow gradients.
        optimizer: Optimizer => section();
        /// The learning rate over the optimiser steps.
        schedule: Schedule => section();
        /// When and on what to evaluate.
        eval: Eval => section();
        /// Devices and processes.
        resources: Resources => section();
        /// When to write checkpoints and which to keep.
        checkpoint: Checkpoint => section();
        /// What to do when a process dies.
        recovery: Recovery => section();
        /// What is recorded, and how often.
        log: Log => section();
    }
}

/// Where a key belongs that is not known where it was found.
pub(super) fn home_of(name: &str) -> Option<String> {
    let Shape::Keys(sections) = Config::shape() else {
        return None;
    };
    let mut homes: Vec<String> = Vec::new();
    for section in &sections {
        let Some(shape) = section.form.shape() else {
            continue;
        };
        let keys = shape.every_key();
        let mut found = keys.iter().filter(|(_, key)| key.name == name).peekable();
        if found.peek().is_some() {
            let kinds = found.filter_map(|(kind, _)| kind.map(|kind| format!("\"{kind}\"")));
            homes.push(match either(kinds) {
                kinds if kinds.is_empty() => format!("`[{}]`", section.name),
                kinds => format!("`[{}]` of kind {kinds}", section.name),
            });
        }
    }
    (!homes.is_empty()).then(|| format!("it is a key of {}", homes.join(" and of ")))
}
