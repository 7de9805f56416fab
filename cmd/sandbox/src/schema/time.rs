//! Times: read with or without an offset from UTC, kept in UTC with a fixed number of digits.
//!
//! The grammar is the server's own and narrower than RFC 3339: microseconds are six digits or an error.

use jiff::civil::{Date, Time};
use jiff::tz::Offset;

/// How much of a second a field holds.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Precision {
    /// Parts of a second may be given, and are cut off.
    Seconds,
    /// Exactly six digits.
    Micros,
}

/// The canonical text of a time, or the server's words on why it is none.
pub(super) fn canonical(text: &str, precision: Precision) -> Result<String, String> {
    let mut reader = Reader {
        text,
        rest: text,
        precision,
    };
    let year = reader.number("2006", 4)?;
    reader.literal("-")?;
    let month = reader.number("01", 2)?;
    reader.literal("-")?;
    let day = reader.number("02", 2)?;
    reader.literal("T")?;
    let hour = reader.number("15", 2)?;
    reader.literal(":")?;
    let minute = reader.number("04", 2)?;
    reader.literal(":")?;
    let second = reader.number("05", 2)?;
    let micros = reader.fraction()?;
    let offset = reader.offset()?;
    reader.end()?;

    let out = |what: &str| format!("parsing time {text:?}: {what} out of range");
    if !(1..=12).contains(&month) {
        return Err(out("month"));
    }
    let date = Date::new(narrow(year), narrow(month), narrow(day)).map_err(|_| out("day"))?;
    for (value, limit, what) in [(hour, 24, "hour"), (minute, 60, "minute"), (second, 60, "second")] {
        if value >= limit {
            return Err(out(what));
        }
    }
    let time = Time::new(
        narrow(hour),
        narrow(minute),
        narrow(second),
        narrow::<i32>(micros) * 1000,
    )
    .map_err(|_| out("second"))?;
    let offset = Offset::from_seconds(offset).map_err(|_| out("time zone offset hour"))?;
    let utc = offset
        .to_timestamp(date.to_datetime(time))
        .map_err(|_| out("year"))?;
    let format = match precision {
        Precision::Seconds => "%Y-%m-%dT%H:%M:%SZ",
        Precision::Micros => "%Y-%m-%dT%H:%M:%S.%6fZ",
    };
    Ok(utc.strftime(format).to_string())
}

/// All numbers here have at most six digits and were read from them.
fn narrow<T: TryFrom<i64> + Default>(number: i64) -> T {
    T::try_from(number).unwrap_or_default()
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    precision: Precision,
}

impl Reader<'_> {
    fn fail(&self, element: &str) -> String {
        let layout = match self.precision {
            Precision::Seconds => "2006-01-02T15:04:05Z07:00",
            Precision::Micros => "2006-01-02T15:04:05.000000Z07:00",
        };
        let (text, rest) = (self.text, self.rest);
        format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}")
    }

    /// Takes exactly `digits` digits.
    fn number(&mut self, element: &str, digits: usize) -> Result<i64, String> {
        match self.rest.split_at_checked(digits) {
            Some((number, rest)) if number.bytes().all(|b| b.is_ascii_digit()) => {
                let number = number.parse().map_err(|_| self.fail(element))?;
                self.rest = rest;
                Ok(number)
            }
            _ => Err(self.fail(element)),
        }
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        self.rest = self
            .rest
            .strip_prefix(literal)
            .ok_or_else(|| self.fail(literal))?;
        Ok(())
    }

    /// Parts of a second, in microseconds.
    fn fraction(&mut self) -> Result<i64, String> {
        let after_dot = self.rest.strip_prefix('.').unwrap_or_default();
        match self.precision {
            Precision::Seconds => {
                if after_dot.starts_with(|c: char| c.is_ascii_digit()) {
                    self.rest = after_dot.trim_start_matches(|c: char| c.is_ascii_digit());
                }
                Ok(0)
            }
            Precision::Micros => match after_dot.split_at_checked(6) {
                Some((digits, rest)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                    self.rest = rest;
                    digits.parse().map_err(|_| self.fail(".000000"))
                }
                _ => Err(self.fail(".000000")),
            },
        }
    }

    /// `Z` or `+02:00`, in seconds east of UTC.
    fn offset(&mut self) -> Result<i32, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let fail = self.fail("Z07:00");
        let (sign, rest) = match (self.rest.strip_prefix('+'), self.rest.strip_prefix('-')) {
            (Some(rest), _) => (1, rest),
            (_, Some(rest)) => (-1, rest),
            _ => return Err(fail),
        };
        self.rest = rest;
        let mut read = || -> Result<i32, String> {
            let hours: i32 = narrow(self.number("", 2)?);
            self.literal(":")?;
            let minutes: i32 = narrow(self.number("", 2)?);
            Ok(hours * 3600 + minutes * 60)
        };
        read().map(|seconds| sign * seconds).map_err(|_| fail)
    }

    fn end(&self) -> Result<(), String> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(format!(
            "parsing time {:?}: extra text: {:?}",
            self.text, self.rest
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_in_utc() {
        use Precision::{Micros, Seconds};
        let good = [
            ("2020-01-01T00:00:00Z", Seconds, "2020-01-01T00:00:00Z"),
            ("2020-01-01T00:00:00+02:00", Seconds, "2019-12-31T22:00:00Z"),
            ("2020-01-01T00:00:00.999-00:30", Seconds, "2020-01-01T00:30:00Z"),
            (
                "2020-01-01T00:00:00.123456+02:00",
                Micros,
                "2019-12-31T22:00:00.123456Z",
            ),
            (
                "2020-01-01T00:00:00.000000Z",
                Micros,
                "2020-01-01T00:00:00.000000Z",
            ),
        ];
        for (from, precision, to) in good {
            assert_eq!(canonical(from, precision).as_deref(), Ok(to));
        }
        let bad = [
            (
                "x",
                Seconds,
                r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
            ),
            (
                "2020-01-01T00:00:00",
                Seconds,
                r#"parsing time "2020-01-01T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00""#,
            ),
            (
                "2020-13-01T00:00:00Z",
                Seconds,
                r#"parsing time "2020-13-01T00:00:00Z": month out of range"#,
            ),
            (
                "2021-02-29T00:00:00Z",
                Seconds,
                r#"parsing time "2021-02-29T00:00:00Z": day out of range"#,
            ),
            (
                "2020-01-01T24:00:00Z",
                Seconds,
                r#"parsing time "2020-01-01T24:00:00Z": hour out of range"#,
            ),
            (
                "2020-01-01T00:00:00Zx",
                Seconds,
                r#"parsing time "2020-01-01T00:00:00Zx": extra text: "x""#,
            ),
            (
                "2020-01-01T00:00:00.123Z",
                Micros,
                r#"parsing time "2020-01-01T00:00:00.123Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse ".123Z" as ".000000""#,
            ),
            (
                "2020-01-01T00:00:00Z",
                Micros,
                r#"parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
            ),
        ];
        for (from, precision, message) in bad {
            assert_eq!(canonical(from, precision), Err(message.to_owned()));
        }
    }
}
