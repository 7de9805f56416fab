//! The span of a request, below the span of the reconcile that sends it.

use http::{HeaderValue, Method};

use super::ClientError;
use crate::trace::{self, Span, SpanKind};

/// The span of a request; none outside a trace. It ends when it is dropped, also if the request is cancelled.
pub(super) struct RequestSpan(Option<Span>);

/// The parts of the path of an API request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Target<'a> {
    group: &'a str,
    namespace: &'a str,
    resource: &'a str,
    name: &'a str,
    subresource: &'a str,
}

/// Returns the resource in the path of a request as [`Resource`](crate::object::Resource) displays it.
pub(super) fn resource_of(path: &str) -> String {
    let Target { group, resource, .. } = Target::parse(path);
    let dot = if group.is_empty() { "" } else { "." };
    format!("{resource}{dot}{group}")
}

impl RequestSpan {
    pub(super) fn start(method: &Method, verb: &'static str, path: &str) -> Self {
        Self(trace::current().map(|reconcile| {
            let target = Target::parse(path);
            let slash = if target.subresource.is_empty() { "" } else { "/" };
            let name = format!("{verb} {}{slash}{}", target.resource, target.subresource);
            let span = reconcile.child(name, SpanKind::Client);
            span.set("http.request.method", method.as_str());
            span.set("url.template", target.template(path));
            span.set("verb", verb);
            span.set("resource", target.resource);
            span.set("namespace", target.namespace);
            span.set("name", target.name);
            // Replaced by the result, unless the request is cancelled.
            span.fail("cancelled");
            span
        }))
    }

    /// Returns the `traceparent` header.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let context = self.0.as_ref()?.context();
        HeaderValue::from_str(&context.traceparent()).ok()
    }

    pub(super) fn answered(&self, code: http::StatusCode) {
        if let Some(span) = &self.0 {
            span.set("http.response.status_code", i64::from(code.as_u16()));
            if code.is_success() {
                span.succeed();
            } else {
                span.fail(code.as_str());
            }
        }
    }

    pub(super) fn failed(&self, error: &ClientError) {
        if let Some(span) = &self.0 {
            span.fail(error.to_string());
        }
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        if let Some(span) = &self.0 {
            span.end();
        }
    }
}

impl<'a> Target<'a> {
    /// Returns the empty target for a path that is not that of a resource, such as discovery.
    fn parse(path: &'a str) -> Self {
        let mut parts = path.trim_start_matches('/').split('/');
        let group = match parts.next() {
            Some("api") => "",
            Some("apis") => parts.next().unwrap_or_default(),
            _ => return Self::default(),
        };
        let _version = parts.next();
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match &*rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let part = |at: usize| rest.get(at).copied().unwrap_or_default();
        Self {
            group,
            namespace,
            resource: part(0),
            name: part(1),
            subresource: part(2),
        }
    }

    /// Returns the path with placeholders for the namespace and the name.
    fn template(&self, path: &str) -> String {
        let mut parts: Vec<&str> = path.split('/').collect();
        let from_end = |parts: usize, at: usize| parts.checked_sub(at);
        let named = usize::from(!self.name.is_empty()) + usize::from(!self.subresource.is_empty());
        let count = parts.len();
        if !self.name.is_empty()
            && let Some(at) = from_end(count, named)
        {
            parts[at] = "{name}";
        }
        if !self.namespace.is_empty()
            && let Some(at) = from_end(count, named + 2)
        {
            parts[at] = "{namespace}";
        }
        parts.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_split_into_its_parts() {
        for (path, parts, template) in [
            ("/api/v1/pods", ["", "pods", "", ""], "/api/v1/pods"),
            ("/api/v1/nodes/a", ["", "nodes", "a", ""], "/api/v1/nodes/{name}"),
            (
                "/api/v1/namespaces/ns/pods",
                ["ns", "pods", "", ""],
                "/api/v1/namespaces/{namespace}/pods",
            ),
            (
                "/apis/apps/v1/namespaces/ns/deployments/web/status",
                ["ns", "deployments", "web", "status"],
                "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status",
            ),
            (
                "/api/v1/namespaces/ns",
                ["", "namespaces", "ns", ""],
                "/api/v1/namespaces/{name}",
            ),
            ("/version", [""; 4], "/version"),
            ("/apis", [""; 4], "/apis"),
        ] {
            let target = Target::parse(path);
            let Target {
                namespace,
                resource,
                name,
                subresource,
                ..
            } = target;
            assert_eq!([namespace, resource, name, subresource], parts, "{path}");
            assert_eq!(target.template(path), template);
        }
    }

    #[test]
    fn resource_of_a_path_includes_its_group() {
        for (path, resource) in [
            ("/api/v1/namespaces/ns/pods/a", "pods"),
            (
                "/apis/apps/v1/namespaces/ns/deployments/web/status",
                "deployments.apps",
            ),
            ("/apis/apps/v1/deployments", "deployments.apps"),
            ("/version", ""),
        ] {
            assert_eq!(resource_of(path), resource);
        }
    }
}
