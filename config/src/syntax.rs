//! Syntax of Kubernetes names and label selectors, so that a typo is reported at start and not by every request.

/// Whether a text is a valid namespace name: a DNS label.
pub(crate) fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_dns(text)
}

/// Whether a text is a valid object name: a DNS subdomain.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns)
}

fn is_dns(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || c == '-')
}

/// Whether a text is the name of an HTTP header.
pub(crate) fn is_header(text: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(is_token)
}

/// Whether a text is a label selector that `kubectl -l` accepts. The empty selector selects all.
pub(crate) fn is_selector(text: &str) -> bool {
    text.trim().is_empty() || requirements(text).into_iter().all(is_requirement)
}

/// Splits at the commas that are not in parentheses.
fn requirements(text: &str) -> Vec<&str> {
    let mut open = false;
    text.split(|c| {
        open = (open || c == '(') && c != ')';
        c == ',' && !open
    })
    .collect()
}

fn is_requirement(text: &str) -> bool {
    let text = text.trim();
    if let Some(key) = text.strip_prefix('!') {
        return is_key(key.trim());
    }
    let end = text
        .find(|c: char| c.is_whitespace() || "=!<>(".contains(c))
        .unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    let rest = rest.trim();
    let set = rest.strip_prefix("notin").or_else(|| rest.strip_prefix("in"));
    let comparison = ["==", "!=", "="]
        .iter()
        .find_map(|operator| rest.strip_prefix(operator));
    let order = rest.strip_prefix(['<', '>']);
    is_key(key)
        && if let Some(set) = set {
            let values = set.trim().strip_prefix('(').and_then(|set| set.strip_suffix(')'));
            values.is_some_and(|values| values.split(',').all(|value| is_value(value.trim())))
        } else if let Some(value) = comparison {
            is_value(value.trim())
        } else if let Some(number) = order {
            number.trim().parse::<i64>().is_ok()
        } else {
            rest.is_empty()
        }
}

/// A label key: a name with an optional prefix, as in `example.com/name`.
fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_subdomain(domain) && !name.is_empty() && is_value(name),
        None => !text.is_empty() && is_value(text),
    }
}

/// A label value: at most 63 characters, possibly empty.
fn is_value(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.is_empty()
        || (text.len() <= 63
            && text.starts_with(edge)
            && text.ends_with(edge)
            && text.chars().all(|c| edge(c) || "-_.".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_validated() {
        let long = "a".repeat(63);
        for name in ["a", "kube-system", "0", &long] {
            assert!(is_label(name), "{name}");
        }
        let longer = "a".repeat(64);
        for name in [
            "", "-a", "a-", "A", "a.b", "a/b", "..", " a", "a\n", "\u{e4}", &longer,
        ] {
            assert!(!is_label(name), "{name:?}");
        }
        assert!(is_subdomain("a.b-c.d") && is_subdomain(&longer));
        for name in ["", ".", "a..b", "a.", ".a", "a.-b", "../a", &"a.".repeat(127)] {
            assert!(!is_subdomain(name), "{name:?}");
        }
    }

    #[test]
    fn selectors_are_validated() {
        for selector in [
            "",
            " ",
            "a",
            "!a",
            "! a",
            "a=b",
            "a==b",
            "a!=b",
            "a=",
            "a = b , c",
            "a in (b,c), !d",
            "a in(b)",
            "a notin ( b , c )",
            "in in (in)",
            "x/y in ()",
            "example.com/App_1.2=V-1,tier!=test",
            "a>1",
            "a < 2",
            "a=b\n",
        ] {
            assert!(is_selector(selector), "{selector:?}");
        }
        for selector in [
            ",",
            "a,",
            "=b",
            "a=b=c",
            "a b",
            "a in b",
            "a in (b",
            "a in b)",
            "a in (b))",
            "a in (b,(c))",
            "a>b",
            "a!",
            "!a=b",
            "/a",
            "a/",
            "a/b/c",
            "A.com/b",
            "a=-b",
            "a=b&watch=1",
            "(a)",
        ] {
            assert!(!is_selector(selector), "{selector:?}");
        }
        assert!(!is_selector(&format!("a={}", "b".repeat(64))));
    }
}
