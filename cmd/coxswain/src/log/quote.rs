//! Texts in quotes. Values come from whoever may create an object, so nothing that ends a line, moves the cursor or turns the
//! direction of writing gets through as it is.

use std::fmt::Write as _;

/// Whose rules a quoted text follows. They differ only in what is not printable.
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

/// The standard library has the table of Unicode that this takes.
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
