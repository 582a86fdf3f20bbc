//! The events that are worth a line, in words. Shared by all displays for people.

use super::human::{self, bytes, count, counted, duration, number, printable};
use super::style::Tone;
use crate::run::{DataSummary, Event, RunState, Step, WorldSize};

/// Most lines that one event gives.
const LINES_MAX: usize = 12;

/// One line about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// What it means.
    pub(super) tone: Tone,
    /// The text: one line, harmless.
    pub(super) text: String,
}

fn notice(tone: Tone, text: &str) -> Notice {
    Notice {
        tone,
        text: printable(text),
    }
}

/// Lines about an event; none about one that is no news. Steps are none: displays show them in their
/// own way. The last state of a run is none either: it gets a summary.
#[expect(clippy::too_many_lines, reason = "a flat list of events")]
pub(super) fn notices(event: &Event) -> Vec<Notice> {
    let one = |tone, text: String| vec![notice(tone, &text)];
    let mut lines = match event {
        Event::AttemptStarted { environment, .. } => one(
            Tone::Faint,
            format!(
                "machine: {}, {}, {}",
                environment.hostname,
                environment.cpu,
                counted(u64::from(environment.cpu_count), "core", "cores")
            ),
        ),
        Event::ConfigChanged { changes, .. } => changes
            .iter()
            .map(|change| notice(Tone::Warning, &format!("config changed: {change}")))
            .collect(),
        Event::WorkerExited {
            rank,
            status,
            restarts: true,
            ..
        } => one(
            Tone::Warning,
            format!("warning: worker {rank} ended with {status} and is started again"),
        ),
        Event::SlotsAwaited {
            wants,
            behind,
            holders,
        } => one(Tone::Warning, waits(wants, behind, holders)),
        Event::SlotsTaken { devices } => {
            one(Tone::Faint, format!("devices: {}", devices.join(", ")))
        }
        Event::GroupFormed {
            world_size, step, ..
        } => one(Tone::Normal, group(*world_size, *step)),
        Event::Recovered {
            cause,
            step,
            timing,
            ..
        } => one(
            Tone::Good,
            format!(
                "recovered at step {step} within {} ({cause})",
                duration(timing.regroup + timing.transfer + timing.first_step)
            ),
        ),
        Event::DataPrepared { summary } => data(summary),
        Event::ModelBuilt { layers, parameters } => one(
            Tone::Normal,
            format!(
                "model: {}, {} parameters",
                counted(layers.len() as u64, "layer", "layers"),
                count(*parameters)
            ),
        ),
        Event::TrainingBegan {
            step,
            steps_total,
            checkpoint,
            device,
            ..
        } => {
            let from = checkpoint
                .as_ref()
                .map(|name| format!(", continuing from {name}"))
                .unwrap_or_default();
            one(
                Tone::Normal,
                format!("training on {device}: step {step} of {steps_total}{from}"),
            )
        }
        Event::Evaluated {
            step,
            split,
            seconds,
            metrics,
            ..
        } => one(
            Tone::Good,
            format!(
                "{split} at step {step}: {} ({})",
                values(metrics),
                duration(*seconds)
            ),
        ),
        Event::CheckpointCommitted(info) => one(
            Tone::Faint,
            format!(
                "checkpoint {}: {}, written in {}",
                info.directory,
                bytes(info.bytes),
                duration(info.write_seconds)
            ),
        ),
        Event::CheckpointFailed { step, reason } => one(
            Tone::Bad,
            format!("error: checkpoint of step {step} was not written: {reason}"),
        ),
        Event::CheckpointRejected { checkpoint, reason } => one(
            Tone::Warning,
            format!("warning: checkpoint {checkpoint} is passed over: {reason}"),
        ),
        Event::Warned { message } => one(Tone::Warning, format!("warning: {message}")),
        Event::FaultRaised { fault } => fault_lines(&fault.render()),
        Event::StateChanged { to, reason, .. } if *to == RunState::Pausing => {
            one(Tone::Warning, format!("{to}: {reason}"))
        }
        Event::RunCreated { .. }
        | Event::StateChanged { .. }
        | Event::WorkerStarted { .. }
        | Event::WorkerExited { .. }
        | Event::StepFinished(_)
        | Event::CheckpointRemoved { .. }
        | Event::Improved { .. }
        | Event::MemoryMeasured { .. } => Vec::new(),
    };
    if lines.len() > LINES_MAX {
        let more = lines.len() - (LINES_MAX - 1);
        lines.truncate(LINES_MAX - 1);
        lines.push(notice(Tone::Warning, &format!("and {more} more")));
    }
    lines
}

fn waits(wants: &str, behind: &[String], holders: &[String]) -> String {
    let list = |before: &str, runs: &[String]| match runs {
        [] => String::new(),
        runs => format!("{before} {}", runs.join(", ")),
    };
    let (held, next) = (list(", held by", holders), list("; next are", behind));
    format!("waits for {wants}{held}{next}")
}

fn group(world_size: WorldSize, step: Option<Step>) -> String {
    let workers = counted(world_size.get().into(), "worker", "workers");
    match step {
        Some(step) => format!("{workers} go on from step {step} in memory"),
        None => format!("{workers} train together"),
    }
}

fn data(summary: &DataSummary) -> Vec<Notice> {
    let parts: Vec<String> = summary
        .parts
        .iter()
        .map(|part| format!("{} {}", count(part.samples), part.split))
        .collect();
    let text = format!(
        "data: {}, {} samples ({})",
        summary.kind,
        parts.join(", "),
        duration(summary.seconds)
    );
    let warnings = summary.warnings.iter();
    std::iter::once(notice(Tone::Normal, &text))
        .chain(warnings.map(|text| notice(Tone::Warning, &format!("warning: {text}"))))
        .collect()
}

fn fault_lines(text: &str) -> Vec<Notice> {
    text.lines().map(|line| notice(Tone::Bad, line)).collect()
}

/// Metrics on one line, the loss first.
pub(super) fn values<'a>(metrics: impl IntoIterator<Item = (&'a String, &'a f64)>) -> String {
    let mut metrics: Vec<(&String, &f64)> = metrics.into_iter().collect();
    metrics.sort_by_key(|(name, _)| (*name != "loss", *name));
    let texts: Vec<String> = metrics
        .into_iter()
        .map(|(name, value)| format!("{} {}", human::printable(name), number(*value)))
        .collect();
    texts.join("  ")
}
