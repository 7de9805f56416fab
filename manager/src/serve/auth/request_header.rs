//! Users in request headers, which an authenticating proxy sets.
//!
//! Only a proxy may set them: the caller verifies its client certificate first.

use std::str::Utf8Error;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::User;

/// The names of the request headers, and of the proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeaderNames {
    /// The common names of proxies. Empty for any certificate of the CA.
    pub allowed_names: Vec<String>,
    /// The headers of the user name. The first one with a value wins.
    pub username_headers: Vec<String>,
    /// The headers of the uid. The first one with a value wins.
    pub uid_headers: Vec<String>,
    /// The headers of groups. All values count.
    pub group_headers: Vec<String>,
    /// The prefixes of the headers of extra attributes.
    pub extra_headers_prefixes: Vec<String>,
}

impl RequestHeaderNames {
    /// Reports whether a proxy with this common name is trusted.
    pub(super) fn allows_proxy(&self, common_name: &str) -> bool {
        let allowed = &self.allowed_names;
        allowed.is_empty() || allowed.iter().any(|it| it == common_name)
    }

    /// Returns the user in the headers; none without a user name. The headers must be UTF-8: a value that is left out would
    /// select another user.
    pub(super) fn user(&self, headers: &HeaderMap) -> Result<Option<User>, Utf8Error> {
        let Some(name) = first(headers, &self.username_headers)? else {
            return Ok(None);
        };
        let mut user = User {
            name,
            uid: first(headers, &self.uid_headers)?.unwrap_or_default(),
            ..User::default()
        };
        for header in &self.group_headers {
            user.groups.extend(values(headers, header)?);
        }
        for header in headers.keys() {
            // Header names are in lower case.
            let mut prefixes = self.extra_headers_prefixes.iter();
            let key = prefixes
                .find_map(|prefix| header.as_str().strip_prefix(prefix.to_ascii_lowercase().as_str()));
            let Some(key) = key else { continue };
            let decoded = percent_decode_str(key).decode_utf8();
            let key = decoded.map_or_else(|_| key.to_owned(), std::borrow::Cow::into_owned);
            let extra = user.extra.entry(key).or_default();
            extra.extend(values(headers, header.as_str())?);
        }
        Ok(Some(user))
    }
}

/// Returns the first value of the first of these headers that is not empty.
fn first(headers: &HeaderMap, names: &[String]) -> Result<Option<String>, Utf8Error> {
    for name in names {
        let first = values(headers, name)?.into_iter().next();
        if let Some(value) = first.filter(|value| !value.is_empty()) {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn values(headers: &HeaderMap, name: &str) -> Result<Vec<String>, Utf8Error> {
    let values = headers.get_all(name).iter();
    values
        .map(|value| str::from_utf8(value.as_bytes()).map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use http::HeaderValue;
    use http::header::HeaderName;

    fn names() -> RequestHeaderNames {
        let list = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect();
        RequestHeaderNames {
            allowed_names: Vec::new(),
            username_headers: list(&["X-User", "X-Remote-User"]),
            uid_headers: list(&["X-Remote-Uid"]),
            group_headers: list(&["X-Remote-Group"]),
            extra_headers_prefixes: list(&["X-Remote-Extra-"]),
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.fold(HeaderMap::new(), |mut all, (name, value)| {
            all.append(name, value);
            all
        })
    }

    #[test]
    fn user_is_read_from_all_headers() {
        let user = names().user(&headers(&[
            ("x-user", ""),
            ("x-remote-user", "jane"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-acme.com%2fproject", "p1"),
            ("x-remote-extra-acme.com%2fproject", "p2"),
        ]));
        let user = user.expect("UTF-8").expect("a user");
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "7"));
        assert_eq!(user.groups, ["a", "b"]);
        assert_eq!(user.extra["acme.com/project"], ["p1", "p2"]);
        assert_eq!(user.extra.len(), 1);
    }

    #[test]
    fn headers_without_a_user_name_are_not_a_user() {
        assert_eq!(
            names().user(&headers(&[("x-remote-group", "system:masters")])),
            Ok(None)
        );
        assert_eq!(names().user(&headers(&[("x-remote-user", "")])), Ok(None));
    }

    #[test]
    fn header_that_is_not_utf8_is_an_error() {
        for name in ["x-user", "x-remote-uid", "x-remote-group", "x-remote-extra-a"] {
            let mut headers = headers(&[("x-remote-user", "jane")]);
            let name = HeaderName::from_static(name);
            headers.insert(
                name.clone(),
                HeaderValue::from_bytes("jürgen".as_bytes()).expect("a value"),
            );
            assert!(names().user(&headers).is_ok(), "{name}");
            headers.insert(
                name.clone(),
                HeaderValue::from_bytes(b"j\xfcrgen").expect("a value"),
            );
            assert!(names().user(&headers).is_err(), "{name}");
        }
    }
}
