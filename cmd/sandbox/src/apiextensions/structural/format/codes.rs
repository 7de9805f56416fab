//! Formats of identifiers and encodings: UUIDs and base64.

/// Whether the text has this number of hexadecimal digits.
pub(crate) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Thirty-two digits in five groups; the dashes are optional. Versions 4 and later have a variant.
pub(crate) fn uuid(text: &str, version: Option<char>) -> bool {
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

/// Base64 with padding, not empty.
pub(crate) fn base64(text: &str) -> bool {
    let data = text
        .strip_suffix("==")
        .or_else(|| text.strip_suffix('='))
        .unwrap_or(text);
    let in_alphabet = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    !data.is_empty() && text.len().is_multiple_of(4) && data.bytes().all(in_alphabet)
}
