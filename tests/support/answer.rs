//! What a command printed and how it ended.

use std::process::Output;

use serde_json::Value;

/// A finished command.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Exit code; none when a signal ended it.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// Lines of a screen that an error must fit on.
const SCREEN_LINES: usize = 24;

impl Answer {
    /// From what the standard library gives.
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Exit code 0, and no panic.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        self.ends_with(0)
    }

    /// This exit code, and no panic.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }

    /// This exit code, and an error of at most one screen that holds all these texts.
    #[track_caller]
    pub(crate) fn fails_with(self, code: i32, texts: &[&str]) -> Self {
        let answer = self.ends_with(code);
        assert!(answer.stderr.contains("error"), "{answer:#?}");
        assert!(answer.stderr.lines().count() <= SCREEN_LINES, "{answer:#?}");
        for text in texts {
            assert!(answer.stderr.contains(text), "no `{text}` in {answer:#?}");
        }
        answer
    }

    /// Standard output holds this text.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "no `{text}` in {self:#?}");
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e} in {}", self.stdout))
    }

    /// Standard output as JSON lines.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line}")))
            .collect()
    }
}
