//! The few lines at the bottom of a terminal that show where a run stands. Pure.

use super::human::{self, bytes, cut, number, printable, rate, rounded, whole_duration, width};
use super::notice::values;
use super::style::{Style, Tone};
use super::{RunView, view::Evaluation};
use crate::run::RunState;

/// Columns of the bar, where there is room.
const BAR_MAX: usize = 40;
/// A shorter bar says nothing.
const BAR_MIN: usize = 8;
/// After so many seconds without an event, the silence is shown.
const SILENCE_SECONDS: u64 = 10;

/// The lines for a terminal of `columns`, none of them wider.
pub(super) fn lines(view: &RunView, columns: usize, now_ms: u64, style: Style) -> Vec<String> {
    let mut lines = vec![head(view, columns, now_ms, style), bar(view, columns)];
    let numbers = numbers(view, columns);
    if !numbers.is_empty() {
        lines.push(numbers);
    }
    for (split, evaluation) in &view.evaluations {
        lines.push(evaluated(split, evaluation, columns));
    }
    if let Some(checkpoint) = &view.checkpoint {
        let parts = [
            format!("checkpoint  step {}", checkpoint.step),
            bytes(checkpoint.bytes),
        ];
        lines.push(fit(&parts, columns));
    }
    if let Some((step, reason)) = &view.checkpoint_failure {
        let text = format!("checkpoint of step {step} failed: {}", printable(reason));
        lines.push(style.paint(Tone::Bad, &cut(&text, columns)));
    }
    lines
}

fn head(view: &RunView, columns: usize, now_ms: u64, style: Style) -> String {
    let silent = now_ms.saturating_sub(view.updated_ms) / 1000;
    let name = cut(&printable(&view.name), columns);
    let mut parts = vec![name.clone()];
    if let Some(state) = view.state {
        parts.push(state.to_string());
    }
    if silent >= SILENCE_SECONDS && view.updated_ms > 0 {
        parts.push(format!("no event for {}", whole_duration(silent)));
    }
    if view.attempt.get() > 1 {
        parts.push(format!("attempt {}", view.attempt));
    }
    if !view.device.is_empty() {
        parts.push(format!("on {}", printable(&view.device)));
    }
    let line = fit(&parts, columns);
    match line.strip_prefix(&name) {
        Some(rest) => format!("{}{rest}", style.paint(Tone::Strong, &name)),
        None => line,
    }
}

fn bar(view: &RunView, columns: usize) -> String {
    let mut parts = Vec::new();
    match view.steps_total {
        0 => parts.push(waiting(view.state).to_string()),
        total => parts.push(format!("step {}/{total}", view.step)),
    }
    if let Some((epoch, total)) = view.epoch_of() {
        parts.push(format!("epoch {epoch}/{total}"));
    }
    if let Some(left) = view.seconds_left() {
        parts.push(format!("{} left", whole_duration(rounded(left))));
    }
    let Some(fraction) = view.fraction() else {
        return fit(&parts, columns);
    };
    // Rounded down: 100 % is said when all is done.
    let percent = rounded((fraction * 100.0).floor());
    let front = format!("{percent:3} % ");
    let text = fit(&parts, columns.saturating_sub(width(&front)));
    let room = columns.saturating_sub(width(&front) + width(&text) + 4);
    if room < BAR_MIN {
        return cut(&format!("{front}{text}"), columns);
    }
    let cells = room.min(BAR_MAX);
    let full = usize::try_from(rounded((fraction * human::precise(cells as u64)).floor()))
        .unwrap_or(0)
        .min(cells);
    let tip = usize::from(full < cells);
    format!(
        "{front}[{}{}{}]  {text}",
        "=".repeat(full),
        ">".repeat(tip),
        " ".repeat(cells - full - tip),
    )
}

fn waiting(state: Option<RunState>) -> &'static str {
    match state {
        Some(RunState::Queued) => "waiting for a device",
        _ => "preparing data and model",
    }
}

fn numbers(view: &RunView, columns: usize) -> String {
    let mut parts = Vec::new();
    if let Some(loss) = view.loss {
        parts.push(format!("loss {}", number(loss)));
    }
    if let Some(smoothed) = view.smoothed_loss {
        parts.push(format!("smoothed {}", number(smoothed)));
    }
    // The first rate that is of interest: of tokens where there are any.
    if let Some(tokens) = view.tokens_per_second() {
        parts.push(format!("{} tokens/s", rate(tokens)));
    }
    if let Some(samples) = view.samples_per_second() {
        parts.push(format!("{} samples/s", rate(samples)));
    }
    if let Some(learning_rate) = view.learning_rate {
        parts.push(format!("lr {}", number(learning_rate)));
    }
    fit(&parts, columns)
}

fn evaluated(split: &str, evaluation: &Evaluation, columns: usize) -> String {
    let parts = [
        format!("{:<10}  {}", printable(split), values(&evaluation.metrics)),
        format!("(step {})", evaluation.step),
    ];
    fit(&parts, columns)
}

/// As many parts as fit, two spaces apart; the first one cut if it must be.
fn fit(parts: &[String], columns: usize) -> String {
    let mut line = String::new();
    for part in parts {
        if line.is_empty() {
            line = cut(part, columns);
        } else if width(&line) + 2 + width(part) <= columns {
            line.push_str("  ");
            line.push_str(part);
        } else {
            break;
        }
    }
    line
}
