//! Numbers, sizes, times and names as people read them. The one home of all such texts.

use jiff::Timestamp;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A value of a metric: five significant digits, without trailing zeros.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".into();
    }
    if !size.is_finite() {
        return value.to_string();
    }
    if (1e-4..1e6).contains(&size) {
        let decimals = match size {
            s if s >= 1e4 => 0,
            s if s >= 1e3 => 1,
            s if s >= 1e2 => 2,
            s if s >= 1e1 => 3,
            s if s >= 1.0 => 4,
            s if s >= 1e-1 => 5,
            s if s >= 1e-2 => 6,
            s if s >= 1e-3 => 7,
            _ => 8,
        };
        trimmed(&format!("{value:.decimals$}")).to_string()
    } else {
        let text = format!("{value:.4e}");
        match text.split_once('e') {
            Some((mantissa, exponent)) => format!("{}e{exponent}", trimmed(mantissa)),
            None => text,
        }
    }
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

/// A number of bytes with a decimal unit, two digits or more.
#[must_use]
pub fn bytes(count: u64) -> String {
    if count < 1000 {
        return format!("{count} B");
    }
    scaled(precise(count), &["kB", "MB", "GB", "TB", "PB", "EB"], " ")
}

/// Something per second, e.g. samples; without a unit of its own.
#[must_use]
pub(super) fn rate(per_second: f64) -> String {
    if per_second < 1000.0 {
        let digits = usize::from(per_second < 99.5);
        return format!("{per_second:.digits$}");
    }
    scaled(per_second, &["k", "M", "G", "T"], "")
}

fn scaled(value: f64, units: &[&str], gap: &str) -> String {
    let mut value = value / 1000.0;
    let mut units = units.iter().peekable();
    let mut unit = units.next().copied().unwrap_or_default();
    while value >= 999.5 && units.peek().is_some() {
        value /= 1000.0;
        unit = units.next().copied().unwrap_or_default();
    }
    let digits = usize::from(value < 99.95);
    format!("{value:.digits$}{gap}{unit}")
}

/// A whole number in groups of three digits.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `1 step`, `2 steps`: a count with its noun.
pub(super) fn counted(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// A length of time, given in seconds.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "?".into();
    }
    if seconds < 0.9995 {
        return format!("{:.0} ms", seconds * 1000.0);
    }
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    whole_duration(rounded(seconds))
}

/// A length of time in whole seconds, as an estimate is shown.
pub(super) fn whole_duration(seconds: u64) -> String {
    let (days, hours) = (seconds / DAY, seconds % DAY / HOUR);
    let (minutes, rest) = (seconds % HOUR / MINUTE, seconds % MINUTE);
    match seconds {
        0..MINUTE => format!("{rest} s"),
        MINUTE..HOUR => format!("{minutes} min {rest:02} s"),
        HOUR..DAY => format!("{hours} h {minutes:02} min"),
        _ => format!("{days} d {hours:02} h"),
    }
}

/// How long ago a moment was, both in milliseconds since 1970: `12 s ago`.
#[must_use]
pub fn ago(then_ms: u64, now_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(then_ms) / 1000;
    match seconds {
        0 => "now".into(),
        1..MINUTE => format!("{seconds} s ago"),
        MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        HOUR..DAY => format!("{} h ago", seconds / HOUR),
        _ => format!("{} d ago", seconds / DAY),
    }
}

/// A moment in UTC, given in milliseconds since 1970; `?` beyond the calendar.
#[must_use]
pub fn moment(time_ms: u64) -> String {
    formatted(time_ms, "%Y-%m-%d %H:%M:%S UTC")
}

/// A moment in UTC as logs have it: `2026-11-30T10:03:21Z`.
pub(super) fn stamp(time_ms: u64) -> String {
    formatted(time_ms, "%Y-%m-%dT%H:%M:%SZ")
}

fn formatted(time_ms: u64, format: &str) -> String {
    i64::try_from(time_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| "?".into(), |time| time.strftime(format).to_string())
}

/// Enough of a hash to tell two apart by eye.
#[must_use]
pub fn short_hash(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

/// Text on one line that cannot command a terminal: line ends become spaces; other control
/// characters, and those that turn the direction of writing, become U+FFFD. Names and messages come
/// from files that anybody may have written.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                '\u{fffd}'
            }
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Columns that a text takes on a terminal.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// The beginning of a text that fits into `columns`, with `…` where something is missing.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.into();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        kept.push(c);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// `count` as a float, for display and rates.
#[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
pub(super) fn precise(count: u64) -> f64 {
    count as f64
}

/// The nearest whole number, 0 for what is negative or not a number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float that is too large becomes the largest integer"
)]
pub(super) fn rounded(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (0.97531, "0.97531"),
            (0.001, "0.001"),
            (0.000_123_456, "0.00012346"),
            (12.5, "12.5"),
            (-3.0, "-3"),
            (100.0, "100"),
            (123_456.7, "123457"),
            (2.5e7, "2.5e7"),
            (1e-7, "1e-7"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(number(value), text);
        }
        for (value, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1500, "1.5 kB"),
            (999_600, "1.0 MB"),
            (123_400_000, "123 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(value), text);
        }
        for (value, text) in [
            (0.0, "0.0"),
            (12.34, "12.3"),
            (512.0, "512"),
            (12_345.0, "12.3k"),
        ] {
            assert_eq!(rate(value), text);
        }
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(counted(1, "step", "steps"), "1 step");
    }

    #[test]
    fn times_are_short() {
        for (seconds, text) in [
            (0.0004, "0 ms"),
            (0.25, "250 ms"),
            (12.34, "12.3 s"),
            (59.96, "1 min 00 s"),
            (185.0, "3 min 05 s"),
            (7500.0, "2 h 05 min"),
            (273_600.0, "3 d 04 h"),
            (f64::NAN, "?"),
            (-1.0, "?"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        assert_eq!(ago(1000, 500), "now");
        assert_eq!(ago(0, 59_000), "59 s ago");
        assert_eq!(ago(0, 3_600_000), "1 h ago");
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(stamp(1_796_033_001_999), "2026-11-30T10:03:21Z");
        assert_eq!(moment(u64::MAX), "?");
    }

    proptest! {
        #[test]
        fn cut_texts_fit_and_are_harmless(text in any::<String>(), columns in 0usize..40) {
            let safe = printable(&text);
            prop_assert!(!safe.chars().any(char::is_control));
            prop_assert!(width(&cut(&safe, columns)) <= columns);
        }

        #[test]
        fn every_number_has_a_text(value in any::<f64>(), whole in any::<u64>()) {
            prop_assert!(!number(value).is_empty());
            prop_assert!(width(&number(value)) <= 12);
            let texts = [
                duration(value),
                bytes(whole),
                rate(value.abs()),
                whole_duration(whole),
                ago(whole, u64::MAX),
                moment(whole),
            ];
            prop_assert!(texts.iter().all(|text| !text.is_empty()));
        }

        #[test]
        fn a_number_keeps_its_value(value in prop::num::f64::NORMAL) {
            let back: f64 = number(value).parse().unwrap();
            prop_assert!((back - value).abs() <= value.abs() * 1e-4);
        }
    }
}
