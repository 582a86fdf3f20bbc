//! A terminal for `indicatif`, over anything that can be written to.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::TermLike;

/// `indicatif` computes with the width minus that of a character: less than two columns overflow.
const COLUMNS_MIN: u16 = 2;

/// How many columns and rows the terminal has at the moment.
pub(super) type Size = Box<dyn Fn() -> (u16, u16) + Send + Sync>;

/// A terminal that understands the few common escape sequences. Writing errors are swallowed: a
/// terminal that is gone is no reason to stop a run.
pub(super) struct Screen {
    out: Mutex<Box<dyn Write + Send>>,
    size: Size,
}

impl Screen {
    pub(super) fn new(out: Box<dyn Write + Send>, size: Size) -> Self {
        Self {
            out: Mutex::new(out),
            size,
        }
    }

    fn write(&self, text: &str) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.write_all(text.as_bytes());
    }
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen").finish_non_exhaustive()
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        (self.size)().0.max(COLUMNS_MIN)
    }

    fn height(&self) -> u16 {
        (self.size)().1.max(1)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.sequence(n, 'A');
        Ok(())
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.sequence(n, 'B');
        Ok(())
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.sequence(n, 'C');
        Ok(())
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.sequence(n, 'D');
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write(&format!("{text}\n"));
        Ok(())
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.write(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.write("\r\u{1b}[2K");
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.flush();
        Ok(())
    }
}

impl Screen {
    fn sequence(&self, n: usize, what: char) {
        if n > 0 {
            self.write(&format!("\u{1b}[{n}{what}"));
        }
    }
}
