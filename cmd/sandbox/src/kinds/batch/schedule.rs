//! Cron schedules: five fields, or one of the named ones. Only the form is checked here; no times are computed.

/// One field: its bounds, and the names that stand for numbers.
struct Field {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field {
        low: 0,
        high: 59,
        names: &[],
    },
    Field {
        low: 0,
        high: 23,
        names: &[],
    },
    Field {
        low: 1,
        high: 31,
        names: &[],
    },
    Field {
        low: 1,
        high: 12,
        names: MONTHS,
    },
    Field {
        low: 0,
        high: 6,
        names: DAYS,
    },
];

const NAMED: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// What is wrong with a schedule.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let rest = match schedule
        .strip_prefix("TZ=")
        .or_else(|| schedule.strip_prefix("CRON_TZ="))
    {
        Some(zoned) => zoned.split_once(' ').map_or("", |(_, rest)| rest).trim(),
        None => schedule,
    };
    if rest.starts_with('@') {
        let known = NAMED.contains(&rest)
            || rest
                .strip_prefix("@every ")
                .is_some_and(|every| !every.is_empty());
        return if known {
            Ok(())
        } else {
            Err(format!("unrecognized descriptor: {rest}"))
        };
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    for (text, field) in fields.iter().zip(&FIELDS) {
        for range in text.split(',') {
            field.check(range)?;
        }
    }
    Ok(())
}

impl Field {
    /// `*`, `3`, `1-5`, each with an optional `/2`.
    fn check(&self, range: &str) -> Result<(), String> {
        let (bounds, step) = range
            .split_once('/')
            .map_or((range, None), |(bounds, step)| (bounds, Some(step)));
        if step.is_some_and(|step| step.contains('/')) {
            return Err(format!("too many slashes: {range}"));
        }
        if let Some(step) = step
            && number(step)? == 0
        {
            return Err(format!("step of range should be a positive number: {range}"));
        }
        if bounds == "*" || bounds == "?" {
            return Ok(());
        }
        let (low, high) = match bounds.split_once('-') {
            None => (self.value(bounds)?, self.value(bounds)?),
            Some((_, high)) if high.contains('-') => return Err(format!("too many hyphens: {range}")),
            Some((low, high)) => (self.value(low)?, self.value(high)?),
        };
        if low < self.low {
            return Err(format!(
                "beginning of range ({low}) below minimum ({}): {range}",
                self.low
            ));
        }
        if high > self.high {
            return Err(format!(
                "end of range ({high}) above maximum ({}): {range}",
                self.high
            ));
        }
        if low > high {
            return Err(format!(
                "beginning of range ({low}) beyond end of range ({high}): {range}"
            ));
        }
        Ok(())
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| text.eq_ignore_ascii_case(name));
        match named.and_then(|index| u32::try_from(index).ok()) {
            Some(index) => Ok(index + self.low),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn good_schedules() {
        for good in [
            "* * * * *",
            "*/5 0-6 1,15 jan-mar MON",
            "@hourly",
            "@every 5m",
            "0 0 ? * 0",
            "TZ=UTC 0 0 * * *",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn bad_schedules_say_why() {
        let cases = [
            ("error", "expected exactly 5 fields, found 1: [error]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            ("@often", "unrecognized descriptor: @often"),
        ];
        for (bad, why) in cases {
            assert_eq!(check(bad), Err(why.to_owned()), "{bad}");
        }
    }
}
