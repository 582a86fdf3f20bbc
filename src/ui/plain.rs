//! The display where there is no terminal: lines for a log, at a bounded rate.

use std::io::Write;

use super::human::{self, number, rate, whole_duration};
use super::style::Style;
use super::{Origin, RunView, ending, notice};
use crate::run::{Entry, Event, Reader};

/// Time between two progress lines, in milliseconds.
const INTERVAL_MS: u64 = 10_000;

/// The first lines come sooner: after 1, 2 and 4 seconds.
const FIRST_INTERVAL_MS: u64 = 1_000;

/// One line per event of note, and at most one line about steps in ten seconds. Every line starts
/// with the time in UTC; no control character is ever written.
pub struct Plain {
    out: Option<Box<dyn Write + Send>>,
    origin: Origin,
    view: RunView,
    interval_ms: u64,
    printed_ms: Option<u64>,
    named: bool,
}

impl Plain {
    /// A display that writes to `out`.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, origin: Origin) -> Self {
        Self {
            out: Some(out),
            view: origin.view(),
            origin,
            interval_ms: FIRST_INTERVAL_MS,
            printed_ms: None,
            named: false,
        }
    }

    fn line(&mut self, text: &str) {
        let Some(out) = &mut self.out else { return };
        let stamp = human::stamp(self.view.updated_ms);
        let written = writeln!(out, "{stamp} {text}").and_then(|()| out.flush());
        if written.is_err() {
            // Nobody reads any more; the run goes on.
            self.out = None;
        }
    }

    /// Prints where training stands, unless it did so a moment ago.
    fn step(&mut self, time_ms: u64) {
        let since = self.printed_ms.map(|then| time_ms.saturating_sub(then));
        let is_last = self.view.steps_total > 0 && self.view.step.get() >= self.view.steps_total;
        if since.is_some_and(|since| since < self.interval_ms) && !is_last {
            return;
        }
        if since.is_some() {
            self.interval_ms = (self.interval_ms * 2).min(INTERVAL_MS);
        }
        self.printed_ms = Some(time_ms);
        let text = progress(&self.view);
        self.line(&text);
    }
}

/// One line about where training stands.
fn progress(view: &RunView) -> String {
    let mut parts = vec![match view.steps_total {
        0 => format!("step {}", view.step),
        total => format!("step {}/{total}", view.step),
    }];
    if let Some((epoch, total)) = view.epoch_of() {
        parts.push(format!("epoch {epoch}/{total}"));
    }
    if let Some(loss) = view.loss {
        parts.push(format!("loss {}", number(loss)));
    }
    if let Some(smoothed) = view.smoothed_loss {
        parts.push(format!("smoothed {}", number(smoothed)));
    }
    if let Some(learning_rate) = view.learning_rate {
        parts.push(format!("lr {}", number(learning_rate)));
    }
    if let Some(samples) = view.samples_per_second() {
        parts.push(format!("{} samples/s", rate(samples)));
    }
    if let Some(tokens) = view.tokens_per_second() {
        parts.push(format!("{} tokens/s", rate(tokens)));
    }
    if let Some(left) = view.seconds_left() {
        parts.push(format!("{} left", whole_duration(human::rounded(left))));
    }
    if let Some((step, _)) = &view.checkpoint_failure {
        parts.push(format!("CHECKPOINT OF STEP {step} FAILED"));
    }
    parts.join("  ")
}

impl Reader for Plain {
    fn take(&mut self, entry: &Entry) {
        self.view.take(entry);
        if !self.named {
            self.named = true;
            self.line(&self.origin.headline(&self.view));
        }
        if let Event::StepFinished(_) = &entry.event {
            self.step(entry.time_ms);
        }
        for notice in notice::notices(&entry.event) {
            self.line(&notice.text);
        }
        if let Event::StateChanged { .. } = &entry.event {
            for line in ending::lines(&self.view, &self.origin, Style::PLAIN) {
                self.line(&line);
            }
        }
    }
}
