//! Parsing of request URLs: the resource path and the query parameters (`RequestInfo` of the API server).

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::Uri;
use percent_encoding::percent_decode_str;

use crate::status::{ApiError, Result};

/// A parsed resource path below `/api/v1` or `/apis/<group>/<version>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'p> {
    /// API group; empty for the core group.
    pub group: &'p str,
    /// API version, such as `v1`.
    pub version: &'p str,
    /// Plural resource name, such as `pods`.
    pub resource: &'p str,
    /// Namespace; `None` for cluster-scoped resources and for lists across all namespaces.
    pub namespace: Option<&'p str>,
    /// Object name; `None` for a collection.
    pub name: Option<&'p str>,
    /// Subresource, such as `status`.
    pub subresource: Option<&'p str>,
    /// Whether the path has the deprecated `/watch/` prefix.
    pub watch: bool,
}

impl<'p> Target<'p> {
    /// Parses a [decoded] resource path. Returns `None` for other paths.
    #[must_use]
    pub fn parse(path: &'p str) -> Option<Self> {
        // Only a proxied path has more segments, and they do not matter.
        let mut segments = [""; 10];
        let mut count = 0;
        for (place, segment) in segments.iter_mut().zip(path.strip_prefix('/')?.split('/')) {
            *place = segment;
            count += 1;
        }
        let (group, version, mut rest) = match &segments[..count] {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let watch = rest.first() == Some(&"watch");
        if watch {
            rest = &rest[1..];
        }
        let mut namespace = None;
        // `/namespaces/x/status` targets the namespace, `/namespaces/x/pods` a collection in it.
        if let ["namespaces", name, inner, ..] = rest
            && !matches!(*inner, "status" | "finalize")
        {
            namespace = Some(*name);
            rest = &rest[2..];
        }
        let (resource, name, subresource) = match rest {
            [resource] => (*resource, None, None),
            [resource, name] => (*resource, Some(*name), None),
            [resource, name, sub] | [resource @ "pods", name, sub @ "proxy", ..] => {
                (*resource, Some(*name), Some(*sub))
            }
            _ => return None,
        };
        let empty = |s: &str| s.is_empty();
        if empty(resource)
            || namespace.is_some_and(empty)
            || name.is_some_and(empty)
            || subresource.is_some_and(empty)
        {
            return None;
        }
        Some(Self {
            group,
            version,
            resource,
            namespace,
            name,
            subresource,
            watch,
        })
    }
}

/// Decodes a path. Names cannot contain a slash, not even an encoded one.
pub(crate) fn decoded(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(Cow::Borrowed(path));
    }
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    let slashes = |text: &str| text.matches('/').count();
    (slashes(&decoded) == slashes(path)).then_some(decoded)
}

/// The query parameters of a request. Like the API server, it ignores unknown parameters.
#[derive(Debug, Clone, Default)]
pub struct Query {
    values: BTreeMap<String, Vec<String>>,
}

impl Query {
    /// Parses the query of a URI.
    #[must_use]
    pub fn parse(uri: &Uri) -> Self {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            values
                .entry(key.into_owned())
                .or_default()
                .push(value.into_owned());
        }
        Self { values }
    }

    /// Returns the first value of a parameter, or `None` if it is missing or empty.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values
            .get(key)?
            .first()
            .map(String::as_str)
            .filter(|v| !v.is_empty())
    }

    /// Returns all values of a parameter.
    #[must_use]
    pub fn all(&self, key: &str) -> &[String] {
        self.values.get(key).map_or(&[], Vec::as_slice)
    }

    /// Parses a boolean as the API server does: every value except `false` and `0` is true, including an empty one.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<bool> {
        let value = self.values.get(key)?.first()?;
        Some(!(value.eq_ignore_ascii_case("false") || value == "0"))
    }

    /// Parses an integer. Returns `None` if the parameter is missing or empty.
    pub fn number(&self, key: &str) -> Result<Option<i64>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        value
            .parse()
            .map(Some)
            .map_err(|_| ApiError::bad_request(format!("{key}: {value:?} is not a number")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts = (String, Option<String>, Option<String>, Option<String>);

    fn target(path: &str) -> Option<Parts> {
        let path = decoded(path)?;
        let t = Target::parse(&path)?;
        let [namespace, name, subresource] =
            [t.namespace, t.name, t.subresource].map(|part| part.map(str::to_owned));
        let resource = format!("{}/{}/{}", t.group, t.version, t.resource);
        Some((resource, namespace, name, subresource))
    }

    #[test]
    fn resource_paths_are_parsed() {
        let s = |s: &str| Some(s.to_owned());
        for (path, expected) in [
            ("/api/v1/pods", Some(("/v1/pods".to_owned(), None, None, None))),
            (
                "/api/v1/namespaces",
                Some(("/v1/namespaces".to_owned(), None, None, None)),
            ),
            (
                "/api/v1/namespaces/a",
                Some(("/v1/namespaces".to_owned(), None, s("a"), None)),
            ),
            (
                "/api/v1/namespaces/a/status",
                Some(("/v1/namespaces".to_owned(), None, s("a"), s("status"))),
            ),
            (
                "/api/v1/namespaces/a/pods",
                Some(("/v1/pods".to_owned(), s("a"), None, None)),
            ),
            (
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                Some(("apps/v1/deployments".to_owned(), s("a"), s("b"), s("scale"))),
            ),
            (
                "/apis/r/v1/clusterroles/system%3Anode",
                Some(("r/v1/clusterroles".to_owned(), None, s("system:node"), None)),
            ),
            ("/api/v1", None),
            ("/api/v1/", None),
            ("/api/v1/pods/", None),
            ("/api/v1/namespaces/a/pods/b/c/d", None),
            ("/metrics", None),
            ("/api/v1/pods/%ff", None),
            ("/api/v1/namespaces//pods/a%2Fb", None),
            ("/api/v1/nodes/a%2Fb", None),
            ("/api/v1/namespaces//pods", None),
            ("/apis/g/v1/namespaces/a/b/c/d/e/f/g/h/i", None),
            (
                "/api/v1/namespaces/a/pods/b/proxy/c/d/e/f/g/h",
                Some(("/v1/pods".to_owned(), s("a"), s("b"), s("proxy"))),
            ),
        ] {
            assert_eq!(target(path), expected, "{path}");
        }
    }

    #[test]
    fn query_flags_and_numbers_are_parsed() {
        let query = |q: &str| Query::parse(&format!("/x?{q}").parse().expect("a URI"));
        assert_eq!(query("watch=1").flag("watch"), Some(true));
        assert_eq!(query("watch").flag("watch"), Some(true));
        assert_eq!(query("watch=False").flag("watch"), Some(false));
        assert_eq!(query("").flag("watch"), None);
        assert!(query("limit=x").number("limit").is_err());
    }
}
