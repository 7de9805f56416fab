//! Formats: the ones that the server checks. Others say something to readers only.

use std::net::{Ipv4Addr, Ipv6Addr};

use regex::Regex;
use serde_json::Value;

/// A format that is checked.
#[derive(Debug)]
pub struct Format {
    /// As the schema spells it.
    pub name: String,
    check: Check,
}

#[derive(Debug)]
enum Check {
    /// Of numbers: their range is checked with the numbers.
    Number,
    Pattern(Regex),
    Text(fn(&str) -> bool),
}

const UUID: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID3: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID4: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const UUID5: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
const RGB: &str = r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*\)$";
const SHORT_NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const LONG_NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const EMAIL: &str = r#"^([^<>]*<)?("[^"]+"|[^\s@<>(),:;\\"\[\]]+)@(\[[^\]]+\]|[^\s@<>(),:;\\"\[\]]+)>?$"#;

impl Format {
    /// The format of a schema, if it is one that is checked for its type.
    pub fn compile(schema: &Value) -> Option<Self> {
        let name = schema["format"].as_str()?;
        let pattern = |text: &str| Regex::new(text).ok().map(Check::Pattern);
        let check = match schema["type"].as_str().unwrap_or("string") {
            // An int or a string has no format.
            _ if schema["x-kubernetes-int-or-string"] == true => return None,
            "integer" if matches!(name, "int32" | "int64") => Check::Number,
            "number" if matches!(name, "float" | "double") => Check::Number,
            "string" => match name.replace('-', "").as_str() {
                "bsonobjectid" => pattern("^[0-9a-fA-F]{24}$")?,
                "uri" => Check::Text(uri),
                "email" => pattern(EMAIL)?,
                "hostname" => Check::Text(hostname),
                "ipv4" => Check::Text(|text| text.parse::<Ipv4Addr>().is_ok()),
                "ipv6" => Check::Text(|text| text.parse::<Ipv6Addr>().is_ok()),
                "cidr" => Check::Text(cidr),
                "mac" => pattern(
                    "^(?i)([0-9a-f]{2}([:-])([0-9a-f]{2}[:-]){4}([0-9a-f]{2}[:-]){0,2}[0-9a-f]{2}|([0-9a-f]{4}\\.){2,3}[0-9a-f]{4})$",
                )?,
                "uuid" => pattern(UUID)?,
                "uuid3" => pattern(UUID3)?,
                "uuid4" => pattern(UUID4)?,
                "uuid5" => pattern(UUID5)?,
                "isbn" => Check::Text(|text| isbn10(text) || isbn13(text)),
                "isbn10" => Check::Text(isbn10),
                "isbn13" => Check::Text(isbn13),
                "creditcard" => Check::Text(credit_card),
                "ssn" => pattern("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$")?,
                "hexcolor" => pattern("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$")?,
                "rgbcolor" => pattern(RGB)?,
                "byte" => pattern(BASE64)?,
                "password" => Check::Text(|_| true),
                "date" => Check::Text(date),
                "duration" => Check::Text(duration),
                "datetime" => Check::Text(date_time),
                "k8sshortname" => pattern(SHORT_NAME)?,
                "k8slongname" => pattern(LONG_NAME)?,
                _ => return None,
            },
            _ => return None,
        };
        let name = name.to_owned();
        Some(Self { name, check })
    }

    /// Whether it is one of texts.
    pub fn of_text(&self) -> bool {
        !matches!(self.check, Check::Number)
    }

    /// Whether a text has the format.
    pub fn accepts(&self, text: &str) -> bool {
        match &self.check {
            Check::Number => true,
            Check::Text(check) => check(text),
            Check::Pattern(pattern) => {
                let longest = match self.name.as_str() {
                    "k8s-short-name" => 63,
                    "k8s-long-name" => 253,
                    _ => usize::MAX,
                };
                text.len() <= longest && pattern.is_match(text)
            }
        }
    }
}

/// An absolute URI, or an absolute path.
fn uri(text: &str) -> bool {
    let clean = !text.chars().any(char::is_control) && !text.contains(' ');
    let scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    });
    let escapes = text.split('%').skip(1).all(|rest| {
        let mut bytes = rest.bytes();
        bytes.next().is_some_and(|b| b.is_ascii_hexdigit())
            && bytes.next().is_some_and(|b| b.is_ascii_hexdigit())
    });
    clean && escapes && (text.starts_with('/') || scheme)
}

fn hostname(text: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || c == '-';
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    let top = !text.contains('.') || (last.len() >= 2 && last.chars().all(char::is_alphabetic));
    text.len() <= 255 && text.split('.').all(label) && top
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = if address.parse::<Ipv4Addr>().is_ok() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn digits_of(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | ' ')).collect()
}

