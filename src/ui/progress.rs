//! The display for a terminal: lines of note scroll by, a few lines at the bottom stay.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::screen::{Screen, Size};
use super::style::{Style, Tone};
use super::{Origin, RunView, ending, notice, panel};
use crate::run::{Entry, Event, Reader};

/// Least time between two drawings for steps, in milliseconds.
const REDRAW_MS: u64 = 100;

/// The time, in milliseconds since 1970.
type Clock = Box<dyn Fn() -> u64 + Send>;

/// Draws a panel with `indicatif` and lets notices scroll by above it.
pub struct Progress {
    /// All lines of the panel are the message of one bar: one drawing per change.
    bar: ProgressBar,
    origin: Origin,
    view: RunView,
    style: Style,
    size: Size,
    clock: Clock,
    drawn_ms: u64,
    named: bool,
    ended: bool,
}

impl Progress {
    /// A display on standard error, which must be a terminal.
    #[must_use]
    pub fn stderr(origin: Origin) -> Self {
        Self::new(
            Box::new(io::stderr()),
            stderr_size,
            Style::of_environment(true),
            origin,
        )
    }

    /// A display on any terminal: `size` says how many columns and rows it has at the moment.
    #[must_use]
    pub fn new(
        out: Box<dyn Write + Send>,
        size: impl Fn() -> (u16, u16) + Clone + Send + Sync + 'static,
        style: Style,
        origin: Origin,
    ) -> Self {
        let screen = Screen::new(out, Box::new(size.clone()));
        let target = ProgressDrawTarget::term_like(Box::new(screen));
        Self {
            bar: ProgressBar::with_draw_target(None, target).with_style(bar_style()),
            view: origin.view(),
            origin,
            style,
            size: Box::new(size),
            clock: Box::new(now_ms),
            drawn_ms: 0,
            named: false,
            ended: false,
        }
    }

    #[cfg(test)]
    pub(super) fn at(mut self, clock: impl Fn() -> u64 + Send + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    fn scroll(&self, tone: Tone, text: &str) {
        self.bar.println(self.style.paint(tone, text));
    }

    fn draw(&mut self) {
        let now_ms = (self.clock)();
        self.drawn_ms = now_ms;
        // The last column stays free: some terminals break the line when it is written.
        let columns = usize::from((self.size)().0).saturating_sub(1);
        let text = panel::lines(&self.view, columns, now_ms, self.style).join("\n");
        if self.bar.message() != text {
            self.bar.set_message(text);
        }
    }

    /// Takes the panel away and leaves the summary.
    fn end(&mut self) {
        self.ended = true;
        self.bar.finish_and_clear();
        for line in ending::lines(&self.view, &self.origin, self.style) {
            self.scroll(Tone::Normal, &line);
        }
    }
}

impl Reader for Progress {
    fn take(&mut self, entry: &Entry) {
        self.view.take(entry);
        if let Event::StepFinished(_) = &entry.event {
            // Formatting a panel for every step would cost more than a short step.
            if (self.clock)().saturating_sub(self.drawn_ms) >= REDRAW_MS {
                self.draw();
            }
            return;
        }
        if !self.named {
            self.named = true;
            self.scroll(Tone::Normal, &self.origin.headline(&self.view));
        }
        for notice in notice::notices(&entry.event) {
            self.scroll(notice.tone, &notice.text);
        }
        match &entry.event {
            Event::StateChanged { to, .. } if !to.is_live() => self.end(),
            Event::StateChanged { .. } => {
                if self.ended {
                    self.ended = false;
                    self.bar.reset();
                }
                self.draw();
            }
            _ if self.ended => {}
            _ => self.draw(),
        }
    }

    fn tick(&mut self) {
        if !self.ended {
            self.draw();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // Without a last state (the supervisor failed) the panel must not stay as if it were alive.
        if !self.ended {
            self.end();
        }
    }
}

fn bar_style() -> ProgressStyle {
    ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

fn stderr_size() -> (u16, u16) {
    terminal_size::terminal_size_of(io::stderr())
        .map_or((80, 24), |(width, height)| (width.0, height.0))
}
