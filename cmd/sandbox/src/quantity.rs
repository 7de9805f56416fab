//! Amounts such as `500m`, `1.5Gi` and `12e6`: reading, comparing, and the one text in which the server writes each.
//!
//! The server stores the canonical form (no fraction, the largest suffix that loses nothing, never finer than a
//! billionth), so that `0.5` and `500m` are one value, and writing the other one changes nothing.

use serde_json::Value;
use thiserror::Error;

const FORMAT: NoQuantity = NoQuantity::Unreadable(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
);
const SUFFIX: NoQuantity = NoQuantity::Unreadable("unable to parse quantity's suffix");

const ONE: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;
/// Binary amounts end here, as they do on the server.
const LARGEST_BINARY: i128 = i64::MAX as i128 * ONE;

/// The suffixes in steps of 1000, from billionths on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The suffixes in steps of 1024, from one on.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// An amount as a whole number of billionths, the finest grain there is.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    form: Form,
}

/// How a suffix was written, and so how the canonical text writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Decimal,
    Exponent,
    Binary,
}

/// Why a text is no amount.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum NoQuantity {
    /// It is not written like one; the server's words.
    #[error("{0}")]
    Unreadable(&'static str),
    /// It is one to the server, and beyond what fits 128 bits of billionths.
    #[error("the quantity is too large")]
    TooLarge,
}

impl Quantity {
    /// Reads an amount as it stands in a decoded object: a text, or a bare number.
    #[must_use]
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text).ok(),
            Value::Number(number) => Self::parse(&number.to_string()).ok(),
            _ => None,
        }
    }

    /// Reads the text of an amount.
    pub fn parse(text: &str) -> Result<Self, NoQuantity> {
        let (sign, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let number_ends = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_ends);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.is_empty() || fraction.contains('.') || !is_suffix(suffix) {
            return Err(FORMAT);
        }
        let (form, power) = read_suffix(suffix)?;
        let nanos = nanos(whole, fraction, form, power).ok_or(NoQuantity::TooLarge)?;
        Ok(Self {
            nanos: sign * nanos,
            form,
        })
    }

    /// Whether it is the larger amount, however both are written.
    #[must_use]
    pub fn exceeds(self, other: Self) -> bool {
        self.nanos > other.nanos
    }

    /// Whether both are the same amount, however they are written.
    #[must_use]
    pub fn equals(self, other: Self) -> bool {
        self.nanos == other.nanos
    }

    /// A number of pieces.
    #[must_use]
    pub fn whole(pieces: usize) -> Self {
        Self {
            nanos: i128::try_from(pieces).unwrap_or(i128::MAX).saturating_mul(ONE),
            form: Form::Decimal,
        }
    }

    /// The sum of two amounts. It is written as the first one, unless that is nothing.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            form: if self.nanos == 0 { other.form } else { self.form },
        }
    }

    /// Whether it is more than nothing.
    #[must_use]
    pub fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// Whether it is less than nothing.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it is a whole number, seen in thousandths as the server does.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.round_to_milli().nanos % ONE == 0
    }

    /// Rounded up to thousandths, the grain of resource lists.
    #[must_use]
    pub fn round_to_milli(self) -> Self {
        Self {
            nanos: divide_up(self.nanos, MILLI).saturating_mul(MILLI),
            form: self.form,
        }
    }

    /// The canonical text.
    #[must_use]
    pub fn text(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        // Small or broken binary amounts are shown in tens, where they lose nothing.
        if self.form == Form::Binary && self.nanos.abs() >= 1024 * ONE && self.nanos % ONE == 0 {
            let (number, suffix) = largest_unit(self.nanos / ONE, 1024, BINARY.len());
            return format!("{number}{}", BINARY.get(suffix).unwrap_or(&""));
        }
        if self.form == Form::Exponent {
            let (number, step) = largest_unit(self.nanos, 1000, usize::MAX);
            return match step {
                3 => number.to_string(),
                0..3 => format!("{number}e-{}", 9 - 3 * step),
                _ => format!("{number}e{}", 3 * step - 9),
            };
        }
        let (number, suffix) = largest_unit(self.nanos, 1000, DECIMAL.len());
        format!("{number}{}", DECIMAL.get(suffix).unwrap_or(&""))
    }
}

/// Letters, then perhaps a signed number.
fn is_suffix(suffix: &str) -> bool {
    let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    digits.bytes().all(|b| b.is_ascii_digit())
}

/// The form, and the power of two for binary suffixes, of ten for all others.
fn read_suffix(suffix: &str) -> Result<(Form, i32), NoQuantity> {
    let step = |known: &[&str]| {
        let at = known.iter().position(|known| *known == suffix)?;
        i32::try_from(at).ok()
    };
    if let Some(step) = step(&DECIMAL) {
        return Ok((Form::Decimal, 3 * step - 9));
    }
    if let Some(step) = step(&BINARY) {
        return Ok((Form::Binary, 10 * step));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(SUFFIX)?;
    Ok((Form::Exponent, exponent.parse().map_err(|_| SUFFIX)?))
}

/// The amount in billionths, or nothing where that does not fit.
fn nanos(whole: &str, fraction: &str, form: Form, power: i32) -> Option<i128> {
    let digits: i128 = match format!("{whole}{fraction}").trim_start_matches('0') {
        "" => return Some(0),
        digits => digits.parse().ok()?,
    };
    let places = i32::try_from(fraction.len()).ok()?;
    if form == Form::Binary {
        let unit = 10_i128.checked_pow(places.unsigned_abs())?;
        let scaled = digits.checked_mul(1 << power)?;
        let rest = divide_up((scaled % unit).checked_mul(ONE)?, unit);
        let nanos = (scaled / unit).saturating_mul(ONE).saturating_add(rest);
        return Some(nanos.min(LARGEST_BINARY));
    }
    let power = power.saturating_add(9).saturating_sub(places);
    let factor = 10_i128.checked_pow(power.unsigned_abs());
    if power < 0 {
        // Beyond 38 places only the least amount is left.
        Some(factor.map_or(1, |factor| divide_up(digits, factor)))
    } else {
        digits.checked_mul(factor?)
    }
}

/// Rounds away from zero: whoever asks for a little gets a little.
fn divide_up(number: i128, by: i128) -> i128 {
    let quotient = number / by;
    if number % by == 0 {
        quotient
    } else {
        quotient + number.signum()
    }
}

/// Divides by `base` while nothing is lost and there is a suffix left; returns the rest and how often.
fn largest_unit(mut number: i128, base: i128, suffixes: usize) -> (i128, usize) {
    let mut step = 0;
    while step + 1 < suffixes && number % base == 0 {
        number /= base;
        step += 1;
    }
    (number, step)
}

#[cfg(test)]
mod tests;
