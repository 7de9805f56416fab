//! Image references: `[host[:port]/]path[:tag][@digest]`.

/// The maximum length of a reference without tag and digest.
const NAME_MAX: usize = 255;

/// Returns whether `text` is a well-formed image reference.
#[must_use]
pub fn is_reference(text: &str) -> bool {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (text, None),
    };
    // A colon before the last slash precedes a port.
    let path = rest.rfind('/').map_or(0, |it| it + 1);
    let (name, tag) = match rest[path..].find(':') {
        Some(at) => (&rest[..path + at], Some(&rest[path + at + 1..])),
        None => (rest, None),
    };
    let (host, path) = match name.split_once('/') {
        Some((first, rest)) if is_host(first) => (Some(first), rest),
        _ => (None, name),
    };
    name.len() <= NAME_MAX
        && host.is_none_or(is_address)
        && path.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
}

/// Returns whether the first component of a name is a host: `a/b` has none.
fn is_host(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.contains(|it: char| it.is_ascii_uppercase())
}

fn is_address(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((host, port)) = rest.split_once(']') else {
                return false;
            };
            let inside = host.bytes().all(|it| it.is_ascii_hexdigit() || it == b':');
            if host.is_empty() || !inside || !(port.is_empty() || port.starts_with(':')) {
                return false;
            }
            ("ip", port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let label = |it: &str| {
        !it.is_empty()
            && !it.starts_with('-')
            && !it.ends_with('-')
            && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
    };
    host.split('.').all(label)
        && port.is_none_or(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
}

/// Returns whether `text` is alphanumeric, with a dot, up to two underscores or any number of dashes as separators.
fn is_component(text: &str) -> bool {
    let word = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    let mut separators = text.split(|it: char| it.is_ascii() && word(it as u8));
    let ends = text.bytes().next().is_some_and(word) && text.bytes().last().is_some_and(word);
    ends && separators.all(|it| matches!(it, "" | "." | "_" | "__") || it.bytes().all(|it| it == b'-'))
}

fn is_tag(text: &str) -> bool {
    let word = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    (1..=128).contains(&text.len())
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|it| word(it) || b".-".contains(&it))
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else {
        return false;
    };
    algorithm.starts_with(|it: char| it.is_ascii_alphabetic())
        && algorithm
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"+._-".contains(&it))
        && hex.len() >= 32
        && hex.bytes().all(|it| it.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[&str] = &[
        "nginx",
        "nginx:1.27",
        "library/nginx",
        "a.b/c:d",
        "localhost/a",
        "localhost:5000/a/b:tag",
        "registry.example.com:5000/team/app_one/two--three:v1.2-rc_3",
        "[::1]:5000/a",
        "a@sha256:0123456789abcdef0123456789abcdef",
        "r.io/a:1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "Registry/app",
    ];

    const BAD: &[&str] = &[
        "",
        " ",
        "nginx ",
        "a b",
        "Nginx",
        "a:",
        ":a",
        "a:b:c",
        "a:-b",
        "/a",
        "a/",
        "a//b",
        "a@",
        "a@sha256",
        "a@sha256:xyz",
        "a___b",
        "a..b",
        "-a",
        "a-",
        "https://a/b",
        "r.io:port/a",
        "é",
        "a\n",
    ];

    #[test]
    fn valid_and_invalid_references() {
        for good in GOOD {
            assert!(is_reference(good), "{good:?}");
        }
        for bad in BAD {
            assert!(!is_reference(bad), "{bad:?}");
        }
        assert!(is_reference(&"a".repeat(255)) && !is_reference(&"a".repeat(256)));
        assert!(is_reference(&format!("a:{}", "t".repeat(128))));
        assert!(!is_reference(&format!("a:{}", "t".repeat(129))));
    }
}
