//! Values of quantities: `1` and `1000m` are equal.

/// Returns the value of a quantity in billionths; none if it is invalid, too large or too precise.
#[must_use]
pub fn billionths(text: &str) -> Option<i128> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest
        .find(|it: char| !it.is_ascii_digit() && it != '.')
        .unwrap_or(rest.len());
    let (digits, suffix) = rest.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let number: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let (factor, exponent) = scale(suffix)?;
    let exponent = exponent + 9 - i32::try_from(fraction.len()).ok()?;
    let number = number.checked_mul(factor)?;
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    let value = if exponent >= 0 {
        number.checked_mul(power)?
    } else if number % power == 0 {
        number / power
    } else {
        return None;
    };
    Some(sign * value)
}

/// Returns the factor and the power of ten of a suffix.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    let power = |exponent| Some((1, exponent));
    match suffix {
        "" => power(0),
        "n" => power(-9),
        "u" => power(-6),
        "m" => power(-3),
        "k" => power(3),
        "M" => power(6),
        "G" => power(9),
        "T" => power(12),
        "P" => power(15),
        "E" => power(18),
        "Ki" => Some((1 << 10, 0)),
        "Mi" => Some((1 << 20, 0)),
        "Gi" => Some((1 << 30, 0)),
        "Ti" => Some((1 << 40, 0)),
        "Pi" => Some((1 << 50, 0)),
        "Ei" => Some((1 << 60, 0)),
        _ => power(
            suffix
                .strip_prefix(['e', 'E'])?
                .parse::<i32>()
                .ok()
                .filter(|it| it.abs() < 30)?,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_quantities_have_equal_values() {
        for (a, b) in [
            ("1", "1000m"),
            ("1", "1.0"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1Gi", "1024Mi"),
            ("1Gi", "1073741824"),
            ("1G", "1000M"),
            ("1T", "1000G"),
            ("1P", "1000T"),
            ("1E", "1000P"),
            ("1Ki", "1024"),
            ("1Ti", "1024Gi"),
            ("1Pi", "1024Ti"),
            ("1Ei", "1024Pi"),
            ("1e3", "1k"),
            ("1E3", "1k"),
            ("0", "0m"),
            ("-1", "-1000m"),
            ("+2", "2"),
            ("100n", "0.1u"),
            ("20e-10", "2n"),
        ] {
            assert!(billionths(a).is_some(), "{a}");
            assert_eq!(billionths(a), billionths(b), "{a} {b}");
        }
        assert_ne!(billionths("1G"), billionths("1Gi"));
        assert_ne!(billionths("1"), billionths("1m"));
        assert_eq!(billionths("-2n"), Some(-2));
    }

    #[test]
    fn invalid_quantity_has_no_value() {
        for text in [
            "",
            "-",
            "Gi",
            ".",
            "1.2.3",
            "1x",
            "0.1n",
            "1 Gi",
            "1e99",
            "é",
            "99999999999999999999999999999999Ei",
        ] {
            assert_eq!(billionths(text), None, "{text}");
        }
    }
}
