//! Translation of Go regular expressions into those of the crate `regex`.
//!
//! Both follow RE2. In Go `\d`, `\w`, `\s` and `\b` are ASCII, and a class may hold other characters without an escape.

use regex::{Regex, RegexBuilder};

/// The maximum size of a compiled pattern; a larger one is rejected as invalid.
const SIZE_LIMIT: usize = 1 << 20;

/// Compiles a Go pattern. The error is a message of one line.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let build = RegexBuilder::new(&translate(pattern))
        .size_limit(SIZE_LIMIT)
        .build();
    build.map_err(|error| {
        let text = error.to_string();
        text.lines().last().unwrap_or_default().trim().to_owned()
    })
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut class = 0usize;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match (chars.next(), class > 0) {
                (Some('d'), true) => out.push_str("0-9"),
                (Some('d'), false) => out.push_str("[0-9]"),
                (Some('D'), _) => out.push_str("[^0-9]"),
                (Some('w'), true) => out.push_str("0-9A-Za-z_"),
                (Some('w'), false) => out.push_str("[0-9A-Za-z_]"),
                (Some('W'), _) => out.push_str("[^0-9A-Za-z_]"),
                (Some('s'), true) => out.push_str(r"\t\n\f\r "),
                (Some('s'), false) => out.push_str(r"[\t\n\f\r ]"),
                (Some('S'), _) => out.push_str(r"[^\t\n\f\r ]"),
                (Some('b'), false) => out.push_str(r"(?-u:\b)"),
                (Some('B'), false) => out.push_str(r"(?-u:\B)"),
                (Some('Q'), false) => quote(&mut chars, &mut out),
                (Some(other), _) => {
                    out.push('\\');
                    out.push(other);
                }
                (None, _) => out.push('\\'),
            },
            '[' if class == 0 => {
                class = 1;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // A leading bracket is a member of the class.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str(r"\]");
                }
            }
            '[' if chars.peek() == Some(&':') => {
                class += 1;
                out.push('[');
            }
            ']' if class > 0 => {
                class -= 1;
                out.push(']');
            }
            '[' | '&' | '~' if class > 0 => {
                out.push('\\');
                out.push(c);
            }
            other => out.push(other),
        }
    }
    out
}

/// `\Q...\E`: literal text.
fn quote(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    let mut text = String::new();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.next_if_eq(&'E').is_some() {
            break;
        }
        text.push(c);
    }
    out.push_str(&regex::escape(&text));
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn character_classes_are_ascii() {
        for (pattern, text, matches) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^[\w.-]+$", "a_b.c-d", true),
            (r"^[\w.-]+$", "é", false),
            (r"^.$", "é", true),
            (r"^[^\s]$", "x", true),
            (r"^[[]$", "[", true),
            (r"^[]a]$", "]", true),
            (r"^[a&&b]$", "&", true),
            (r"^[[:alpha:]-]+$", "a-b", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"b", "abc", true),
        ] {
            let regex = compile(pattern).expect(pattern);
            assert_eq!(regex.is_match(text), matches, "{pattern} {text}");
        }
        assert!(compile("(").is_err());
        assert!(compile("(a{1000}){1000}{1000}").is_err());
    }
}
