//! Times: read with or without an offset from UTC, kept in UTC with a fixed number of digits.
//!
//! The grammar is narrower than RFC 3339: microseconds have six digits, and no second is a leap second.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;

/// Digits of a second that a field holds.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Precision {
    /// Parts of a second may be given, and are cut off.
    Seconds,
    /// Exactly six digits.
    Micros,
}

/// Date and time, fraction, offset.
static GRAMMAR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let time =
        "^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-5][0-9]:[0-5][0-9])(\\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$";
    Regex::new(time).ok()
});

/// Returns the canonical text of a time.
pub(super) fn canonical(text: &str, precision: Precision) -> Result<String, String> {
    let read = || {
        let parts = GRAMMAR.as_ref()?.captures(text)?;
        let fraction = parts.get(2).map_or("", |fraction| fraction.as_str());
        let (fraction, format) = match precision {
            Precision::Seconds => ("", "%Y-%m-%dT%H:%M:%SZ"),
            Precision::Micros if fraction.len() == 7 => (fraction, "%Y-%m-%dT%H:%M:%S.%6fZ"),
            Precision::Micros => return None,
        };
        let time: Timestamp = format!("{}{fraction}{}", &parts[1], &parts[3]).parse().ok()?;
        Some(time.strftime(format).to_string())
    };
    let example = match precision {
        Precision::Seconds => "2006-01-02T15:04:05Z",
        Precision::Micros => "2006-01-02T15:04:05.000000Z",
    };
    read().ok_or_else(|| format!("invalid time {text:?}: expected a form such as {example}"))
}
