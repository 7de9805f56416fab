//! Formats of strings. An unlisted format accepts every value.
//!
//! The rules are those of the server, oddities included: a hostname of one label may have a dash only as its second
//! character, and every text that contains a number with a unit is a duration.

mod codes;
mod network;
mod time;

use serde_json::Value;

/// A validated format.
#[derive(Debug)]
pub struct Format {
    /// The name in the schema.
    pub name: String,
    /// `None` for formats of numbers, whose range `number` validates.
    check: Option<fn(&str) -> bool>,
}

impl Format {
    /// Returns the format of a schema, if the server validates it for the type.
    pub fn compile(schema: &Value) -> Option<Self> {
        let name = schema["format"].as_str()?;
        let check = match schema["type"].as_str().unwrap_or("string") {
            // An int-or-string has no format.
            _ if schema["x-kubernetes-int-or-string"] == true => return None,
            "integer" if matches!(name, "int32" | "int64") => None,
            "number" if matches!(name, "float" | "double") => None,
            "string" => Some(string_format(&name.replace('-', ""))?),
            _ => return None,
        };
        let name = name.to_owned();
        Some(Self { name, check })
    }

    /// Whether it is a format of strings.
    pub fn is_string_format(&self) -> bool {
        self.check.is_some()
    }

    /// Whether a text has the format.
    pub fn accepts(&self, text: &str) -> bool {
        self.check.is_none_or(|check| check(text))
    }
}

/// Returns the validation of a string format by its name without dashes.
fn string_format(name: &str) -> Option<fn(&str) -> bool> {
    Some(match name {
        "uri" => network::uri,
        "email" => network::email,
        "hostname" => network::hostname,
        "ipv4" => network::ipv4,
        "ipv6" => network::ipv6,
        "cidr" => network::cidr,
        "mac" => network::mac,
        "uuid" => |text| codes::uuid(text, None),
        "uuid3" => |text| codes::uuid(text, Some('3')),
        "uuid4" => |text| codes::uuid(text, Some('4')),
        "uuid5" => |text| codes::uuid(text, Some('5')),
        "byte" => codes::base64,
        "password" => |_| true,
        "date" => time::date,
        "duration" => time::duration,
        "datetime" => time::date_time,
        "k8sshortname" => |text| text.len() <= 63 && network::is_label(text),
        "k8slongname" => |text| text.len() <= 253 && text.split('.').all(network::is_label),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Format;

    #[test]
    fn formats_accept_and_reject() {
        // Accepted and rejected values, separated by bars.
        for (format, good, bad) in [
            (
                "date-time",
                "2026-01-02T03:04:05Z|2026-01-02t03:04:05.1+02:00|2026-01-02T03:04:05Ztail",
                "2026-01-02 03:04:05|2026-13-02T03:04:05Z|2026-01-02T24:00:00Z|2026-01-02T03:04:05|2026-01-02T03:04:05.Z|2026-01-02T03:60:05Z|2026-01-02T3:04:05Z|",
            ),
            ("date", "2026-01-02|2024-02-29", "2026-02-30|2026-1-02|20260102|"),
            (
                "duration",
                "1h30m|3 days|-1.5s|0|in 2 weeks|5µs|7 Hours|.5s",
                "soon|3 moons||1|99999999999999999999 s|-|1.5",
            ),
            (
                "ipv4",
                "10.0.0.1|010.0.0.1|::ffff:1.2.3.4",
                "10.0.0|10.0.0.256|fe80::1|10.0.0.|",
            ),
            ("ipv6", "fe80::1|::ffff:1.2.3.4", "10.0.0.1|fe80::1%eth0|:"),
            (
                "cidr",
                "10.0.0.0/8|fe80::/128|010.0.0.0/8",
                "10.0.0.0/33|10.0.0.0|10.0.0.0/|fe80::/129",
            ),
            (
                "mac",
                "00:00:5e:00:53:01|00-00-5e-00-53-01|0000.5e00.5301|02:00:5e:10:00:00:00:01",
                "00:00:5e|00:00-5e:00:53:01|00:00:5e:00:53:0g|00:00:5e:00:53:01:02|0000.5e00",
            ),
            (
                "uuid",
                "6ba7b810-9dad-41d1-80b4-00c04fd430c8|6BA7B8109DAD11D180B400C04FD430C8",
                "6ba7b810|6ba7b81-09dad-11d1-80b4-00c04fd430c8|",
            ),
            (
                "uuid4",
                "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8|6ba7b810-9dad-41d1-c0b4-00c04fd430c8",
            ),
            (
                "uuid3",
                "6ba7b810-9dad-31d1-00b4-00c04fd430c8",
                "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
            ),
            (
                "uuid5",
                "6ba7b810-9dad-51d1-a0b4-00c04fd430c8",
                "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
            ),
            ("byte", "aGVsbG8=|YQ==|YWJj", "a||====|YQ=a|aGVsbG8_"),
            (
                "uri",
                "https://example.com/a|/a b|a:b|http://[::1]:80/|http://u:p@h/%20|/a?%zz",
                "example.com||http://a:b/|/%zz|/a\u{7f}|1a:b|http://a b/|:a",
            ),
            (
                "email",
                "a@example.com|A B <a.b@example.com>|\"a b\"@example.com|a@[10.0.0.1]",
                "a.example.com|a@|@b|a..b@c|a b@c|<a@b|.a@b|",
            ),
            (
                "hostname",
                "a.example.com|a-b|localhost|1a.example.com",
                "-a.example.com|a.example.c|ab-c|a_b|a..com|a.example.c0m|",
            ),
            ("k8s-short-name", "a-b|0", "A|a-|a.b|"),
            ("k8s-long-name", "a.b|a-b.c", "a..b|a.-b|"),
        ] {
            let checked = Format::compile(&json!({"type": "string", "format": format})).expect(format);
            for good in good.split('|') {
                assert!(checked.accepts(good), "{format} {good}");
            }
            for bad in bad.split('|') {
                assert!(!checked.accepts(bad), "{format} {bad}");
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
