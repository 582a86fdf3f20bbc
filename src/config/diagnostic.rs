//! Faults of a config, each with its place in the text, and how they are shown.

use std::fmt;
use std::fmt::Write as _;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// Most faults that are collected; a text with more is not a config.
const FAULTS_MAX: usize = 100;

/// Most faults that are shown, to stay readable.
const SHOWN_MAX: usize = 20;

/// Columns that a shown source line may take.
const WIDTH: usize = 100;

/// A text with the name it is shown under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// File name as the user gave it.
    pub name: String,
    /// The whole text.
    pub text: String,
}

impl Source {
    /// Without the characters that steer a terminal and that the renderer does not replace: those
    /// of the second control block, by one that is two bytes long as they are, so that places stay.
    fn harmless(mut self) -> Self {
        let is_control = |c: char| ('\u{80}'..='\u{9f}').contains(&c);
        self.text = self.text.replace(is_control, "·");
        self.name = self.name.replace(char::is_control, "·");
        self
    }
}

/// A range of bytes of one of the texts: 0 is the file, the others are overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) source: usize,
    pub(super) range: (usize, usize),
}

impl Span {
    pub(super) fn new(source: usize, range: Range<usize>) -> Self {
        Self {
            source,
            range: (range.start, range.end),
        }
    }
}

/// One fault: what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Diagnostic {
    message: String,
    /// The first is the place of the fault, the others are what it contradicts.
    places: Vec<(Span, String)>,
    help: Vec<String>,
}

impl Diagnostic {
    /// A fault at `span`.
    pub(super) fn new(message: impl Into<String>, span: &Span) -> Self {
        Self {
            message: message.into(),
            places: vec![(span.clone(), String::new())],
            help: Vec::new(),
        }
    }

    /// With a word under the caret of the place named last.
    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        if let Some((_, text)) = self.places.last_mut() {
            *text = label.into();
        }
        self
    }

    /// With another place that has to do with it.
    pub(super) fn and(mut self, span: &Span, label: impl Into<String>) -> Self {
        self.places.push((span.clone(), label.into()));
        self
    }

    /// With what to do.
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }
}

/// Faults that were found so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    list: Vec<Diagnostic>,
}

impl Faults {
    /// Takes one more, up to [`FAULTS_MAX`].
    pub(super) fn push(&mut self, fault: Diagnostic) {
        if !self.is_full() && !self.list.contains(&fault) {
            self.list.push(fault);
        }
    }

    /// Takes those of a part of a text that starts at byte `offset`.
    pub(super) fn take_moved(&mut self, other: Faults, offset: usize) {
        for mut fault in other.list {
            for (span, _) in &mut fault.places {
                span.range.0 += offset;
                span.range.1 += offset;
            }
            self.push(fault);
        }
    }

    /// Whether no more are taken.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= FAULTS_MAX
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What each of them says.
    pub(super) fn messages(&self) -> Vec<&str> {
        self.list
            .iter()
            .map(|fault| fault.message.as_str())
            .collect()
    }

    /// All of them, in the order of their places.
    pub(super) fn diagnose(mut self, sources: Vec<Source>) -> Diagnostics {
        self.list
            .sort_by(|a, b| a.places.first().cmp(&b.places.first()));
        Diagnostics {
            sources: sources.into_iter().map(Source::harmless).collect(),
            list: self.list,
        }
    }
}

/// All faults of a config. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    sources: Vec<Source>,
    list: Vec<Diagnostic>,
}

/// One fault with its place in numbers, for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What is wrong.
    pub message: String,
    /// File, or `command line`.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What to do; empty when the message says it.
    pub help: String,
}

impl Diagnostics {
    /// Number of faults.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// One line that says how many faults there are, and where.
    #[must_use]
    pub fn headline(&self) -> String {
        let name = self.sources.first().map_or("config", |s| s.name.as_str());
        match self.list.len() {
            1 => format!("{name} has a fault"),
            n => format!("{name} has {n} faults"),
        }
    }

    /// All faults as a person reads them: message, place, source line, caret, help.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let renderer = renderer.term_width(WIDTH);
        let mut out = String::new();
        for fault in self.list.iter().take(SHOWN_MAX) {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(&self.render_one(&renderer, fault));
            out.push('\n');
        }
        if let Some(more) = self.list.len().checked_sub(SHOWN_MAX).filter(|&n| n > 0) {
            let _ = writeln!(out, "\n… and {more} more");
        }
        out
    }

    fn render_one(&self, renderer: &Renderer, fault: &Diagnostic) -> String {
        let mut group = Level::ERROR.primary_title(fault.message.as_str()).element(
            self.snippet(
                fault,
                fault.places.first().map_or(0, |(span, _)| span.source),
            )
            .annotations(std::iter::empty()),
        );
        // Places in other texts (an override against the file) get a snippet each.
        let first = fault.places.first().map_or(0, |(span, _)| span.source);
        let mut others: Vec<usize> = fault.places.iter().map(|(span, _)| span.source).collect();
        others.sort_unstable();
        others.dedup();
        for source in others.into_iter().filter(|&source| source != first) {
            group = group.element(self.snippet(fault, source));
        }
        for help in &fault.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        renderer.render(&[group])
    }

    /// The lines of one text that a fault has to do with.
    fn snippet<'a>(
        &'a self,
        fault: &'a Diagnostic,
        source: usize,
    ) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let (name, text) = self
            .sources
            .get(source)
            .map_or(("", ""), |s| (s.name.as_str(), s.text.as_str()));
        let places = fault.places.iter().enumerate();
        Snippet::source(text).path(name).annotations(
            places
                .filter(|(_, (span, _))| span.source == source)
                .map(|(index, (span, label))| {
                    let kind = if index == 0 {
                        AnnotationKind::Primary
                    } else {
                        AnnotationKind::Context
                    };
                    let label = Some(label.as_str()).filter(|label| !label.is_empty());
                    kind.span(within(text, span.range)).label(label)
                }),
        )
    }

    /// The faults with their places in numbers.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        let report = |fault: &Diagnostic| {
            let span = fault.places.first().map(|(span, _)| span.clone());
            let span = span.unwrap_or_default();
            let source = self.sources.get(span.source);
            let text = source.map_or("", |s| s.text.as_str());
            let before = text.get(..within(text, span.range).start).unwrap_or("");
            let line_start = before.rfind('\n').map_or(0, |at| at + 1);
            Report {
                message: fault.message.clone(),
                file: source.map_or_else(String::new, |s| s.name.clone()),
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                help: fault.help.join("; "),
            }
        };
        self.list.iter().map(report).collect()
    }
}

/// The range, moved onto character boundaries within the text: whatever a span says, showing it
/// cannot fail.
fn within(text: &str, (start, end): (usize, usize)) -> Range<usize> {
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(start);
    start..floor(end).max(start)
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}
