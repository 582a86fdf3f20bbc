//! Contradictions.
use super::diagnostic::Faults;
use super::experiment::Config;
use super::tree::Table;
/// Names of metrics.
pub(super) const METRICS: [&str; 8] = [
    "loss",
    "accuracy",
    "f1",
    "auroc",
    "mse",
    "mae",
    "r2",
    "perplexity",
];
pub(super) fn contradictions(_config: &Config, _root: &Table, _faults: &mut Faults) {}
