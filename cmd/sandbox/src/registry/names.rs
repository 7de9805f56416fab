//! The formats of names and other short texts, with the messages of upstream's `validation` package.
//!
//! Each check returns what is wrong, as the detail of a field error; nothing if the text is fine.

/// Checks the name of an object; the flag says that a suffix will be appended to it.
pub(crate) type NameRule = fn(&str, bool) -> Vec<String>;

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} characters"))
}

fn unless(valid: bool, rule: &str) -> Option<String> {
    (!valid).then(|| rule.to_owned())
}

/// `must be between 1 and 65535, inclusive`
pub(crate) fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Reports whether the text is not empty, has only these bytes, and neither starts nor ends with punctuation.
fn consists_of(text: &str, alphanumeric: fn(u8) -> bool, punctuation: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| alphanumeric(*byte));
    let is_inner = |byte: &u8| alphanumeric(*byte) || punctuation.contains(byte);
    is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_inner)
}

fn matches_label(text: &str) -> bool {
    consists_of(text, lower_or_digit, b"-")
}

fn matches_qualified(text: &str) -> bool {
    consists_of(text, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

/// RFC 1123 label: one part of a host name.
pub(crate) fn dns_label(text: &str) -> Vec<String> {
    let rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                and end with an alphanumeric character";
    let violations = [too_long(text, 63), unless(matches_label(text), rule)];
    violations.into_iter().flatten().collect()
}

/// RFC 1123 subdomain: labels joined by dots.
pub(crate) fn dns_subdomain(text: &str) -> Vec<String> {
    let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                must start and end with an alphanumeric character";
    let violations = [
        too_long(text, 253),
        unless(text.split('.').all(matches_label), rule),
    ];
    violations.into_iter().flatten().collect()
}

/// RFC 1035 label: an RFC 1123 label that starts with a letter.
pub(crate) fn dns_1035_label(text: &str) -> Vec<String> {
    let rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                character, and end with an alphanumeric character";
    let valid = matches_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase());
    let violations = [too_long(text, 63), unless(valid, rule)];
    violations.into_iter().flatten().collect()
}

/// A label key: a name with an optional DNS subdomain and `/` before it.
pub(crate) fn qualified(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix), *name),
        _ => return vec!["a valid label key has at most one '/' (e.g. 'example.com/MyName')".to_owned()],
    };
    let rule = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                character";
    let of_prefix = prefix.map(dns_subdomain).unwrap_or_default();
    let of_name = [too_long(name, 63), unless(matches_qualified(name), rule)];
    let of_prefix = of_prefix.into_iter().map(|why| format!("prefix part {why}"));
    let of_name = of_name
        .into_iter()
        .flatten()
        .map(|why| format!("name part {why}"));
    of_prefix.chain(of_name).collect()
}

/// A label value: empty, or like the name part of a key.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
                start and end with an alphanumeric character";
    let valid = text.is_empty() || matches_qualified(text);
    let violations = [too_long(text, 63), unless(valid, rule)];
    violations.into_iter().flatten().collect()
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
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
    let violations = [
        too_long(text, 253),
        unless(!text.is_empty() && text.bytes().all(fits), rule),
        unless(text != ".", "must not be '.'"),
        unless(!text.starts_with(".."), "must not start with '..'"),
    ];
    violations.into_iter().flatten().collect()
}

/// The name of an environment variable: any printable ASCII but `=`.
pub(crate) fn env_name(text: &str) -> Vec<String> {
    let printable = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'=';
    let rule =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    unless(text.bytes().all(printable), rule).into_iter().collect()
}

/// The name of a port.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let fits = |byte: u8| lower_or_digit(byte) || byte == b'-';
    let has_letter = text.bytes().any(|byte| byte.is_ascii_lowercase());
    let has_end = text.starts_with('-') || text.ends_with('-');
    let violations = [
        too_long(text, 15),
        unless(
            !text.is_empty() && text.bytes().all(fits),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        unless(has_letter, "must contain at least one letter (a-z)"),
        unless(!text.contains("--"), "must not contain consecutive hyphens"),
        unless(!has_end, "must not begin or end with a hyphen"),
    ];
    violations.into_iter().flatten().collect()
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
