//! The URL of a collector.

use http::Uri;

/// The path of OTLP/HTTP, for a URL without one.
const DEFAULT_PATH: &str = "/v1/traces";

/// Parses a URL, whose scheme and host the configuration has validated.
pub(super) fn parse(url: &str) -> Result<Uri, &'static str> {
    let uri: Uri = url.parse().map_err(|_| "invalid URL")?;
    uri.authority().ok_or("the URL has no host")?;
    if uri.path() != "/" {
        return Ok(uri);
    }
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static(DEFAULT_PATH));
    Uri::from_parts(parts).map_err(|_| "invalid URL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_without_a_path_has_the_default_path() {
        for (url, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("http://[::1]:4318/otlp", "http://[::1]:4318/otlp"),
            (
                "https://collector.example.com",
                "https://collector.example.com/v1/traces",
            ),
            (
                "https://a.example.com/x?tenant=1",
                "https://a.example.com/x?tenant=1",
            ),
        ] {
            assert_eq!(parse(url).map(|uri| uri.to_string()).as_deref(), Ok(expected));
        }
        for url in ["", "/v1/traces", "https://a b"] {
            assert!(parse(url).is_err(), "{url}");
        }
    }
}
