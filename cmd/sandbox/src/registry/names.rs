//! The formats that names and other short texts must have, with the sentences that say so.
//!
//! Each check returns what is wrong, as the detail of a field error; nothing if the text is fine.

/// Checks the name of an object; the flag says that a suffix will be appended to it.
pub(crate) type NameRule = fn(&str, bool) -> Vec<String>;

const LABEL_1123: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                              alphanumeric character";

/// `sentence (e.g. 'a',  or 'b', regex used for validation is 'r')`, which is how all of them end.
pub(crate) fn pattern(sentence: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{sentence} (regex used for validation is '{regex}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!(
        "{sentence} (e.g. {}regex used for validation is '{regex}')",
        examples.join(" or ")
    )
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// `must be between 1 and 65535, inclusive`
pub(crate) fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn matches_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|&byte| lower_or_digit(byte) || byte == b'-')
        && bytes.first().is_some_and(|&byte| lower_or_digit(byte))
        && bytes.last().is_some_and(|&byte| lower_or_digit(byte))
}

fn matches_subdomain(text: &str) -> bool {
    text.split('.').all(matches_label)
}

/// RFC 1123 label: what can be one part of a host name.
pub(crate) fn dns_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !matches_label(text) {
        wrong.push(if matches_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                 start and end with an alphanumeric character",
                LABEL_1123,
                &["my-name", "123-abc"],
            )
        });
    }
    wrong
}

/// RFC 1123 subdomain: labels joined by dots.
pub(crate) fn dns_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if !matches_subdomain(text) {
        wrong.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            &format!("{LABEL_1123}(\\.{LABEL_1123})*"),
            &["example.com"],
        ));
    }
    wrong
}

/// RFC 1035 label: like the younger kind, but it starts with a letter.
pub(crate) fn dns_1035_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !matches_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        wrong.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

fn matches_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes
        .iter()
        .all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// A label key: a name with an optional DNS subdomain and `/` before it.
pub(crate) fn qualified(text: &str) -> Vec<String> {
    let rule = || pattern(QUALIFIED_RULE, QUALIFIED, &["MyName", "my.name", "123-abc"]);
    let mut wrong = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(
                    dns_subdomain(prefix)
                        .into_iter()
                        .map(|message| format!("prefix part {}", in_bytes(&message))),
                );
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                rule()
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push("name part must be no more than 63 bytes".to_owned());
    }
    if !matches_qualified(name) {
        wrong.push(format!("name part {}", rule()));
    }
    wrong
}

/// Label keys and values count bytes where names of objects count characters.
fn in_bytes(message: &str) -> String {
    message.replace(" 253 characters", " 253 bytes")
}

/// A label value: empty, or like the name part of a key.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !matches_qualified(text) {
        wrong.push(pattern(
            &format!(
                "a valid label must be an empty string or {}",
                QUALIFIED_RULE.trim_start_matches("must ")
            ),
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// A name that can stand in a URL path.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|bad| text.contains(**bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

/// A key of a `ConfigMap` or Secret: what can be a file name.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(fits) {
        wrong.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." | ".." => wrong.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// The name of an environment variable: any printable ASCII but `=`.
pub(crate) fn env_name(text: &str) -> Vec<String> {
    if text
        .bytes()
        .all(|byte| (0x20..0x7f).contains(&byte) && byte != b'=')
    {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned(),
    ]
}

/// The name of a port.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 15 {
        wrong.push(too_long(15));
    }
    if text.is_empty() || !text.bytes().all(|byte| lower_or_digit(byte) || byte == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// A port number.
pub(crate) fn port_number(port: i64) -> Option<String> {
    (!(1..=65535).contains(&port)).then(|| between(1, 65535))
}

/// A prefix may end in a dash, because more will follow.
fn without_trailing_dash(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-') {
        Some(rest) if prefix && !rest.is_empty() => {
            let mut masked: String = rest.chars().take(rest.chars().count() - 1).collect();
            masked.push('a');
            masked
        }
        _ => name.to_owned(),
    }
}

/// Names that are DNS subdomains: most kinds.
pub(crate) fn subdomain_name(name: &str, prefix: bool) -> Vec<String> {
    dns_subdomain(&without_trailing_dash(name, prefix))
}

/// Names that are DNS labels.
pub(crate) fn label_name(name: &str, prefix: bool) -> Vec<String> {
    dns_label(&without_trailing_dash(name, prefix))
}

/// Names that only have to fit into a path.
pub(crate) fn segment_name(name: &str, _prefix: bool) -> Vec<String> {
    path_segment(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
        '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

    #[test]
    fn subdomains() {
        for good in ["a", "a-b.c1", "0.0", &"a".repeat(253)] {
            assert!(dns_subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a.", "é"] {
            assert_eq!(dns_subdomain(bad), [SUBDOMAIN], "{bad}");
        }
        assert_eq!(
            dns_subdomain(&"a".repeat(254)),
            ["must be no more than 253 characters"]
        );
    }

    #[test]
    fn labels_say_when_only_dots_are_wrong() {
        assert!(dns_label("1a-b").is_empty());
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns_label("A"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
              and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert!(dns_1035_label("1a")[0].starts_with("a DNS-1035 label must"));
        assert!(dns_1035_label("a1").is_empty());
    }

    #[test]
    fn qualified_names_point_at_the_bad_part() {
        for good in ["a", "A.b_c-d", "example.com/MyName"] {
            assert!(qualified(good).is_empty(), "{good}");
        }
        assert_eq!(qualified("/a"), ["prefix part must be non-empty"]);
        assert!(qualified("Bad/a")[0].starts_with("prefix part a lowercase RFC 1123 subdomain"));
        assert_eq!(qualified("a/")[0], "name part must be non-empty");
        assert!(qualified("a/b/c")[0].starts_with("a valid label key must consist of"));
        assert_eq!(
            qualified(&"a".repeat(64)),
            ["name part must be no more than 63 bytes"]
        );
    }

    #[test]
    fn label_values_may_be_empty() {
        assert!(label_value("").is_empty());
        assert_eq!(
            label_value("-"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
              start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
              for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
    }

    #[test]
    fn prefixes_may_end_in_a_dash() {
        assert!(subdomain_name("web-", true).is_empty());
        assert!(!subdomain_name("web-", false).is_empty());
        assert!(!subdomain_name("-", true).is_empty());
    }

    #[test]
    fn keys_ports_and_variables() {
        assert!(config_key("a.B_c-1").is_empty());
        assert_eq!(config_key(".."), ["must not be '..'"]);
        assert_eq!(config_key("..a"), ["must not start with '..'"]);
        assert!(config_key("a/b")[0].starts_with("a valid config key must"));
        assert!(port_name("http-1").is_empty());
        assert_eq!(port_name("1"), ["must contain at least one letter (a-z)"]);
        assert_eq!(
            port_number(0).as_deref(),
            Some("must be between 1 and 65535, inclusive")
        );
        assert_eq!(port_number(65535), None);
        assert!(env_name("1 odd.NAME").is_empty());
        assert!(!env_name("a=b").is_empty());
        assert_eq!(
            path_segment("a/b%"),
            ["may not contain '/'", "may not contain '%'"]
        );
    }
}
