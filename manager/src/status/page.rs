//! The status page: one HTML file with inline style and script, and no data.
//!
//! Its Content-Security-Policy permits these two and requests to the same origin, nothing else. The script sets text, never
//! markup, so that a name or a message cannot inject elements.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_FRAME_OPTIONS};
use http::{HeaderValue, StatusCode};
use ring::digest::{SHA256, digest};

use crate::serve::{HttpResponse, response};

const HTML: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

const CROSS_ORIGIN_OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

static PAGE: LazyLock<String> = LazyLock::new(|| HTML.replace("{style}", STYLE).replace("{script}", SCRIPT));
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
});

/// Serves the page.
#[must_use]
pub fn page() -> HttpResponse {
    let mut response = response(StatusCode::OK, "text/html; charset=utf-8", PAGE.as_str());
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(
        CROSS_ORIGIN_OPENER_POLICY,
        HeaderValue::from_static("same-origin"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_a_strict_policy() {
        let response = page();
        assert_eq!(response.status(), StatusCode::OK);
        let header = |name: HeaderName| response.headers()[name].to_str().expect("text").to_owned();
        assert_eq!(header(X_FRAME_OPTIONS), "DENY");
        let policy = header(CONTENT_SECURITY_POLICY);
        assert!(
            policy.starts_with("default-src 'none'; script-src 'sha256-"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn page_has_no_external_assets_and_sets_no_markup() {
        for part in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "src=",
            "style=\"",
            " onclick",
        ] {
            assert!(!PAGE.contains(part), "{part}");
        }
        let without_namespace = PAGE.replace("http://www.w3.org/2000/svg", "");
        assert!(!without_namespace.contains("http"), "no address of another host");
    }
}
