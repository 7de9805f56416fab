//! Human-readable durations: `5s`, `2m3s`, `7h`, `3d12h`, `2y10d`.
//!
//! Mirrors `duration.HumanDuration` of apimachinery, with two or three significant figures: scripts compare and parse the
//! `AGE` column.

use jiff::Timestamp;

use crate::json::Value;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Formats a duration in whole seconds.
///
/// A negative duration of less than two seconds counts as zero, because the clocks of two machines may differ. A longer
/// negative duration is `<invalid>`.
#[must_use]
pub fn human(seconds: i64) -> String {
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

/// Formats the time since a timestamp; `<unknown>` if it is missing.
#[must_use]
pub fn since(timestamp: Option<&Value>, now: Timestamp) -> String {
    match parse(timestamp) {
        Some(then) => human(now.duration_since(then).as_secs()),
        None => "<unknown>".to_owned(),
    }
}

/// Formats the time since the creation of an object.
#[must_use]
pub fn age(object: &Value, now: Timestamp) -> String {
    since(object.pointer("/metadata/creationTimestamp"), now)
}

/// Parses a timestamp field. Returns `None` if it is missing or invalid.
#[must_use]
pub fn parse(timestamp: Option<&Value>) -> Option<Timestamp> {
    timestamp?.as_str()?.parse().ok()
}

/// Formats two units, and omits the smaller unit if it is zero.
fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn durations_at_unit_boundaries() {
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 59, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (48 * HOUR - 1, "47h"),
            (48 * HOUR, "2d"),
            (49 * HOUR, "2d1h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR, "8y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds} s");
        }
    }

    #[test]
    fn fractional_seconds_are_truncated() {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        for (then, text) in [
            ("2026-01-01T00:00:08.100000Z", "1s"),
            ("2026-01-01T00:00:11.900000Z", "0s"),
            ("2026-01-01T00:00:12Z", "<invalid>"),
            ("2026-01-01T01:00:00+01:00", "10s"),
        ] {
            assert_eq!(since(Some(&json!(then)), now), text, "{then}");
        }
        for none in [None, Some(&Value::Null), Some(&json!("yesterday"))] {
            assert_eq!(since(none, now), "<unknown>");
        }
    }
}