fn isbn10(text: &str) -> bool {
    let text = digits_of(text);
    let digit = |(i, c): (usize, char)| match c {
        'X' if i == 9 => Some(10),
        _ => c.to_digit(10),
    };
    let digits: Option<Vec<u32>> = text.chars().enumerate().map(digit).collect();
    digits.is_some_and(|d| d.len() == 10 && d.iter().zip(1..).map(|(d, i)| d * i).sum::<u32>() % 11 == 0)
}

fn isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> = digits_of(text).chars().map(|c| c.to_digit(10)).collect();
    digits.is_some_and(|d| {
        let weighed = d
            .iter()
            .enumerate()
            .map(|(i, d)| d * if i % 2 == 0 { 1 } else { 3 });
        d.len() == 13 && weighed.sum::<u32>() % 10 == 0
    })
}

fn credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, d)| match (i % 2, d * 2) {
            (0, _) => *d,
            (_, twice) if twice > 9 => twice - 9,
            (_, twice) => twice,
        })
        .sum();
    (13..=16).contains(&digits.len()) && matches!(digits.first(), Some(1..=6)) && sum.is_multiple_of(10)
}

fn date(text: &str) -> bool {
    text.len() == 10 && text.is_ascii() && text.parse::<jiff::civil::Date>().is_ok()
}

fn date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((day, time)) = lower.split_once('t') else {
        return false;
    };
    let Some(clock) = time.get(..8) else {
        return false;
    };
    let two = |range: std::ops::Range<usize>, most: u8| {
        let part = clock.get(range).unwrap_or_default();
        part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u8>().is_ok_and(|n| n <= most)
    };
    let colons = clock.as_bytes().get(2) == Some(&b':') && clock.as_bytes().get(5) == Some(&b':');
    let zone = |text: &str| {
        text == "z"
            || (text.len() == 6
                && text.starts_with(['+', '-'])
                && text.as_bytes().get(3) == Some(&b':')
                && text.bytes().filter(u8::is_ascii_digit).count() == 4)
    };
    let rest = time.get(8..).unwrap_or_default();
    let after_fraction = match rest.strip_prefix('.') {
        Some(fraction) => {
            let end = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if end.len() == fraction.len() {
                return false;
            }
            end
        }
        None => rest,
    };
    date(day) && colons && two(0..2, 23) && two(3..5, 59) && two(6..8, 59) && zone(after_fraction)
}

/// A duration as Go writes it, or a number with a unit in words.
fn duration(text: &str) -> bool {
    const UNITS: [&str; 10] = ["ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "w"];
    const WORDS: [&str; 9] = ["nano", "micro", "milli", "sec", "min", "hr", "hour", "day", "w"];
    if text == "0" {
        return true;
    }
    let mut rest = text.trim_start_matches(['+', '-']);
    let mut found = false;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if number.len() == rest.len() {
            return found && rest.trim().is_empty();
        }
        let unit_end = number.trim_start().trim_start_matches(char::is_alphabetic);
        let unit = number[..number.len() - unit_end.len()].trim().to_lowercase();
        if !UNITS.contains(&unit.as_str()) && !WORDS.iter().any(|word| unit.starts_with(word)) {
            return false;
        }
        found = true;
        rest = unit_end.trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Format;

    #[test]
    fn each_format_takes_its_own_and_no_other() {
        for (format, good, bad) in [
            ("date-time", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05"),
            ("date-time", "2026-01-02T03:04:05.1+02:00", "2026-13-02T03:04:05Z"),
            ("date", "2026-01-02", "2026-02-30"),
            ("duration", "1h30m", "soon"),
            ("duration", "3 days", "3 moons"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:00:5e:00:53:01", "00:00:5e"),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
            ("byte", "aGVsbG8=", "a"),
            ("uri", "https://example.com/a", "example.com"),
            ("email", "a@example.com", "a.example.com"),
            ("hostname", "a.example.com", "-a.example.com"),
            ("isbn", "978-0321751041", "978-0321751042"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("hexcolor", "#fff", "#ff"),
            ("rgbcolor", "rgb(1,2,255)", "rgb(1,2,256)"),
            ("k8s-short-name", "a-b", "A"),
            ("k8s-long-name", "a.b", "a..b"),
        ] {
            let checked = Format::compile(&json!({"type": "string", "format": format})).expect(format);
            assert!(checked.accepts(good), "{format} {good}");
            assert!(!checked.accepts(bad), "{format} {bad}");
        }
        assert!(Format::compile(&json!({"type": "string", "format": "x-mine"})).is_none());
        assert!(Format::compile(&json!({"type": "object", "format": "date"})).is_none());
    }
}
