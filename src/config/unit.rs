//! Quantities with a unit in the value: `"100 steps"`, `"2 epochs"`, `"30 s"`, `"5 %"`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Every {
    /// After this many optimiser steps.
    Steps(u64),
    /// At the end of every n-th epoch.
    Epochs(u64),
    /// When this many seconds have passed, at the next step boundary.
    Seconds(u64),
    /// Not at all.
    Never,
}

/// A length of training time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Length {
    /// Optimiser steps.
    Steps(u64),
    /// Whole epochs.
    Epochs(u64),
    /// A share of the whole training, in percent (0 to 100).
    Percent(f64),
}

/// Text that is not a quantity of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found `{found}`")]
pub struct UnitError {
    expected: &'static str,
    found: String,
}

const EVERY_EXPECTED: &str = "a quantity like \"100 steps\", \"1 epoch\", \"30 s\", or \"never\"";
const LENGTH_EXPECTED: &str = "a quantity like \"100 steps\", \"2 epochs\" or \"5 %\"";

/// Splits `"100 steps"` into number and unit; the space is optional.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

impl FromStr for Every {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError {
            expected: EVERY_EXPECTED,
            found: text.to_string(),
        };
        if text.trim() == "never" {
            return Ok(Every::Never);
        }
        let (number, unit) = split(text);
        let number: u64 = number.replace('_', "").parse().map_err(|_| wrong())?;
        if number == 0 {
            return Err(wrong());
        }
        let scaled = |factor: u64| number.checked_mul(factor).ok_or_else(wrong);
        match unit {
            "step" | "steps" => Ok(Every::Steps(number)),
            "epoch" | "epochs" => Ok(Every::Epochs(number)),
            "s" | "second" | "seconds" => Ok(Every::Seconds(number)),
            "min" | "minute" | "minutes" => Ok(Every::Seconds(scaled(60)?)),
            "h" | "hour" | "hours" => Ok(Every::Seconds(scaled(3600)?)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Every::Steps(n) => write!(f, "{n} {}", plural(*n, "step", "steps")),
            Every::Epochs(n) => write!(f, "{n} {}", plural(*n, "epoch", "epochs")),
            Every::Seconds(n) => write!(f, "{n} s"),
            Every::Never => f.write_str("never"),
        }
    }
}

impl FromStr for Length {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError {
            expected: LENGTH_EXPECTED,
            found: text.to_string(),
        };
        let (number, unit) = split(text);
        let number = number.replace('_', "");
        if unit == "%" {
            let percent: f64 = number.parse().map_err(|_| wrong())?;
            return if (0.0..=100.0).contains(&percent) {
                Ok(Length::Percent(percent))
            } else {
                Err(wrong())
            };
        }
        let number: u64 = number.parse().map_err(|_| wrong())?;
        match unit {
            "step" | "steps" => Ok(Length::Steps(number)),
            "epoch" | "epochs" => Ok(Length::Epochs(number)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Steps(n) => write!(f, "{n} {}", plural(*n, "step", "steps")),
            Length::Epochs(n) => write!(f, "{n} {}", plural(*n, "epoch", "epochs")),
            Length::Percent(p) => write!(f, "{p} %"),
        }
    }
}

fn plural(n: u64, one: &'static str, many: &'static str) -> &'static str {
    if n == 1 { one } else { many }
}

impl TryFrom<String> for Every {
    type Error = UnitError;
    fn try_from(text: String) -> Result<Self, UnitError> {
        text.parse()
    }
}

impl From<Every> for String {
    fn from(every: Every) -> String {
        every.to_string()
    }
}

impl TryFrom<String> for Length {
    type Error = UnitError;
    fn try_from(text: String) -> Result<Self, UnitError> {
        text.parse()
    }
}

impl From<Length> for String {
    fn from(length: Length) -> String {
        length.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_survive_printing() {
        for text in ["1 step", "100 steps", "1 epoch", "30 s", "never"] {
            assert_eq!(text.parse::<Every>().unwrap().to_string(), text);
        }
        for text in ["0 steps", "5 %", "2.5 %", "1 epoch"] {
            assert_eq!(text.parse::<Length>().unwrap().to_string(), text);
        }
        assert_eq!("2 min".parse(), Ok(Every::Seconds(120)));
        assert_eq!("1_000steps".parse(), Ok(Every::Steps(1000)));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "0 steps",
            "-1 steps",
            "5",
            "5 miles",
            "1e3 steps",
            "99999999999999999999 s",
        ] {
            assert!(text.parse::<Every>().is_err(), "{text}");
        }
        for text in ["101 %", "% 5", "x epochs", "5 %%"] {
            assert!(text.parse::<Length>().is_err(), "{text}");
        }
    }
}
