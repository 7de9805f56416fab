//! The paths that every client may access.

use std::collections::BTreeSet;

use super::ServeError;

/// Exact paths, and prefixes written with a trailing `*`.
///
/// Paths are not normalised: two interpretations of one path are the usual way to bypass such a list.
#[derive(Clone, Debug)]
pub(super) struct AllowedPaths {
    exact: BTreeSet<String>,
    prefixes: Vec<String>,
}

impl AllowedPaths {
    pub(super) fn new(paths: impl IntoIterator<Item = String>) -> Result<Self, ServeError> {
        let mut allowed = Self {
            exact: BTreeSet::new(),
            prefixes: Vec::new(),
        };
        for path in paths {
            let prefix = path.strip_suffix('*');
            if !path.starts_with('/') || prefix.unwrap_or(&path).contains('*') {
                return Err(ServeError::AllowedPath { path });
            }
            match prefix {
                Some(prefix) => allowed.prefixes.push(prefix.to_owned()),
                None => {
                    allowed.exact.insert(path);
                }
            }
        }
        Ok(allowed)
    }

    /// Reports whether `path` is allowed.
    pub(super) fn contains(&self, path: &str) -> bool {
        self.exact.contains(path)
            || (is_plain(path) && self.prefixes.iter().any(|prefix| path.starts_with(prefix)))
    }
}

/// Reports whether a path is already in its normal form.
fn is_plain(path: &str) -> bool {
    !path.contains('%')
        && !path.contains("//")
        && path.split('/').all(|segment| segment != "." && segment != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(paths: &[&str]) -> AllowedPaths {
        AllowedPaths::new(paths.iter().map(|&path| path.to_owned())).expect("valid paths")
    }

    #[test]
    fn exact_path_is_allowed() {
        let allowed = allowed(&["/healthz", "/livez"]);
        assert!(allowed.contains("/healthz"));
        assert!(allowed.contains("/livez"));
        for path in [
            "/",
            "",
            "*",
            "/metrics",
            "/healthz/",
            "/healthz/ping",
            "/Healthz",
            "//healthz",
            "/%68ealthz",
            "/metrics/../healthz",
            "/healthz/../metrics",
        ] {
            assert!(!allowed.contains(path), "{path}");
        }
    }

    #[test]
    fn prefix_allows_paths_below_and_no_traversal() {
        let allowed = allowed(&["/healthz/*", "/debug*"]);
        for path in [
            "/healthz/",
            "/healthz/ping",
            "/healthz/a/b",
            "/debug",
            "/debugging",
            "/healthz/..a",
        ] {
            assert!(allowed.contains(path), "{path}");
        }
        for path in [
            "/healthz",
            "/metrics",
            "/healthz/../metrics",
            "/healthz/..",
            "/healthz/./ping",
            "/healthz//metrics",
            "/healthz/%2e%2e/metrics",
        ] {
            assert!(!allowed.contains(path), "{path}");
        }
    }

    #[test]
    fn invalid_allowed_path_is_rejected() {
        for path in ["", "healthz", "/a/*/b", "/a**", "*"] {
            let error = AllowedPaths::new([path.to_owned()]).expect_err("an error");
            let text = error.to_string();
            assert!(text.contains("always_allow_paths"), "{text}");
        }
    }
}
