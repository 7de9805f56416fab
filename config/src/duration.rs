//! Durations in Go's syntax: `1h2m3.5s`, `300ms`, `0`, `-1s`.
//!
//! Parsing accepts the syntax of `time.ParseDuration` and fails with its messages; formatting follows `Duration.String`, as
//! users know both from Kubernetes. Durations may be negative; `validate` decides whether that is allowed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Units in nanoseconds. Unicode has two micro signs.
const UNITS: [(&str, u64); 8] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ns", 1),
];

/// A signed span of time in nanoseconds, up to about 292 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoDuration(i64);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    #[error("time: invalid duration {}", quote(.0))]
    Invalid(String),
    #[error("time: missing unit in duration {}", quote(.0))]
    MissingUnit(String),
    #[error("time: unknown unit {} in duration {}", quote(unit), quote(text))]
    UnknownUnit { unit: String, text: String },
}

impl GoDuration {
    /// Returns none if the duration is negative.
    pub(crate) fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let invalid = || DurationError::Invalid(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total = 0_u64;
        while !rest.is_empty() {
            let (whole, after_whole) = digits(rest);
            let (fraction, after_number) = match after_whole.strip_prefix('.') {
                Some(after_point) => digits(after_point),
                None => ("", after_whole),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(invalid());
            }
            let unit_len = after_number
                .find(|c: char| c == '.' || c.is_ascii_digit())
                .unwrap_or(after_number.len());
            let (unit, after_unit) = after_number.split_at(unit_len);
            if unit.is_empty() {
                return Err(DurationError::MissingUnit(text.to_owned()));
            }
            let Some(&(_, nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
                return Err(DurationError::UnknownUnit {
                    unit: unit.to_owned(),
                    text: text.to_owned(),
                });
            };
            let whole = if whole.is_empty() {
                Some(0)
            } else {
                whole.parse::<u64>().ok()
            };
            total = whole
                .and_then(|whole| whole.checked_mul(nanos))
                .and_then(|whole| whole.checked_add(part_of(fraction, nanos)))
                .and_then(|part| part.checked_add(total))
                .ok_or_else(invalid)?;
            rest = after_unit;
        }
        let signed = if negative {
            0_i64.checked_sub_unsigned(total)
        } else {
            i64::try_from(total).ok()
        };
        signed.map(Self).ok_or_else(invalid)
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => decimal(f, nanos, 1_000, "\u{b5}s"),
            1_000_000..1_000_000_000 => decimal(f, nanos, 1_000_000, "ms"),
            _ => {
                let (minutes, seconds) = (nanos / 60_000_000_000, nanos % 60_000_000_000);
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                decimal(f, seconds, 1_000_000_000, "s")
            }
        }
    }
}

/// Splits `text` after its leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Returns `0.<fraction>` of a unit, computed in floating point like Go. Digits beyond 63 bits are dropped.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the result is at most one unit, and never negative"
)]
fn part_of(fraction: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in fraction.bytes() {
        let next = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(digit - b'0')));
        let Some(next) = next.filter(|next| *next <= 1 << 63) else {
            break;
        };
        value = next;
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

