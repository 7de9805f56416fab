//! Texts and numbers at the limits of parsers.

use coxswain_harness::draw::Draw;

/// Numbers as JSON writes them.
pub const NUMBERS: [&str; 18] = [
    "0",
    "-0",
    "-1",
    "0.5",
    "1e3",
    "1e-400",
    "1e308",
    "1e999",
    "2147483648",
    "-2147483649",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "100000000000000000000000000000000000000000",
    "01",
];

/// Strings as JSON writes them, with escapes of surrogates that no string has.
pub const ESCAPED: [&str; 4] = [r#""\ud800""#, r#""\udc00\ud800""#, r#""\u0000""#, r#""\ud83e\udd80""#];

const TEXTS: [&str; 56] = [
    "", " ", "0", "-1", "null", "true", "~", "*", "$", "%", "%2f", "%ff", "..", "../..", "/", "//", "a/b/c", "-a",
    "a.b/c", "A", "\u{0}", "\u{feff}", "\u{e9}", "\u{202e}", "\u{1f980}", "\n", "\\", "\"", "'", "1e3", "1e-999999999",
    "100m", "-5Mi", "1.5Gi", "16Ei", "0.0000000001", ".5", "+1", "9999-12-31T23:59:59Z", "0000-00-00T00:00:00Z",
    "2026-02-30T24:61:61+99:99", "-1h", "1h1h", "100%", "[::1]:0", "a=b,c in (d,e),!f", "metadata.name=a\\,b",
    "self.all(x, x.all(y, y > 0))", "^(a+)+$", "{.spec.containers[*].name}", "/spec/containers/-", "~2~1", "<<", "&a [*a]",
    "!!binary x", "---",
];

/// Returns one of the texts, or a long one.
pub fn text(draw: &mut Draw) -> String {
    match draw.below(40) {
        0 => "a".repeat(64),
        1 => "a".repeat(254),
        2 => "\u{e9}".repeat(1 << 15),
        3 => draw.one(&["(", "[", "{", "!", "- ", "a.", "a/", "--", "? "]).repeat(2000),
        4 | 5 => (*draw.one(&NUMBERS)).to_owned(),
        _ => (*draw.one(&TEXTS)).to_owned(),
    }
}
