//! Quoted strings. Values can come from any user with permission to create an object: line breaks, terminal escapes and changes of
//! writing direction are escaped.

use std::fmt::Write as _;

/// Escapes of characters that are not printable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `strconv.Quote`: `\a`, `\x1b`, `\u200b`, `\U000e0001`.
    Go,
    /// RFC 8259: `\u001b`, with surrogate pairs beyond 16 bits.
    Json,
}

/// Appends `text` in quotes.
pub(super) fn quote(out: &mut String, text: &str, style: Style) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if is_printable(c) => out.push(c),
            c => escape(out, c, style),
        }
    }
    out.push('"');
}

/// Uses the standard library's Unicode table.
fn is_printable(c: char) -> bool {
    c == '\'' || c.escape_debug().len() == 1
}

fn escape(out: &mut String, c: char, style: Style) {
    let code = u32::from(c);
    let _ = match style {
        Style::Json => c
            .encode_utf16(&mut [0; 2])
            .iter()
            .try_for_each(|unit| write!(out, "\\u{unit:04x}")),
        Style::Go if code == 0x07 => out.write_str("\\a"),
        Style::Go if code == 0x0b => out.write_str("\\v"),
        Style::Go if code < 0x80 => write!(out, "\\x{code:02x}"),
        Style::Go if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
        Style::Go => write!(out, "\\U{code:08x}"),
    };
}
