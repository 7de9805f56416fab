//! Amounts such as `500m`, `1.5Gi` and `12e6`, and their canonical form: no fraction, the largest suffix that loses nothing,
//! never finer than a billionth.
//!
//! The server stores the canonical form, so that `0.5` and `500m` are one value, and writing the other one changes nothing.
//! Numbers beyond what fits 128 bits are checked and otherwise left as they are.

const FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";

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
const BINARY: [(&str, u32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

/// How a suffix was written, and so how the canonical form writes it.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Decimal,
    Exponent,
    Binary,
}

/// The canonical text of an amount.
pub(super) fn canonical(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let number_ends = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_ends);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.is_empty() || fraction.contains('.') || !is_suffix(suffix) {
        return Err(FORMAT);
    }
    let (style, exponent, shift) = read_suffix(suffix)?;

    let exact = || -> Option<(u128, i32)> {
        let digits: u128 = match format!("{whole}{fraction}").trim_start_matches('0') {
            "" => 0,
            digits => digits.parse().ok()?,
        };
        let places = i32::try_from(fraction.len()).ok()?;
        Some((digits.checked_mul(1 << shift)?, exponent.checked_sub(places)?))
    };
    let shown = exact().and_then(|(digits, scale)| show(digits, scale, style));
    Ok(match shown.as_deref() {
        None => text.to_owned(),
        Some("0") => "0".to_owned(),
        Some(shown) => format!("{sign}{shown}"),
    })
}

/// Letters, then perhaps a signed number.
fn is_suffix(suffix: &str) -> bool {
    let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    digits.bytes().all(|b| b.is_ascii_digit())
}

/// Style, power of ten, power of two.
fn read_suffix(suffix: &str) -> Result<(Style, i32, u32), &'static str> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((Style::Decimal, *exponent, 0));
    }
    if let Some((_, shift)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Ok((Style::Binary, 0, *shift));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(SUFFIX)?;
    let exponent = exponent.parse().map_err(|_| SUFFIX)?;
    Ok((Style::Exponent, exponent, 0))
}

/// `digits * 10^scale`, or nothing where that does not fit.
fn show(mut digits: u128, mut scale: i32, style: Style) -> Option<String> {
    if digits == 0 {
        return Some("0".to_owned());
    }
    if scale < -9 {
        // Whoever asks for a little gets a little: rounding is away from zero. Beyond 38 places nothing else is left.
        let divisor = 10_u128.checked_pow(scale.abs_diff(-9));
        digits = divisor.map_or(1, |divisor| digits.div_ceil(divisor));
        scale = -9;
    }
    if style == Style::Binary
        && let Some(shown) = show_binary(digits, scale)
    {
        return Some(shown);
    }
    while digits.is_multiple_of(10) {
        digits /= 10;
        scale = scale.checked_add(1)?;
    }
    let step = match style {
        Style::Exponent => scale.rem_euclid(3),
        _ => scale - scale.min(18).div_euclid(3) * 3,
    };
    digits = digits.checked_mul(10_u128.checked_pow(step.unsigned_abs())?)?;
    scale -= step;
    if style == Style::Exponent && scale != 0 {
        return Some(format!("{digits}e{scale}"));
    }
    let (suffix, _) = DECIMAL.iter().find(|(_, exponent)| *exponent == scale)?;
    Some(format!("{digits}{suffix}"))
}

/// Whole numbers from 1024 on; anything else is shown in tens, where it loses nothing.
fn show_binary(digits: u128, scale: i32) -> Option<String> {
    let divisor = 10_u128.checked_pow(scale.unsigned_abs())?;
    if !digits.is_multiple_of(divisor) {
        return None;
    }
    let mut whole = (digits / divisor).min(i64::MAX.unsigned_abs().into());
    if whole < 1024 {
        return None;
    }
    let mut suffixes = std::iter::once("")
        .chain(BINARY.iter().map(|(name, _)| *name))
        .peekable();
    let mut suffix = suffixes.next()?;
    while whole.is_multiple_of(1024) && suffixes.peek().is_some() {
        whole /= 1024;
        suffix = suffixes.next()?;
    }
    Some(format!("{whole}{suffix}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_take_their_canonical_form() {
        let cases = [
            ("1.5", "1500m"),
            ("0.5Gi", "512Mi"),
            ("1000m", "1"),
            ("1e3", "1e3"),
            ("1024Ki", "1Mi"),
            ("1000k", "1M"),
            ("0.1m", "100u"),
            ("-1.5", "-1500m"),
            ("1E", "1E"),
            ("12E2", "1200"),
            ("100000000000000000000", "100E"),
            ("+.5k", "500"),
            ("100u", "100u"),
            ("1500m", "1500m"),
            ("0.5Ki", "512"),
            ("0.9765625Ki", "1k"),
            ("1.0001Ki", "1024102400u"),
            ("1e-3", "1e-3"),
            ("0.1n", "1n"),
            ("1000000Gi", "1000000Gi"),
            ("1024", "1024"),
            ("1025Ki", "1025Ki"),
            ("0.001Ki", "1024m"),
            ("1.5Gi", "1536Mi"),
            ("1.5e3", "1500"),
            ("12e5", "1200e3"),
            ("1000Mi", "1000Mi"),
            ("9223372036854775808", "9223372036854775808"),
            ("16Ei", "9223372036854775807"),
            ("1e-10", "1e-9"),
            ("0.000000001Ki", "1024n"),
            ("1e30", "1e30"),
            ("10e-1", "1"),
            ("1000000000n", "1"),
            ("1001n", "1001n"),
            ("0Ki", "0"),
            ("-0", "0"),
            ("0e5", "0"),
            ("2048", "2048"),
            (" 1 ", "1"),
            ("1e999999999", "1e999999999"),
            ("1e-1000000000", "1e-9"),
            (
                "999999999999999999999999999999999999999999",
                "999999999999999999999999999999999999999999",
            ),
        ];
        for (from, to) in cases {
            assert_eq!(canonical(from).as_deref(), Ok(to), "{from}");
            assert_eq!(canonical(to).as_deref(), Ok(to), "{from} twice");
        }
        for wrong in ["", "x", "1.2.3", "1 Gi", "1Gib", "--1", "1e5x"] {
            assert!(
                canonical(wrong).is_err_and(|error| error.contains("regular expression")),
                "{wrong}"
            );
        }
        for wrong in ["1i", "1Kin", "1e", "1Ki5", "1e99999999999"] {
            assert_eq!(
                canonical(wrong),
                Err("unable to parse quantity's suffix"),
                "{wrong}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_its_own(text in "[+-]?[0-9.]{0,5}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,12}") {
            if let Ok(shown) = canonical(&text) {
                prop_assert_eq!(canonical(&shown), Ok(shown));
            }
        }
    }
}
