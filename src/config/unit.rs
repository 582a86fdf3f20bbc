//! Quantities with a unit in the value: `"100 steps"`, `"2 epochs"`, `"30 s"`, `"5 %"`.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value as Json, json};

use super::diagnostic::Diagnostic;
use super::form::{At, Field, Form, Object, either, or_reference, whole};
use super::reader::TableReader;
use super::section::{Key, Presence};
use super::tree::{Node, Value};

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// Units of an [`Every`] that a key takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Steps,
    Epochs,
    Seconds,
    Never,
}

/// How often, in some of the units.
pub(super) struct EveryForm(&'static [Unit]);

/// Takes `"100 steps"` and the like.
pub(super) fn every(units: &'static [Unit]) -> EveryForm {
    EveryForm(units)
}

/// The text of a value.
fn text_of(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text { text, .. } => Some(text),
        _ => None,
    }
}

/// What to do with a number that has no unit.
fn unit_help(node: &Node) -> Option<String> {
    match &node.value {
        Value::Whole(number) => Some(format!("write the unit: \"{number} steps\"")),
        _ => None,
    }
}

impl Form for EveryForm {
    type Value = Every;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<Every> {
        let every: Option<Every> = text_of(node).and_then(|text| text.parse().ok());
        let fits = |every: &Every| {
            self.0.contains(&match every {
                Every::Steps(_) => Unit::Steps,
                Every::Epochs(_) => Unit::Epochs,
                Every::Seconds(_) => Unit::Seconds,
                Every::Never => Unit::Never,
            })
        };
        every
            .filter(fits)
            .or_else(|| at.refuse_with(node, &self.takes(), unit_help(node)))
    }

    fn write(&self, value: &Every) -> Json {
        json!(value.to_string())
    }

    fn schema(&self) -> Json {
        let mut units = Vec::new();
        let mut examples = Vec::new();
        for unit in self.0 {
            let (pattern, example) = match unit {
                Unit::Steps => ("steps?", "100 steps"),
                Unit::Epochs => ("epochs?", "1 epoch"),
                Unit::Seconds => ("s|seconds?|min|minutes?|h|hours?", "10 min"),
                Unit::Never => continue,
            };
            units.push(pattern);
            examples.push(example);
        }
        let mut pattern = format!("[0-9_]*[1-9][0-9_]*\\s*({})", units.join("|"));
        if self.0.contains(&Unit::Never) {
            examples.push("never");
            pattern = format!("({pattern}|never)");
        }
        let pattern = format!("^\\s*{pattern}\\s*$");
        or_reference(&json!({"type": "string", "pattern": pattern, "examples": examples}))
    }

    fn takes(&self) -> String {
        let examples = self.0.iter().map(|unit| match unit {
            Unit::Steps => "\"100 steps\"",
            Unit::Epochs => "\"1 epoch\"",
            Unit::Seconds => "\"10 min\"",
            Unit::Never => "\"never\"",
        });
        format!("a quantity like {}", either(examples.map(str::to_string)))
    }
}

/// A number of steps, with the unit.
pub(super) struct StepsForm(EveryForm);

/// Takes `"10 steps"`.
pub(super) fn steps() -> StepsForm {
    StepsForm(EveryForm(&[Unit::Steps]))
}

impl Form for StepsForm {
    type Value = u32;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<u32> {
        let steps = match self.0.read(node, at)? {
            Every::Steps(steps) => u32::try_from(steps).ok(),
            _ => None,
        };
        steps.or_else(|| at.refuse(node, &self.takes()))
    }

    fn write(&self, value: &u32) -> Json {
        self.0.write(&Every::Steps(u64::from(*value)))
    }

    fn schema(&self) -> Json {
        self.0.schema()
    }

    fn takes(&self) -> String {
        self.0.takes()
    }
}

/// A length in steps, epochs or percent.
pub(super) struct LengthForm;

/// Takes `"100 steps"`, `"2 epochs"` and `"5 %"`.
pub(super) fn length() -> LengthForm {
    LengthForm
}

impl Form for LengthForm {
    type Value = Length;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<Length> {
        text_of(node)
            .and_then(|text| text.parse().ok())
            .or_else(|| at.refuse_with(node, &self.takes(), unit_help(node)))
    }

    fn write(&self, value: &Length) -> Json {
        json!(value.to_string())
    }

    fn schema(&self) -> Json {
        or_reference(&json!({
            "type": "string",
            "pattern": "^\\s*([0-9][0-9_]*\\s*(steps?|epochs?)|(0*100(\\.0+)?|0*[0-9]{1,2}(\\.[0-9]+)?)\\s*%)\\s*$",
            "examples": ["100 steps", "2 epochs", "5 %"],
        }))
    }

    fn takes(&self) -> String {
        "a quantity like \"100 steps\", \"2 epochs\" or \"5 %\"".to_string()
    }
}

/// The length of training: exactly one of the keys `epochs` and `steps`.
pub(super) struct EpochsOrSteps;

/// The keys of [`EpochsOrSteps`].
pub(super) const LENGTH_KEYS: [&str; 2] = ["epochs", "steps"];

/// Longest training, in epochs or steps.
const LENGTH_MAX: u64 = 1_000_000_000_000;

impl Field for EpochsOrSteps {
    type Value = Length;

    fn take(
        &self,
        _: &'static str,
        _: Option<Length>,
        table: &mut TableReader<'_>,
    ) -> Option<Length> {
        let [epochs, steps] = LENGTH_KEYS.map(|key| table.entry(key));
        match (epochs, steps) {
            (Some(epochs), Some(steps)) => {
                let message = "the length of training is given twice";
                let fault = Diagnostic::new(message, &steps.key_span)
                    .and(&epochs.key_span, "and here")
                    .help("remove `epochs` or `steps`");
                table.fault(|_| fault);
                None
            }
            (Some(entry), None) => {
                let number = whole(1..=LENGTH_MAX).read(&entry.node, &mut table.at("epochs"));
                number.map(Length::Epochs)
            }
            (None, Some(entry)) => {
                let number = whole(1..=LENGTH_MAX).read(&entry.node, &mut table.at("steps"));
                number.map(Length::Steps)
            }
            (None, None) => {
                table.miss("epochs", "a number of epochs; or give `steps`".to_string());
                None
            }
        }
    }

    fn put(&self, _: &'static str, value: &Length, out: &mut Object) {
        let (key, number) = match value {
            Length::Epochs(epochs) => ("epochs", json!(epochs)),
            Length::Steps(steps) => ("steps", json!(steps)),
            // Not a length of the whole: no config has it.
            Length::Percent(_) => ("steps", json!(0)),
        };
        out.insert(key.to_string(), number);
    }

    fn keys(self, _: &'static str, doc: String, _: Presence) -> Vec<Key> {
        LENGTH_KEYS
            .into_iter()
            .map(|key| Key {
                name: key,
                doc: format!("{doc} In {key}; exactly one of `epochs` and `steps` is given."),
                presence: Presence::OneOf,
                form: Box::new(whole(1..=LENGTH_MAX)),
            })
            .collect()
    }

    fn spell(&self, value: &Length) -> Json {
        json!(value.to_string())
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
