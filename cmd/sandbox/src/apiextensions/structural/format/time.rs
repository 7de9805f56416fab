//! Formats of dates, times and durations.

/// `2026-01-31`
pub(crate) fn date(text: &str) -> bool {
    text.len() == 10 && text.is_ascii() && text.parse::<jiff::civil::Date>().is_ok()
}

/// A date and a time with its zone; the server ignores the text after a second `t`.
pub(crate) fn date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    date(day) && clock(time)
}

/// `hh:mm:ss`, a fraction after any character, and a zone.
fn clock(time: &str) -> bool {
    let Some((clock, rest)) = time.split_at_checked(8) else {
        return false;
    };
    let mut parts = clock.split(':');
    let mut part = |most: u8| {
        parts.next().is_some_and(|part| {
            part.len() == 2
                && part.bytes().all(|b| b.is_ascii_digit())
                && part.parse::<u8>().is_ok_and(|n| n <= most)
        })
    };
    let fits = part(23) && part(59) && part(59);
    fits && (zone(rest) || {
        let mut signs = rest.chars();
        signs.next();
        let fraction = signs.as_str();
        let after = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        after.len() < fraction.len() && zone(after)
    })
}

fn zone(text: &str) -> bool {
    match text.as_bytes() {
        [b'z'] => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()),
        _ => false,
    }
}

/// A Go duration, or a text that contains a number and a unit in words.
pub(crate) fn duration(text: &str) -> bool {
    go_duration(text) || worded(text)
}

fn go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let is_digit = |c: char| c.is_ascii_digit();
        let whole = rest.trim_start_matches(is_digit);
        let after = whole
            .strip_prefix('.')
            .map_or(whole, |rest| rest.trim_start_matches(is_digit));
        let number = &rest[..rest.len() - after.len()];
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let known = matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h");
        if !known || !number.bytes().any(|b| b.is_ascii_digit()) {
            return false;
        }
        rest = next;
        parts += 1;
    }
    parts > 0
}

/// Any number with a unit is accepted; the first one without a value is rejected.
fn worded(text: &str) -> bool {
    let mut known = false;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = &rest[start..];
        let after = number.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &number[..number.len() - after.len()];
        let word = after.trim_start_matches(|c: char| c.is_ascii_whitespace());
        rest = word.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
        let unit = word[..word.len() - rest.len()].to_lowercase();
        if unit.is_empty() {
            continue;
        }
        if digits.parse::<i64>().is_err() {
            return false;
        }
        known |= is_unit(&unit);
    }
    known
}

/// Short units match exactly, long ones by their prefix.
fn is_unit(unit: &str) -> bool {
    let short = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    let long = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    short.contains(&unit) || long.iter().any(|start| unit.starts_with(start))
}
