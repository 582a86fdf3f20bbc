//! The last words of a display: how it went, where it is, how to go on.

use super::human::{duration, number, printable};
use super::notice::values;
use super::style::{Style, Tone};
use super::{Origin, RunView};
use crate::run::RunState;

/// Width of the labels.
const LABEL: usize = 11;

/// The summary of a run that has come to rest, a line each; empty for one that has not.
pub(super) fn lines(view: &RunView, origin: &Origin, style: Style) -> Vec<String> {
    let Some(state) = view.state.filter(|state| !state.is_live()) else {
        return Vec::new();
    };
    let tone = match state {
        RunState::Completed | RunState::EarlyStopped => Tone::Good,
        RunState::Failed => Tone::Bad,
        _ => Tone::Warning,
    };
    let reason = match view.reason.as_str() {
        "" => String::new(),
        reason => format!(": {}", printable(reason)),
    };
    let steps = match view.steps_total {
        0 => format!("{} steps", view.step),
        total => format!("step {} of {total}", view.step),
    };
    let name = printable(&view.name);
    let head = format!(
        "{} at {steps} after {}{reason}",
        style.paint(tone, &state.to_string()),
        duration(view.elapsed_seconds(view.updated_ms)),
    );
    let mut lines = vec![head];
    let mut fact = |label: &str, text: String| {
        let fill = LABEL.saturating_sub(label.len());
        let label = style.paint(Tone::Faint, label);
        lines.push(format!("  {label}{} {text}", " ".repeat(fill)));
    };
    for (split, evaluation) in &view.evaluations {
        let text = format!("{} (step {})", values(&evaluation.metrics), evaluation.step);
        fact(&printable(split), text);
    }
    if let Some(best) = &view.best {
        let metric = printable(&best.metric);
        let text = format!("{metric} {} at step {}", number(best.value), best.step);
        fact("best", text);
    }
    let directory = origin.directory(&view.name);
    if let Some(checkpoint) = &view.checkpoint {
        let path = directory.join("checkpoints").join(&checkpoint.directory);
        fact("checkpoint", printable(&path.display().to_string()));
    }
    if let Some((step, reason)) = &view.checkpoint_failure {
        let text = format!("of step {step} failed: {}", printable(reason));
        fact("checkpoint", style.paint(Tone::Bad, &text));
    }
    if origin.discards(view) {
        fact("run", "not kept, because nothing was trained".to_string());
        return lines;
    }
    fact("run", printable(&directory.display().to_string()));
    if !matches!(state, RunState::Completed | RunState::EarlyStopped) {
        fact("continue", printable(&origin.resume_command(&name)));
    }
    lines
}
