//! The URL of a collector.

use std::net::IpAddr;

use http::Uri;

/// The path of OTLP/HTTP, for a URL without one.
const DEFAULT_PATH: &str = "/v1/traces";

/// Parses a URL. Spans name objects of the cluster: they leave the machine encrypted only.
pub(super) fn parse(url: &str) -> Result<Uri, &'static str> {
    let uri: Uri = url.parse().map_err(|_| "invalid URL")?;
    let authority = uri.authority().ok_or("the URL has no host")?;
    if authority.as_str().contains('@') {
        return Err("the URL must not contain credentials: flags are visible to other users");
    }
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if is_loopback(authority.host()) => {}
        Some("http") => return Err("http:// is allowed for loopback addresses only, use https://"),
        _ => return Err("the URL must start with https:// or http://"),
    }
    if uri.path() != "/" {
        return Ok(uri);
    }
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static(DEFAULT_PATH));
    Uri::from_parts(parts).map_err(|_| "invalid URL")
}

/// Returns the URL for an error message.
pub(super) fn without_credentials(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("(credentials)@{host}"),
        None => url.to_owned(),
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_encrypted_or_loopback_and_has_a_path() {
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
        for url in [
            "",
            "collector:4318",
            "/v1/traces",
            "grpc://127.0.0.1:4317",
            "http://collector.example.com",
            "http://127.0.0.1.example.com",
            "https://user:hunter2@collector.example.com",
        ] {
            assert!(parse(url).is_err(), "{url}");
        }
        let shown = without_credentials("https://user:hunter2@collector.example.com");
        assert_eq!(shown, "(credentials)@collector.example.com");
    }
}