/// Writes `nanos` in a unit, without trailing zeros.
fn decimal(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    let (whole, fraction) = (nanos / unit, nanos % unit);
    if fraction == 0 {
        return write!(f, "{whole}{name}");
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{fraction:0width$}");
    write!(f, "{whole}.{}{name}", fraction.trim_end_matches('0'))
}

/// Quotes a text like Go's time package: bytes that are not printable ASCII are escaped.
fn quote(text: &str) -> String {
    let escaped: String = text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(byte)),
            b' '..=0x7f => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        })
        .collect();
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn parsed(text: &str) -> i64 {
        text.parse::<GoDuration>().expect(text).0
    }

    #[test]
    fn valid_go_durations_are_parsed() {
        for (text, nanos) in [
            ("0", 0),
            ("+0", 0),
            ("5s", 5 * SECOND),
            ("-5s", -5 * SECOND),
            ("+5s", 5 * SECOND),
            ("5.0s", 5 * SECOND),
            ("5.s", 5 * SECOND),
            (".5s", SECOND / 2),
            ("1.004s", 1_004_000_000),
            ("100.00100s", 100_001_000_000),
            ("10ns", 10),
            ("11us", 11_000),
            ("12\u{b5}s", 12_000),
            ("12\u{3bc}s", 12_000),
            ("13ms", 13_000_000),
            ("3h30m", (3 * 60 + 30) * 60 * SECOND),
            ("10.5s4m", (4 * 60 + 10) * SECOND + SECOND / 2),
            ("-2m3.4s", -(2 * 60 + 3) * SECOND - 400_000_000),
            ("1h2m3s4ms5us6ns", (62 * 60 + 3) * SECOND + 4_005_006),
            ("52763797000ns", 52_763_797_000),
            ("0.3333333333333333333h", 20 * 60 * SECOND),
            ("0.100000000000000000000h", 6 * 60 * SECOND),
            ("0.9223372036854775807h", 3_320_413_933_267),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("-2562047h47m16.854775808s", i64::MIN),
        ] {
            assert_eq!(parsed(text), nanos, "{text}");
        }
    }

    #[test]
    fn invalid_durations_fail_with_go_messages() {
        for (text, message) in [
            ("", r#"time: invalid duration """#),
            ("3", r#"time: missing unit in duration "3""#),
            ("-", r#"time: invalid duration "-""#),
            ("s", r#"time: invalid duration "s""#),
            (".", r#"time: invalid duration ".""#),
            ("-.", r#"time: invalid duration "-.""#),
            (".s", r#"time: invalid duration ".s""#),
            ("1s ", r#"time: unknown unit "s " in duration "1s ""#),
            (" 1s", r#"time: invalid duration " 1s""#),
            ("1s-1s", r#"time: unknown unit "s-" in duration "1s-1s""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
            ("1S", r#"time: unknown unit "S" in duration "1S""#),
            ("\u{85}", r#"time: invalid duration "\xc2\x85""#),
            ("a\"b\\\n", r#"time: invalid duration "a\"b\\\x0a""#),
            (
                "9223372036854775808ns",
                r#"time: invalid duration "9223372036854775808ns""#,
            ),
            (
                "-9223372036854775809ns",
                r#"time: invalid duration "-9223372036854775809ns""#,
            ),
            ("3000000h", r#"time: invalid duration "3000000h""#),
            (
                "99999999999999999999999s",
                r#"time: invalid duration "99999999999999999999999s""#,
            ),
        ] {
            let error = text.parse::<GoDuration>().expect_err(text);
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn durations_are_formatted_like_go() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (2_200_000, "2.2ms"),
            (300_000_000, "300ms"),
            (3_300_000_000, "3.3s"),
            (60 * SECOND, "1m0s"),
            (245 * SECOND, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (3600 * SECOND, "1h0m0s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (-1, "-1ns"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(GoDuration(nanos).to_string(), text);
        }
    }

    #[test]
    fn negative_duration_has_no_std_duration() {
        assert_eq!(GoDuration(-1).to_std(), None);
        assert_eq!(GoDuration(0).to_std(), Some(Duration::ZERO));
        assert_eq!(GoDuration(SECOND).to_std(), Some(Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn formatted_duration_parses_back(nanos: i64, shift in 0_u32..64) {
            let duration = GoDuration(nanos >> shift);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn parser_never_panics(text in "[-+]?([0-9.]{0,22}(h|m|s|ms|us|\u{b5}s|ns|x|)){0,4}|.*") {
            if let Ok(duration) = text.parse::<GoDuration>() {
                prop_assert_eq!(duration.to_string().parse(), Ok(duration));
            }
        }
    }
}
