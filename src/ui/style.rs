//! Colours, or none.

use std::ffi::OsStr;

/// What a text means, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary text.
    Normal,
    /// A heading.
    Strong,
    /// Less important.
    Faint,
    /// Went well.
    Good,
    /// Should be looked at.
    Warning,
    /// Went wrong.
    Bad,
}

/// Whether texts are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    color: bool,
}

impl Style {
    /// Without colours.
    pub const PLAIN: Style = Style { color: false };
    /// With colours.
    pub const COLOR: Style = Style { color: true };

    /// Colours for a terminal, unless `NO_COLOR` is set to anything but an empty text (the rule of
    /// no-color.org) or the terminal is called `dumb`.
    #[must_use]
    pub fn of_environment(terminal: bool) -> Self {
        Self::decide(
            terminal,
            std::env::var_os("NO_COLOR").as_deref(),
            std::env::var_os("TERM").as_deref(),
        )
    }

    fn decide(terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        let refused = no_color.is_some_and(|value| !value.is_empty());
        let dumb = term.is_some_and(|value| value == "dumb");
        Self {
            color: terminal && !refused && !dumb,
        }
    }

    /// A text in the colour of its meaning.
    #[must_use]
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Normal => return text.into(),
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "31",
        };
        if self.color && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let set = |text: &'static str| Some(OsStr::new(text));
        for (terminal, no_color, term, color) in [
            (true, None, None, true),
            (true, set(""), set("xterm"), true),
            (true, set("1"), None, false),
            (true, set("0"), None, false),
            (true, None, set("dumb"), false),
            (false, None, None, false),
        ] {
            assert_eq!(Style::decide(terminal, no_color, term), Style { color });
        }
    }

    #[test]
    fn no_colour_means_no_escape() {
        assert_eq!(Style::PLAIN.paint(Tone::Bad, "x"), "x");
        assert_eq!(Style::COLOR.paint(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Style::COLOR.paint(Tone::Normal, "x"), "x");
    }
}
