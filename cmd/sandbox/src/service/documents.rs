//! Discovery, `OpenAPI` and version documents. Large documents have an `ETag`, so that clients do not fetch them twice.

use http::header::{
    ACCEPT, CACHE_CONTROL, ETAG, EXPIRES, HeaderMap, HeaderValue, IF_NONE_MATCH, LOCATION, VARY,
};
use http::{Method, Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};

use crate::discovery;
use crate::discovery::Document;
use crate::endpoints::negotiate;
use crate::endpoints::negotiate::ResponseKind;
use crate::endpoints::request::Query;
use crate::env::Env;
use crate::json::Value;
use crate::registry::served::ServedResources;
use crate::service::body;
use crate::service::body::ResponseBody;
use crate::status::ApiError;

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The answer to a request for a document, if the path is one's.
pub(super) fn answer<B>(
    registry: &ServedResources,
    path: &str,
    query: &Query,
    request: &Request<B>,
    env: &Env,
) -> Option<Response<ResponseBody>> {
    // Other documents than those of OpenAPI have at most three segments.
    if path.splitn(5, '/').nth(4).is_some_and(|rest| !rest.is_empty()) && !path.starts_with("/openapi/") {
        return None;
    }
    let headers = request.headers();
    let accepted = headers.get(ACCEPT).and_then(|h| h.to_str().ok());
    let served = registry.all();
    let path = path.trim_end_matches('/');
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let get = request.method() == Method::GET;
    let answer = match segments.as_slice() {
        [root @ ("api" | "apis")] if get && negotiate::wants_aggregated(accepted) => {
            let document = registry.documents().aggregated(served, *root == "api");
            aggregated(headers, &document)
        }
        ["openapi", "v2"] => openapi_v2(registry, headers, accepted),
        // It changes with every CRD and is not cached; kube-apiserver sends it as text.
        ["openapi", "v3"] => body::text(200, registry.documents().openapi_v3_index(served).body.clone()),
        ["openapi", "v3", root @ ..] => {
            let document = match root {
                ["api", version] => registry.documents().openapi_v3(served, "", version),
                ["apis", group, version] => registry.documents().openapi_v3(served, group, version),
                _ => None,
            };
            match document {
                Some(document) => openapi_v3(headers, accepted, path, query, &document, env.now()),
                None => empty(StatusCode::NOT_FOUND),
            }
        }
        _ => {
            let document = plain(registry, &segments)?;
            if get {
                as_json(accepted, &document)
            } else {
                body::error(&ApiError::method_not_allowed())
            }
        }
    };
    Some(answer)
}

fn plain(registry: &ServedResources, segments: &[&str]) -> Option<Value> {
    let served = registry.all();
    match segments {
        ["version"] => Some(discovery::version()),
        ["api"] => Some(discovery::core_versions(served, "")),
        ["apis"] => Some(discovery::group_list(served)),
        ["apis", group] => discovery::group(served, group),
        ["api", version] => discovery::resource_list(served, "", version),
        ["apis", group, version] => discovery::resource_list(served, group, version),
        _ => None,
    }
}

fn as_json(accepted: Option<&str>, document: &Value) -> Response<ResponseBody> {
    match negotiate::accept(accepted, ResponseKind::Document) {
        Ok(_) => body::json(200, document),
        Err(error) => body::error(&ApiError::not_acceptable(error.to_string())),
    }
}

fn aggregated(headers: &HeaderMap, document: &Document) -> Response<ResponseBody> {
    let mut response = cached(headers, AGGREGATED, document);
    let public = HeaderValue::from_static("public");
    response.headers_mut().insert(CACHE_CONTROL, public);
    vary(&mut response);
    response
}

fn openapi_v2(
    registry: &ServedResources,
    headers: &HeaderMap,
    accepted: Option<&str>,
) -> Response<ResponseBody> {
    let (documents, served) = (registry.documents(), registry.all());
    let mut response = if negotiate::prefers_swagger_protobuf(accepted) {
        let document = documents.openapi_v2_protobuf(served);
        cached(headers, negotiate::SWAGGER_PROTOBUF, &document)
    } else {
        match negotiate::accept(accepted, ResponseKind::Document) {
            Ok(_) => cached(headers, JSON, &documents.openapi_v2(served)),
            Err(_) => empty(StatusCode::NOT_ACCEPTABLE),
        }
    };
    vary(&mut response);
    response
}

/// A link with the current hash never expires; an old hash redirects to the current one.
fn openapi_v3(
    headers: &HeaderMap,
    accepted: Option<&str>,
    path: &str,
    query: &Query,
    document: &Document,
    now: Timestamp,
) -> Response<ResponseBody> {
    let asked = query.get("hash").filter(|hash| !hash.is_empty());
    let mut response = if negotiate::accept(accepted, ResponseKind::Document).is_err() {
        empty(StatusCode::NOT_ACCEPTABLE)
    } else if asked.is_some_and(|hash| hash != document.hash) {
        let mut moved = empty(StatusCode::MOVED_PERMANENTLY);
        let target = HeaderValue::from_str(&format!("{path}?hash={}", document.hash));
        if let Ok(target) = target {
            moved.headers_mut().insert(LOCATION, target);
        }
        moved
    } else {
        let mut found = cached(headers, JSON, document);
        if asked.is_some() {
            let answer = found.headers_mut();
            answer.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            let year = now
                .checked_add(SignedDuration::from_hours(365 * 24))
                .unwrap_or(now);
            let expires = year.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string();
            if let Ok(expires) = HeaderValue::from_str(&expires) {
                answer.insert(EXPIRES, expires);
            }
        }
        found
    };
    vary(&mut response);
    response
}

/// A document with its hash; only the hash for those who have it.
fn cached(headers: &HeaderMap, media_type: &'static str, document: &Document) -> Response<ResponseBody> {
    let tag = format!("\"{}\"", document.hash);
    let known = headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let mut tags = known.unwrap_or_default().split(',').map(str::trim);
    let mut response = if tags.any(|known| known == "*" || known.trim_start_matches("W/") == tag) {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        body::bytes(200, HeaderValue::from_static(media_type), document.body.clone())
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = body::text(200, "");
    *response.status_mut() = status;
    response.headers_mut().remove(http::header::CONTENT_TYPE);
    response
}

fn vary(response: &mut Response<ResponseBody>) {
    let accept = HeaderValue::from_static("Accept");
    response.headers_mut().insert(VARY, accept);
}
