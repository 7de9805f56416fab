//! Times: read with or without an offset from UTC, kept in UTC with a fixed number of digits.
//!
//! The grammar is narrower than RFC 3339: microseconds have six digits, and no second is a leap second.

use std::borrow::Cow;
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
pub(super) fn canonical(text: &str, precision: Precision) -> Result<Cow<'_, str>, String> {
    if is_canonical(text, precision) {
        return Ok(Cow::Borrowed(text));
    }
    let read = || {
        let parts = GRAMMAR.as_ref()?.captures(text)?;
        let fraction = parts.get(2).map_or("", |fraction| fraction.as_str());
        let (fraction, format) = match precision {
            Precision::Seconds => ("", "%Y-%m-%dT%H:%M:%SZ"),
            Precision::Micros if fraction.len() == 7 => (fraction, "%Y-%m-%dT%H:%M:%S.%6fZ"),
            Precision::Micros => return None,
        };
        let time: Timestamp = format!("{}{fraction}{}", &parts[1], &parts[3]).parse().ok()?;
        Some(time.strftime(format).to_string().into())
    };
    let example = match precision {
        Precision::Seconds => "2006-01-02T15:04:05Z",
        Precision::Micros => "2006-01-02T15:04:05.000000Z",
    };
    read().ok_or_else(|| format!("invalid time {text:?}: expected a form such as {example}"))
}

/// Reports whether a text is a canonical time. May report `false` if it is one: the last days of months depend on the
/// calendar.
fn is_canonical(text: &str, precision: Precision) -> bool {
    let pattern: &[u8] = match precision {
        Precision::Seconds => b"0000-00-00T00:00:00Z",
        Precision::Micros => b"0000-00-00T00:00:00.000000Z",
    };
    let bytes = text.as_bytes();
    let fits = |(byte, pattern): (&u8, &u8)| match pattern {
        b'0' => byte.is_ascii_digit(),
        pattern => byte == pattern,
    };
    let in_range = |at: usize, low: &str, high: &str| {
        let number = text.get(at..at + low.len());
        number.is_some_and(|number| (low..=high).contains(&number))
    };
    bytes.len() == pattern.len()
        && bytes.iter().zip(pattern).all(fits)
        && in_range(0, "1000", "9998")
        && in_range(5, "01", "12")
        && in_range(8, "01", "28")
        && in_range(11, "00", "23")
        && in_range(14, "00", "59")
        && in_range(17, "00", "59")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_canonical() {
        for (text, seconds, micros) in [
            ("2026-02-28T23:59:59Z", Some("2026-02-28T23:59:59Z"), None),
            ("2026-02-29T23:59:59Z", None, None),
            ("2024-02-29T00:00:00Z", Some("2024-02-29T00:00:00Z"), None),
            ("2026-13-01T00:00:00Z", None, None),
            ("2026-00-01T00:00:00Z", None, None),
            ("2026-01-00T00:00:00Z", None, None),
            ("2026-01-01T24:00:00Z", None, None),
            ("2026-01-01T00:60:00Z", None, None),
            ("2026-01-01T00:00:60Z", None, None),
            ("2026-01-01t00:00:00Z", None, None),
            ("2026-01-01T01:00:00+01:00", Some("2026-01-01T00:00:00Z"), None),
            (
                "2026-01-01T00:00:00.000001Z",
                Some("2026-01-01T00:00:00Z"),
                Some("2026-01-01T00:00:00.000001Z"),
            ),
            ("2026-01-01T00:00:00.5Z", Some("2026-01-01T00:00:00Z"), None),
        ] {
            let read = |precision| canonical(text, precision).ok();
            assert_eq!(read(Precision::Seconds).as_deref(), seconds, "{text}");
            assert_eq!(read(Precision::Micros).as_deref(), micros, "{text}");
        }
    }
}
