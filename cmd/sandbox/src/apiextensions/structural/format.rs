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
        const CASES: &str = r#"
            date-time 2026-01-02T03:04:05Z|2026-01-02t03:04:05.1+02:00|2026-01-02T03:04:05Ztail
            !date-time 2026-01-02 03:04:05|2026-13-02T03:04:05Z|2026-01-02T24:00:00Z|2026-01-02T03:04:05|
            !date-time 2026-01-02T03:04:05.Z|2026-01-02T03:60:05Z|2026-01-02T3:04:05Z
            date 2026-01-02|2024-02-29
            !date 2026-02-30|2026-1-02|20260102|
            duration 1h30m|3 days|-1.5s|0|in 2 weeks|5µs|7 Hours|.5s
            !duration soon|3 moons||1|99999999999999999999 s|-|1.5
            ipv4 10.0.0.1|010.0.0.1|::ffff:1.2.3.4
            !ipv4 10.0.0|10.0.0.256|fe80::1|10.0.0.|
            ipv6 fe80::1|::ffff:1.2.3.4
            !ipv6 10.0.0.1|fe80::1%eth0|:
            cidr 10.0.0.0/8|fe80::/128|010.0.0.0/8
            !cidr 10.0.0.0/33|10.0.0.0|10.0.0.0/|fe80::/129
            mac 00:00:5e:00:53:01|00-00-5e-00-53-01|0000.5e00.5301|02:00:5e:10:00:00:00:01
            !mac 00:00:5e|00:00-5e:00:53:01|00:00:5e:00:53:0g|00:00:5e:00:53:01:02|0000.5e00
            uuid 6ba7b810-9dad-41d1-80b4-00c04fd430c8|6BA7B8109DAD11D180B400C04FD430C8
            !uuid 6ba7b810|6ba7b81-09dad-11d1-80b4-00c04fd430c8|
            uuid4 6ba7b810-9dad-41d1-80b4-00c04fd430c8
            !uuid4 6ba7b810-9dad-11d1-80b4-00c04fd430c8|6ba7b810-9dad-41d1-c0b4-00c04fd430c8
            uuid3 6ba7b810-9dad-31d1-00b4-00c04fd430c8
            !uuid3 6ba7b810-9dad-41d1-80b4-00c04fd430c8
            uuid5 6ba7b810-9dad-51d1-a0b4-00c04fd430c8
            !uuid5 6ba7b810-9dad-41d1-80b4-00c04fd430c8
            byte aGVsbG8=|YQ==|YWJj
            !byte a||====|YQ=a|aGVsbG8_
            uri https://example.com/a|/a b|a:b|http://[::1]:80/|http://u:p@h/%20|/a?%zz
            !uri example.com||http://a:b/|/%zz|1a:b|http://a b/|:a
            email a@example.com|A B <a.b@example.com>|"a b"@example.com|a@[10.0.0.1]
            !email a.example.com|a@|@b|a..b@c|a b@c|<a@b|.a@b|
            hostname a.example.com|a-b|localhost|1a.example.com
            !hostname -a.example.com|a.example.c|ab-c|a_b|a..com|a.example.c0m|
            k8s-short-name a-b|0
            !k8s-short-name A|a-|a.b|
            k8s-long-name a.b|a-b.c
            !k8s-long-name a..b|a.-b|"#;
        for line in CASES.trim().lines() {
            let (format, values) = line.trim_start().split_once(' ').expect(line);
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
