//! A small terminal: what a person would see after these bytes.

use unicode_width::UnicodeWidthChar;

/// A screen without end, `columns` wide.
pub(super) struct Terminal {
    columns: usize,
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// Widest line that was drawn.
    pub(super) widest: usize,
}

impl Terminal {
    /// The screen after `text` was written.
    ///
    /// Panics on a sequence that it does not know: the display uses no other.
    pub(super) fn showing(columns: usize, text: &str) -> Self {
        let mut terminal = Self {
            columns,
            rows: vec![vec![]],
            row: 0,
            column: 0,
            widest: 0,
        };
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\n' => terminal.go_to(terminal.row + 1, 0),
                '\r' => terminal.column = 0,
                '\u{1b}' => terminal.sequence(&mut chars),
                c => {
                    assert!(!c.is_control(), "{c:?} is written");
                    terminal.put(c);
                }
            }
        }
        terminal
    }

    /// What is to be seen, without empty lines at the end.
    pub(super) fn contents(&self) -> String {
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|row| row.iter().collect::<String>().trim_end().to_string())
            .collect();
        rows.join("\n").trim_end().to_string()
    }

    fn sequence(&mut self, chars: &mut std::str::Chars<'_>) {
        assert_eq!(chars.next(), Some('['));
        let mut number = String::new();
        let letter = loop {
            match chars.next().unwrap() {
                c if c.is_ascii_digit() => number.push(c),
                c => break c,
            }
        };
        let n: usize = number.parse().unwrap_or(1);
        match letter {
            'A' => self.row -= n,
            'B' => self.go_to(self.row + n, self.column),
            'C' => self.column += n,
            'D' => self.column -= n,
            'K' => {
                assert_eq!(n, 2);
                self.rows[self.row].clear();
            }
            'm' => {}
            other => panic!("sequence {number}{other} is written"),
        }
    }

    fn go_to(&mut self, row: usize, column: usize) {
        while self.rows.len() <= row {
            self.rows.push(vec![]);
        }
        (self.row, self.column) = (row, column);
    }

    fn put(&mut self, c: char) {
        let width = c.width().unwrap_or(0);
        if self.column + width > self.columns {
            self.go_to(self.row + 1, 0);
        }
        let row = &mut self.rows[self.row];
        while row.len() <= self.column {
            row.push(' ');
        }
        row[self.column] = c;
        self.column += width;
        self.widest = self.widest.max(self.column);
    }
}
