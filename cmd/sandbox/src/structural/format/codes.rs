//! Numbers and codes: identifiers with check digits, encodings, colours.

/// This many hexadecimal digits and nothing else.
pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Thirty-two digits in five groups; the dashes between the groups may be left out. The versions from four on also say
/// of which variant they are.
pub(super) fn uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut digits = String::with_capacity(32);
    for group in [8, 4, 4, 4, 12] {
        if !digits.is_empty() {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((own, after)) = rest.split_at_checked(group).filter(|(own, _)| is_hex(own, group)) else {
            return false;
        };
        digits.push_str(own);
        rest = after;
    }
    let digit = |at: usize| digits.as_bytes().get(at).copied().map(char::from);
    let variant = matches!(digit(16), Some('8' | '9' | 'a' | 'b' | 'A' | 'B'));
    rest.is_empty() && version.is_none_or(|v| digit(12) == Some(v) && (v == '3' || variant))
}

/// The digits of a text that may be spaced; `None` if there is anything else. A last `X` is ten.
fn spaced_digits(text: &str, count: usize) -> Option<Vec<u32>> {
    let signs: Vec<char> = text
        .chars()
        .filter(|c| *c != '-' && !c.is_ascii_whitespace())
        .collect();
    let value = |(at, sign): (usize, &char)| match sign {
        'X' if count == 10 && at == 9 => Some(10),
        sign => sign.to_digit(10),
    };
    let digits: Option<Vec<u32>> = signs.iter().enumerate().map(value).collect();
    digits.filter(|digits| digits.len() == count)
}

pub(super) fn isbn10(text: &str) -> bool {
    spaced_digits(text, 10).is_some_and(|digits| {
        let weighed = digits.iter().zip(1..).map(|(digit, weight)| digit * weight);
        weighed.sum::<u32>() % 11 == 0
    })
}

pub(super) fn isbn13(text: &str) -> bool {
    spaced_digits(text, 13).is_some_and(|digits| {
        let weighed = digits
            .iter()
            .zip([1, 3].into_iter().cycle())
            .map(|(digit, weight)| digit * weight);
        weighed.sum::<u32>() % 10 == 0
    })
}

/// How cards begin, by brand: the least and the greatest beginning, and how many digits the number has.
const CARDS: [(&str, &str, usize); 13] = [
    ("1800", "1800", 15),
    ("2131", "2131", 15),
    ("300", "305", 14),
    ("34", "34", 15),
    ("35", "35", 16),
    ("36", "36", 14),
    ("37", "37", 15),
    ("38", "38", 14),
    ("4", "4", 13),
    ("4", "4", 16),
    ("51", "55", 16),
    ("6011", "6011", 16),
    ("65", "65", 16),
];

/// Digits with anything between them.
pub(super) fn card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let known = CARDS.iter().any(|(low, high, length)| {
        let start = digits.get(..low.len());
        digits.len() == *length && start.is_some_and(|start| (*low..=*high).contains(&start))
    });
    let doubled = |(at, sign): (usize, char)| {
        let digit = sign.to_digit(10).unwrap_or_default() * if at % 2 == 1 { 2 } else { 1 };
        digit / 10 + digit % 10
    };
    known && digits.chars().rev().enumerate().map(doubled).sum::<u32>() % 10 == 0
}

/// Three, two and four digits, each with a dash or a space between.
pub(super) fn social_security(text: &str) -> bool {
    text.len() == 11
        && text.bytes().enumerate().all(|(at, byte)| match at {
            3 | 6 => matches!(byte, b'-' | b' '),
            _ => byte.is_ascii_digit(),
        })
}

pub(super) fn hex_colour(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    is_hex(digits, 3) || is_hex(digits, 6)
}

/// `rgb(0, 128, 255)`
pub(super) fn rgb_colour(text: &str) -> bool {
    let Some(parts) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else {
        return false;
    };
    let is_level = |part: &str| {
        let part = part.trim_matches(|c: char| c.is_ascii_whitespace());
        part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
            && part.parse::<u8>().is_ok()
    };
    parts.split(',').count() == 3 && parts.split(',').all(is_level)
}

/// Base64 with padding, of something.
pub(super) fn base64(text: &str) -> bool {
    let data = text
        .strip_suffix("==")
        .or_else(|| text.strip_suffix('='))
        .unwrap_or(text);
    let in_alphabet = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    !data.is_empty() && text.len().is_multiple_of(4) && data.bytes().all(in_alphabet)
}
