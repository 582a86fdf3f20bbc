//! Numbers and booleans.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds, RangeInclusive};

use serde_json::{Value as Json, json};

use super::{At, Form, either, or_reference};
use crate::config::tree::{Node, Value};

/// A whole number within a range.
pub(in crate::config) struct Whole<T> {
    min: T,
    max: T,
}

/// Takes whole numbers of a range.
pub(in crate::config) fn whole<T: Copy>(range: RangeInclusive<T>) -> Whole<T> {
    Whole {
        min: *range.start(),
        max: *range.end(),
    }
}

impl<T> Form for Whole<T>
where
    T: Copy + PartialOrd + Display + TryFrom<i128> + 'static,
    Json: From<T>,
{
    type Value = T;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<T> {
        let number = match &node.value {
            Value::Whole(number) => Some(*number),
            Value::Text {
                text,
                filled_in: true,
            } => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.and_then(|number| T::try_from(number).ok());
        number
            .filter(|number| (self.min..=self.max).contains(number))
            .or_else(|| at.refuse(node, &self.takes()))
    }

    fn write(&self, value: &T) -> Json {
        Json::from(*value)
    }

    fn schema(&self) -> Json {
        or_reference(&json!({
            "type": "integer",
            "minimum": Json::from(self.min),
            "maximum": Json::from(self.max),
        }))
    }

    fn takes(&self) -> String {
        format!("a whole number from {} to {}", self.min, self.max)
    }
}

/// One of a few whole numbers.
pub(in crate::config) struct Only(&'static [u32]);

/// Takes exactly these whole numbers.
pub(in crate::config) fn only(numbers: &'static [u32]) -> Only {
    Only(numbers)
}

impl Form for Only {
    type Value = u32;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<u32> {
        let number = match &node.value {
            Value::Whole(number) => u32::try_from(*number).ok(),
            Value::Text {
                text,
                filled_in: true,
            } => text.trim().parse().ok(),
            _ => None,
        };
        number
            .filter(|number| self.0.contains(number))
            .or_else(|| at.refuse(node, &self.takes()))
    }

    fn write(&self, value: &u32) -> Json {
        json!(value)
    }

    fn schema(&self) -> Json {
        or_reference(&json!({"enum": self.0}))
    }

    fn takes(&self) -> String {
        either(self.0.iter().map(ToString::to_string))
    }
}

/// A finite number within bounds.
#[derive(Clone, Copy)]
pub(in crate::config) struct Real {
    min: f64,
    max: f64,
    min_excluded: bool,
    max_excluded: bool,
}

/// Takes numbers of a range.
pub(in crate::config) fn real(range: impl RangeBounds<f64>) -> Real {
    let bound = |bound: Bound<&f64>, open: f64| match bound {
        Bound::Included(&at) => (at, false),
        Bound::Excluded(&at) => (at, true),
        Bound::Unbounded => (open, true),
    };
    let (min, min_excluded) = bound(range.start_bound(), f64::NEG_INFINITY);
    let (max, max_excluded) = bound(range.end_bound(), f64::INFINITY);
    Real {
        min,
        max,
        min_excluded,
        max_excluded,
    }
}

impl Real {
    /// Without the lower bound itself.
    pub(in crate::config) fn above(mut self) -> Self {
        self.min_excluded = true;
        self
    }

    /// Whether a number is within the bounds. Infinite and undefined numbers never are.
    pub(in crate::config) fn contains(&self, number: f64) -> bool {
        let high_enough = number > self.min || (!self.min_excluded && number >= self.min);
        let low_enough = number < self.max || (!self.max_excluded && number <= self.max);
        number.is_finite() && high_enough && low_enough
    }

    /// JSON Schema without the reference to a variable.
    pub(in crate::config) fn plain_schema(&self) -> Json {
        let mut schema = json!({"type": "number"});
        if self.min.is_finite() {
            let key = ["minimum", "exclusiveMinimum"][usize::from(self.min_excluded)];
            schema[key] = json!(self.min);
        }
        if self.max.is_finite() {
            let key = ["maximum", "exclusiveMaximum"][usize::from(self.max_excluded)];
            schema[key] = json!(self.max);
        }
        schema
    }
}

/// The number that a value stands for, if it does; -0 becomes 0, so that equal configs print alike.
pub(in crate::config) fn number(node: &Node) -> Option<f64> {
    let number = match &node.value {
        #[expect(clippy::cast_precision_loss, reason = "such numbers are out of range")]
        Value::Whole(number) => *number as f64,
        Value::Real(number) => *number,
        Value::Text {
            text,
            filled_in: true,
        } => text.trim().parse().ok()?,
        _ => return None,
    };
    Some(number + 0.0)
}

impl Form for Real {
    type Value = f64;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<f64> {
        number(node)
            .filter(|&number| self.contains(number))
            .or_else(|| at.refuse(node, &self.takes()))
    }

    fn write(&self, value: &f64) -> Json {
        json!(value)
    }

    fn schema(&self) -> Json {
        or_reference(&self.plain_schema())
    }

    fn takes(&self) -> String {
        let mut bounds = Vec::new();
        match (self.min.is_finite(), self.min_excluded) {
            (true, true) => bounds.push(format!("above {}", self.min)),
            (true, false) => bounds.push(format!("of at least {}", self.min)),
            (false, _) => {}
        }
        match (self.max.is_finite(), self.max_excluded) {
            (true, true) => bounds.push(format!("below {}", self.max)),
            (true, false) => bounds.push(format!("at most {}", self.max)),
            (false, _) => {}
        }
        if bounds.is_empty() {
            "a number".to_string()
        } else {
            format!("a number {}", bounds.join(" and "))
        }
    }
}

/// `true` or `false`.
pub(in crate::config) struct Flag;

/// Takes `true` and `false`.
pub(in crate::config) fn flag() -> Flag {
    Flag
}

impl Form for Flag {
    type Value = bool;

    fn read(&self, node: &Node, at: &mut At<'_>) -> Option<bool> {
        match &node.value {
            Value::Flag(flag) => Some(*flag),
            Value::Text {
                text,
                filled_in: true,
            } if text == "true" => Some(true),
            Value::Text {
                text,
                filled_in: true,
            } if text == "false" => Some(false),
            _ => at.refuse(node, &self.takes()),
        }
    }

    fn write(&self, value: &bool) -> Json {
        json!(value)
    }

    fn schema(&self) -> Json {
        or_reference(&json!({"type": "boolean"}))
    }

    fn takes(&self) -> String {
        "`true` or `false`".to_string()
    }
}
