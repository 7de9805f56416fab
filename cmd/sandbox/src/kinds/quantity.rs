//! Quantities such as `500m` or `1.5Gi`: reading, comparing, and the one form in which the server writes each.

use serde_json::Value;

/// A quantity as a whole number of billionths, the finest grain there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity {
    nanos: i128,
    /// How it was written decides how it is shown; comparing values ignores it by comparing `nanos` first, and two
    /// quantities of one value are only told apart when sorted.
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

const ONE: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;

impl Quantity {
    /// Reads a quantity as it stands in JSON: a text, or a bare number.
    pub(super) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (digits, suffix) = rest.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (form, base, exponent) = suffix_of(suffix)?;
        let mantissa: i128 = if whole.is_empty() && fraction.is_empty() {
            0
        } else {
            format!("{whole}{fraction}").parse().ok()?
        };
        let fraction_digits = i32::try_from(fraction.len()).ok()?;
        let nanos = if base == 2 {
            let scaled = mantissa.checked_mul(1_i128 << exponent)?.checked_mul(ONE)?;
            divide_up(scaled, power_of_ten(fraction_digits)?)
        } else {
            let power = exponent.saturating_add(9).saturating_sub(fraction_digits);
            if power >= 0 {
                mantissa.checked_mul(power_of_ten(power)?)?
            } else {
                divide_up(
                    mantissa,
                    power_of_ten(power.saturating_neg()).unwrap_or(i128::MAX),
                )
            }
        };
        Some(Self {
            nanos: if negative { -nanos } else { nanos },
            form,
        })
    }

    /// Compares values, however they are written.
    pub(super) fn exceeds(self, other: Self) -> bool {
        self.nanos > other.nanos
    }

    /// Whether both are the same amount, however they are written.
    pub(super) fn equals(self, other: Self) -> bool {
        self.nanos == other.nanos
    }

    /// The sum of two amounts.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            form: self.form,
        }
    }

    pub(super) fn is_positive(self) -> bool {
        self.nanos > 0
    }

    pub(super) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it is a whole number, seen in thousandths as the server does.
    pub(super) fn is_whole(self) -> bool {
        divide_up(self.nanos, MILLI) % 1000 == 0
    }

    /// Rounded up to thousandths, the grain of resource lists.
    pub(super) fn round_to_milli(self) -> Self {
        Self {
            nanos: divide_up(self.nanos, MILLI).saturating_mul(MILLI),
            form: self.form,
        }
    }

    /// The canonical text: the largest suffix that leaves a whole number.
    pub(super) fn text(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let small = self.nanos.abs() < 1024 * ONE;
        if self.form == Form::Binary && !small && self.nanos % ONE == 0 {
            let (number, step) = largest_unit(self.nanos / ONE, 1024, BINARY.len());
            return format!("{number}{}", BINARY.get(step).map_or("", |(suffix, _)| suffix));
        }
        let (number, step) = largest_unit(self.nanos, 1000, DECIMAL.len());
        let (suffix, exponent) = DECIMAL.get(step).copied().unwrap_or(("", 0));
        match self.form {
            Form::Exponent if exponent == 0 => number.to_string(),
            Form::Exponent => format!("{number}e{exponent}"),
            Form::Decimal | Form::Binary => format!("{number}{suffix}"),
        }
    }
}

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, i32); 7] = [
    ("", 0),
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

/// Divides by `base` while nothing is lost and there is a suffix left; returns the rest and how often.
fn largest_unit(mut number: i128, base: i128, units: usize) -> (i128, usize) {
    let mut step = 0;
    while step + 1 < units && number % base == 0 {
        number /= base;
        step += 1;
    }
    (number, step)
}

fn suffix_of(suffix: &str) -> Option<(Form, i32, i32)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((Form::Decimal, 10, *exponent));
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        return Some((Form::Binary, 2, *exponent));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    Some((Form::Exponent, 10, exponent))
}

fn power_of_ten(power: i32) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(power).ok()?)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Quantity;

    #[test]
    fn canonical_texts() {
        let cases = [
            (json!("0"), "0"),
            (json!(10), "10"),
            (json!("0.5"), "500m"),
            (json!(0.5), "500m"),
            (json!("1000m"), "1"),
            (json!("1500m"), "1500m"),
            (json!("1000"), "1k"),
            (json!("1024Mi"), "1Gi"),
            (json!("1500Mi"), "1500Mi"),
            (json!("0.5Gi"), "512Mi"),
            (json!("512"), "512"),
            (json!("1e3"), "1e3"),
            (json!("12e5"), "1200e3"),
            (json!("1E"), "1E"),
            (json!("100n"), "100n"),
            (json!("-2k"), "-2k"),
            (json!(".5"), "500m"),
            (json!("0.0000000001"), "1n"),
            (json!("1e-2147483648"), "1e-9"),
        ];
        for (given, expected) in cases {
            assert_eq!(
                Quantity::read(&given).map(Quantity::text).as_deref(),
                Some(expected),
                "{given}"
            );
        }
    }

    #[test]
    fn nonsense_is_no_quantity() {
        for bad in [
            "",
            "m",
            "1 ",
            "1Q",
            "1.2.3",
            "abc",
            "1ki",
            "--1",
            "1e99",
            "1e2147483647",
        ] {
            assert_eq!(Quantity::read(&json!(bad)), None, "{bad}");
        }
        assert_eq!(Quantity::read(&json!(true)), None);
    }

    #[test]
    fn amounts_compare_across_forms() {
        let read = |text: &str| Quantity::read(&json!(text)).expect("a quantity");
        assert!(read("1Gi").exceeds(read("1G")));
        assert!(read("1000m").equals(read("1")));
        assert!(read("2").is_whole() && !read("1500m").is_whole());
        assert!(read("-1").is_negative() && read("1n").is_positive());
        assert_eq!(read("1u").round_to_milli().text(), "1m");
    }
}
