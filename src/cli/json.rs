//! The objects that `--json` prints; `docs/json.md` is their documentation.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::run::{Best, RunId, RunState};
use crate::ui::CheckpointRow;

use super::select::Standing;

/// Version of every object below. Raised when a reader of the old ones would break.
pub(super) const FORMAT: u32 = 1;

/// A run, as `ls` and `show` print it; `show` adds checkpoints.
#[derive(Debug, Serialize)]
pub(super) struct RunJson<'a> {
    format: u32,
    id: RunId,
    name: &'a str,
    directory: String,
    state: RunState,
    alive: bool,
    reason: &'a str,
    created_ms: u64,
    updated_ms: u64,
    step: u64,
    steps_total: u64,
    steps_per_epoch: u64,
    attempts: u32,
    workers: u32,
    best: Option<&'a Best>,
    metrics: BTreeMap<&'a str, BTreeMap<&'a str, f64>>,
    config_sha256: &'a str,
    data_fingerprint: &'a str,
    parameters: u64,
    peak_bytes: u64,
    /// Of the last checkpoint.
    model_sha256: Option<&'a str>,
    /// Only in `show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoints: Option<Vec<CheckpointJson<'a>>>,
}

impl<'a> RunJson<'a> {
    /// Without checkpoints.
    pub(super) fn short(standing: &'a Standing) -> Self {
        let summary = &standing.summary;
        let metrics = summary.metrics.iter().map(|(split, values)| {
            let values = values.iter().map(|(name, at)| (name.as_str(), at.value));
            (split.as_str(), values.collect())
        });
        Self {
            format: FORMAT,
            id: summary.id,
            name: &summary.name,
            directory: standing.run.root().display().to_string(),
            state: summary.state,
            alive: standing.alive,
            reason: &summary.reason,
            created_ms: summary.created_ms,
            updated_ms: summary.updated_ms,
            step: summary.step.get(),
            steps_total: summary.steps_total,
            steps_per_epoch: summary.steps_per_epoch,
            attempts: summary.attempts.get(),
            workers: summary.workers,
            best: summary.best.as_ref(),
            metrics: metrics.collect(),
            config_sha256: &summary.config_sha256,
            data_fingerprint: &summary.data_fingerprint,
            parameters: summary.parameters,
            peak_bytes: summary.peak_bytes,
            model_sha256: summary
                .checkpoints
                .last()
                .map(|last| last.model_sha256.as_str()),
            checkpoints: None,
        }
    }

    /// With checkpoints.
    pub(super) fn full(standing: &'a Standing, checkpoints: &'a [CheckpointRow]) -> Self {
        Self {
            model_sha256: checkpoints
                .last()
                .and_then(|last| last.model_sha256.as_deref()),
            checkpoints: Some(checkpoints.iter().map(CheckpointJson::new).collect()),
            ..Self::short(standing)
        }
    }
}

/// One checkpoint.
#[derive(Debug, Serialize)]
pub(super) struct CheckpointJson<'a> {
    step: u64,
    path: &'a str,
    bytes: Option<u64>,
    sha256: Option<&'a str>,
    metric: Option<f64>,
    verified: Option<bool>,
    problem: Option<&'a str>,
}

impl<'a> CheckpointJson<'a> {
    /// As it was found.
    pub(super) fn new(row: &'a CheckpointRow) -> Self {
        Self {
            step: row.step.get(),
            path: &row.path,
            bytes: row.bytes,
            sha256: row.model_sha256.as_deref(),
            metric: row.metric,
            verified: row.verified,
            problem: row.problem.as_deref(),
        }
    }
}

/// Prints a value over several lines, for people and programs alike.
///
/// # Errors
///
/// When the output cannot be written.
pub(super) fn pretty(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Prints a value on one line.
///
/// # Errors
///
/// When the output cannot be written.
pub(super) fn line(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}
