//! Quantities such as `500m`, `1.5Gi` and `12e6`: parsing, comparison, and the canonical form.
//!
//! Mirrors `apimachinery/pkg/api/resource`. The server stores the canonical form (no fraction, the largest suffix without
//! loss, at most nano precision), so that `0.5` and `500m` are equal.

use thiserror::Error;

use crate::json::Value;

const FORMAT: NoQuantity = NoQuantity::Unreadable(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
);
const SUFFIX: NoQuantity = NoQuantity::Unreadable("unable to parse quantity's suffix");

const ONE: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;
/// The maximum of binary quantities, as on the server.
const LARGEST_BINARY: i128 = i64::MAX as i128 * ONE;

/// The decimal suffixes, from nano on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The binary suffixes, from one on.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A quantity as a whole number of nanos, the finest precision.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    form: Form,
}

/// The suffix format, which the canonical form keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Decimal,
    Exponent,
    Binary,
}

/// The error of an invalid quantity.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum NoQuantity {
    /// The text is malformed; the message is the server's.
    #[error("{0}")]
    Unreadable(&'static str),
    /// The server accepts the quantity, but it does not fit 128 bits of nanos.
    #[error("the quantity is too large")]
    TooLarge,
}

impl Quantity {
    /// Parses a quantity of a decoded object: a string or a number.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text).ok(),
            Value::Number(number) => Self::parse(&number.to_string()).ok(),
            _ => None,
        }
    }

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
        // The server reads a suffix alone as zero.
        if unsigned.is_empty() || fraction.contains('.') || !is_suffix(suffix) {
            return Err(FORMAT);
        }
        let (form, power) = read_suffix(suffix)?;
        let nanos = nanos(whole, fraction, form, power).ok_or(NoQuantity::TooLarge)?;
        Ok(Self {
            nanos: sign * nanos,
            form,
        })
    }

    /// Whether the quantity is larger, in any format.
    pub fn exceeds(self, other: Self) -> bool {
        self.nanos > other.nanos
    }

    /// Whether both quantities are equal, in any format.
    pub fn equals(self, other: Self) -> bool {
        self.nanos == other.nanos
    }

    /// Returns a number of objects.
    pub fn whole(pieces: usize) -> Self {
        Self {
            nanos: i128::try_from(pieces).unwrap_or(i128::MAX).saturating_mul(ONE),
            form: Form::Decimal,
        }
    }

    /// Returns the sum in the format of the first quantity, unless that is zero.
    pub fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            form: if self.nanos == 0 { other.form } else { self.form },
        }
    }

    /// Whether the quantity is positive.
    pub fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// Whether the quantity is negative.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether the quantity is an integer, at milli precision as on the server.
    pub fn is_whole(self) -> bool {
        self.round_to_milli().nanos % ONE == 0
    }

    /// Rounds up to milli, the precision of resource lists.
    pub fn round_to_milli(self) -> Self {
        Self {
            nanos: divide_up(self.nanos, MILLI).saturating_mul(MILLI),
            form: self.form,
        }
    }

    /// Returns the canonical form.
    pub fn text(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        // Small or fractional binary quantities are written in decimal form, which is exact.
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

/// Letters, then an optional signed number.
fn is_suffix(suffix: &str) -> bool {
    let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    digits.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the format, and the power of two of a binary suffix or the power of ten of another one.
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

/// Returns the quantity in nanos, or `None` if it does not fit.
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
        // Beyond 38 digits only the smallest quantity is left.
        Some(factor.map_or(1, |factor| divide_up(digits, factor)))
    } else {
        digits.checked_mul(factor?)
    }
}

/// Rounds away from zero.
fn divide_up(number: i128, by: i128) -> i128 {
    let quotient = number / by;
    if number % by == 0 {
        quotient
    } else {
        quotient + number.signum()
    }
}

/// Divides by `base` while the division is exact and a suffix is left; returns the quotient and the number of divisions.
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
