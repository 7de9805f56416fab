//! Authorization attributes of a request: a verb, and a resource or a path.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::authn::User;
use crate::endpoints::request::Query;
use crate::selector::FieldSelector;
use crate::status::ApiError;

/// The attributes of one action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Such as `get` or `deletecollection`.
    pub verb: String,
    /// The resource or path.
    pub on: On,
}

/// The resource or path of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// A non-resource path, such as `/healthz`.
    Path(String),
    /// A resource. Fields that do not apply are empty.
    Resource {
        /// API group.
        group: String,
        /// Plural name.
        resource: String,
        /// Such as `status`.
        subresource: String,
        /// Namespace.
        namespace: String,
        /// Object.
        name: String,
    },
}

impl Attributes {
    /// Returns the attributes of a request. The resource may be unknown to the server: authorization precedes routing, so that
    /// it does not reveal which resources exist.
    #[must_use]
    pub fn of(method: &Method, path: &str, query: &Query) -> Self {
        let decoded = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let on_path = || Self {
            verb: method.as_str().to_ascii_lowercase(),
            on: On::Path(decoded.clone()),
        };
        let segments: Vec<&str> = decoded.trim_matches('/').split('/').collect();
        let (group, mut rest) = match segments.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return on_path(),
        };
        if rest.is_empty() {
            return on_path();
        }
        let mut verb = match *method {
            Method::POST => "create",
            Method::GET | Method::HEAD => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "",
        };
        if let ["watch", more @ ..] = rest
            && !more.is_empty()
        {
            (verb, rest) = ("watch", more);
        }
        let mut namespace = "";
        if let ["namespaces", name, more @ ..] = rest {
            namespace = name;
            if more
                .first()
                .is_some_and(|sub| !matches!(*sub, "status" | "finalize"))
            {
                rest = more;
            }
        }
        let part = |at: usize| rest.get(at).copied().unwrap_or_default();
        let mut name = part(1).to_owned();
        if name.is_empty() && verb == "get" {
            verb = if query.flag("watch") == Some(true) {
                "watch"
            } else {
                "list"
            };
            let selector = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default(), |_| Ok(()));
            name = selector
                .ok()
                .and_then(|s| s.name().map(str::to_owned))
                .unwrap_or_default();
        }
        if name.is_empty() && verb == "delete" {
            verb = "deletecollection";
        }
        Self {
            verb: verb.to_owned(),
            on: On::Resource {
                group: group.to_owned(),
                resource: part(0).to_owned(),
                subresource: part(2).to_owned(),
                namespace: namespace.to_owned(),
                name,
            },
        }
    }

    /// A verb on one object of a resource.
    #[must_use]
    pub fn on_resource(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            on: On::Resource {
                group: group.to_owned(),
                resource: resource.to_owned(),
                subresource: String::new(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
        }
    }

    /// The namespace, empty if there is none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match &self.on {
            On::Path(_) => "",
            On::Resource { namespace, .. } => namespace,
        }
    }

    /// Returns the 403 for a user without the permission; `reason` may be empty.
    #[must_use]
    pub fn forbidden(&self, user: &User, reason: &str) -> ApiError {
        let Self { verb, on } = self;
        let who = &user.name;
        let message = match on {
            On::Path(path) => format!("User {who:?} cannot {verb} path {path:?}"),
            On::Resource {
                group,
                resource,
                subresource,
                namespace,
                ..
            } => {
                let what = combined(resource, subresource);
                let scope = match namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                format!("User {who:?} cannot {verb} resource {what:?} in API group {group:?} {scope}")
            }
        };
        // Nothing that a browser could take for HTML.
        let mut why = message
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        match on {
            On::Path(_) => ApiError::forbidden_as("", "", "", &why),
            On::Resource {
                group,
                resource,
                name,
                ..
            } => ApiError::forbidden_as(group, resource, name, &why),
        }
    }
}

/// `pods` or `pods/status`, as rules name it.
pub(crate) fn combined(resource: &str, subresource: &str) -> String {
    if subresource.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}/{subresource}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(method: &Method, uri: &str) -> String {
        let uri: http::Uri = uri.parse().expect("a URI");
        let Attributes { verb, on } = Attributes::of(method, uri.path(), &Query::parse(&uri));
        match on {
            On::Path(path) => format!("{verb} {path}"),
            On::Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
            } => format!("{verb} {group}|{resource}|{subresource}|{namespace}|{name}"),
        }
    }

    #[test]
    fn verbs_and_parts() {
        for (method, uri, expected) in [
            (Method::GET, "/healthz", "get /healthz"),
            (Method::GET, "/api/v1", "get /api/v1"),
            (Method::GET, "/apis/apps/v1", "get /apis/apps/v1"),
            (Method::GET, "/api/v1/pods", "list |pods|||"),
            (Method::GET, "/api/v1/pods?watch=1", "watch |pods|||"),
            (Method::GET, "/api/v1/watch/namespaces/a/pods", "watch |pods||a|"),
            (Method::GET, "/api/v1/namespaces", "list |namespaces|||"),
            (Method::GET, "/api/v1/namespaces/a", "get |namespaces||a|a"),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                "update |namespaces|finalize|a|a",
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods",
                "deletecollection |pods||a|",
            ),
            (Method::DELETE, "/api/v1/namespaces/a/pods/b", "delete |pods||a|b"),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "patch apps|deployments|scale|a|b",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/serviceaccounts/b/token",
                "create |serviceaccounts|token|a|b",
            ),
            (
                Method::GET,
                "/api/v1/pods?fieldSelector=metadata.name%3Dx",
                "list |pods|||x",
            ),
            (
                Method::GET,
                "/apis/rbac/v1/clusterroles/system%3Anode",
                "get rbac|clusterroles|||system:node",
            ),
        ] {
            assert_eq!(shown(&method, uri), expected, "{method} {uri}");
        }
    }

    #[test]
    fn a_refusal_names_what_was_asked_for() {
        let bob = User {
            name: "<bob>".to_owned(),
            ..User::default()
        };
        let attributes = Attributes::on_resource("get", "apps", "deployments", "a", "b");
        assert_eq!(
            attributes.forbidden(&bob, "why").message,
            "deployments.apps \"b\" is forbidden: User \"&lt;bob&gt;\" cannot get resource \"deployments\" in API group \
             \"apps\" in the namespace \"a\": why"
        );
        let path = Attributes {
            verb: "get".to_owned(),
            on: On::Path("/x".to_owned()),
        };
        assert_eq!(
            path.forbidden(&bob, "").message,
            "forbidden: User \"&lt;bob&gt;\" cannot get path \"/x\""
        );
    }
}
