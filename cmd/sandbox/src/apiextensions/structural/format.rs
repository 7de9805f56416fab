//! Formats of strings. An unlisted format accepts every value.
//!
//! The rules are those of the server, oddities included: a hostname of one label may have a dash only as its second
//! character, and every text that contains a number with a unit is a duration.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::json::Value;

/// Formats by their names without dashes: the maximum length in bytes, and the pattern.
static PATTERNS: LazyLock<BTreeMap<&str, (usize, Regex)>> = LazyLock::new(|| {
    let any = r"[^\x00-\x1f\x7f]*";
    let hex = "[0-9a-fA-F]";
    let label = "[a-z0-9]([a-z0-9-]*[a-z0-9])?";
    let sign = r"[a-zA-Z0-9\p{S}\p{L}]";
    let atoms = r#"([^\x00-\x20"(),.:;<>@\[\\\]\x7f]+)"#;
    let atoms = format!(r"{atoms}(\.{atoms})*");
    let address = format!(r#"({atoms}|"[^"\x00-\x1f]*")@({atoms}|\[[^\]]+\])"#);
    let uuid = |third: &str, fourth: &str| {
        format!("^{hex}{{8}}-?{hex}{{4}}-?{third}{hex}{{3}}-?{fourth}{hex}{{3}}-?{hex}{{12}}$")
    };
    let bytes = |digits: usize, separator: &str| {
        let group = |count: usize| format!("({separator}{hex}{{{digits}}}){{{}}}", count * 2 / digits - 1);
        let groups = [6, 8, 20].map(group).join("|");
        format!("{hex}{{{digits}}}({groups})")
    };
    let path = format!(r"([^%?\x00-\x1f\x7f]|%{hex}{{2}})*(\?{any})?");
    let authority = format!(
        r"(([\w.~!$&'()*+,;=:@-]|%{hex}{{2}})*@)?(\[[^\]/?]*\]|([^\x00-\x20#/:?@\\^`{{|}}\x7f%]|%{hex}{{2}})*)(:[0-9]*)?"
    );
    let scheme = "[a-zA-Z][a-zA-Z0-9+.-]*:";
    let patterns = [
        (
            "byte",
            "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}[A-Za-z0-9+/=])$".to_owned(),
        ),
        ("cidr", "/[0-9]+$".to_owned()),
        ("date", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$".to_owned()),
        // The server ignores the text after a second `t`.
        (
            "datetime",
            "^[0-9-]{10}[tT]([01][0-9]|2[0-3])(:[0-5][0-9]){2}([^tT][0-9]+)?([zZ]|[+-][0-9]{2}:[0-9]{2})([tT].*)?$"
                .to_owned(),
        ),
        // A Go duration, or a text that contains a number and a unit in words.
        (
            "duration",
            "^[+-]?(0|(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$|\
             (?i:(^|[^0-9])[0-9]{1,18}\\s*([nuµm]?s|m|hr?|d|wk?|(nano|micro|milli|sec|min|hour|day|week)[a-z]*)($|[^a-zµ]))"
                .to_owned(),
        ),
        // An address, or a name and an address in angle brackets.
        ("email", format!(r"^\s*({address}|[^<>@]*<{address}>)\s*$")),
        (
            "hostname",
            format!(r"^({sign}(-?{sign}{{0,62}})?|({sign}(({sign}|-){{0,61}}{sign})?\.)+\p{{L}}{{2,63}})$"),
        ),
        ("ipv4", "[.]".to_owned()),
        ("ipv6", ":".to_owned()),
        ("k8slongname", format!(r"^{label}(\.{label})*$")),
        ("k8sshortname", format!("^{label}$")),
        (
            "mac",
            format!("^({}|{}|{})$", bytes(2, ":"), bytes(2, "-"), bytes(4, "[.]")),
        ),
        ("password", String::new()),
        // A valid request target: an absolute URI or an absolute path.
        (
            "uri",
            format!(
                r"^([*]|/{path}|{scheme}([^/\x00-\x1f\x7f]{any}|/([^/%?\x00-\x1f\x7f]|%{hex}{{2}}){path}|/(\?{any})?|//{authority}([/?]{path})?)?)$"
            ),
        ),
        ("uuid", uuid(hex, hex)),
        ("uuid3", uuid("3", hex)),
        ("uuid4", uuid("4", "[89abAB]")),
        ("uuid5", uuid("5", "[89abAB]")),
    ];
    let limit = |name: &str| match name {
        "hostname" => 255,
        "k8slongname" => 253,
        "k8sshortname" => 63,
        _ => usize::MAX,
    };
    let compiled = patterns
        .into_iter()
        .filter_map(|(name, pattern)| Some((name, (limit(name), Regex::new(&pattern).ok()?))));
    compiled.collect()
});

/// A validated format.
#[derive(Debug)]
pub struct Format {
    /// The name in the schema.
    pub name: String,
    /// `None` for formats of numbers, whose range `number` validates.
    pattern: Option<&'static (usize, Regex)>,
}

impl Format {
    /// Returns the format of a schema, if the server validates it for the type.
    pub fn compile(schema: &Value) -> Option<Self> {
        let name = schema["format"].as_str()?.to_owned();
        let pattern = match schema["type"].as_str().unwrap_or("string") {
            // An int-or-string has no format.
            _ if schema["x-kubernetes-int-or-string"] == true => return None,
            "integer" if matches!(&*name, "int32" | "int64") => None,
            "number" if matches!(&*name, "float" | "double") => None,
            "string" => Some(PATTERNS.get(&*name.replace('-', ""))?),
            _ => return None,
        };
        Some(Self { name, pattern })
    }

    /// Whether it is a format of strings.
    pub fn is_string_format(&self) -> bool {
        self.pattern.is_some()
    }

    /// Whether a text has the format.
    pub fn accepts(&self, text: &str) -> bool {
        let is_ipv6 = |text: &str| text.parse::<Ipv6Addr>().is_ok();
        self.pattern
            .is_none_or(|(limit, pattern)| text.len() <= *limit && pattern.is_match(text))
            && match self.name.as_str() {
                "date" | "date-time" => text
                    .get(..10)
                    .is_some_and(|day| day.parse::<jiff::civil::Date>().is_ok()),
                // An IPv4-mapped IPv6 address is valid too.
                "ipv4" => is_ipv4(text) || is_ipv6(text),
                "ipv6" => is_ipv6(text),
                "cidr" => text.split_once('/').is_some_and(|(address, bits)| {
                    let most = if is_ipv4(address) { 32 } else { 128 };
                    (most == 32 || is_ipv6(address)) && bits.parse::<u16>().is_ok_and(|bits| bits <= most)
                }),
                _ => true,
            }
    }
}

/// Whether a text is an address, whose numbers may have leading zeros.
fn is_ipv4(text: &str) -> bool {
    let number = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        digits => digits.to_owned(),
    };
    let parts: Vec<String> = text.split('.').map(number).collect();
    parts.join(".").parse::<Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::Format;

    #[test]
    fn formats_accept_and_reject() {
        // Accepted and rejected values, separated by bars.
        for line in include_str!("format/tests.txt").lines() {
            let (format, values) = line.split_once(' ').expect(line);
            let accepted = !format.starts_with('!');
            let format = format.trim_start_matches('!');
            let format = Format::compile(&json!({"type": "string", "format": format})).expect(format);
            for value in values.split('|') {
                assert_eq!(format.accepts(value), accepted, "{line}: {value}");
            }
        }
        for schema in [
            json!({"type": "string", "format": "x-mine"}),
            json!({"type": "string", "format": "creditcard"}),
            json!({"type": "object", "format": "date"}),
            json!({"type": "string", "format": "int32"}),
            json!({"format": "date", "x-kubernetes-int-or-string": true}),
        ] {
            assert!(Format::compile(&schema).is_none(), "{schema}");
        }
    }
}
