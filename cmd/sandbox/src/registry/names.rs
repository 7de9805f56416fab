//! The formats of names and other short texts, with the messages of upstream's `validation` package.
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

/// RFC 1123 label: one part of a host name.
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

/// A key of a `ConfigMap` or Secret: a file name.
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
