//! What standard output is: how wide, and whether it takes colours.

use std::io::{self, IsTerminal};

use crate::ui::Style;

/// Columns and colours of standard output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    /// Columns; none when it is no terminal, where nothing is cut.
    pub(super) columns: Option<usize>,
    /// With or without colours.
    pub(super) style: Style,
}

impl Screen {
    /// As it is now.
    pub(super) fn stdout() -> Self {
        let stdout = io::stdout();
        let size = terminal_size::terminal_size_of(&stdout);
        Self {
            columns: size
                .map(|(width, _)| usize::from(width.0))
                .filter(|&n| n > 0),
            style: Style::of_environment(stdout.is_terminal()),
        }
    }
}
