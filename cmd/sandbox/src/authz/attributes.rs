//! Authorization attributes of a request: a verb, and a resource or a path.

use http::Method;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::authn::User;
use crate::endpoints::request::Query;
use crate::selector::FieldSelector;
use crate::status::ApiError;

/// The attributes of one action. Fields that do not apply are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// Such as `get` or `deletecollection`.
    pub verb: String,
    pub group: String,
    /// The plural name.
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// A non-resource path, such as `/healthz`.
    pub path: Option<String>,
}

/// A function that receives each authorization decision. Requests wait for it.
pub type Audit = Box<dyn Fn(&AuditRecord<'_>) + Send + Sync>;

/// A decision on a request, or on a permission that an admission plugin requires. Fields that do not apply are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the attributes of a SubjectAccessReview")]
pub struct AuditRecord<'a> {
    pub user: &'a str,
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The path of a request that is not for a resource, such as `/version`.
    pub path: &'a str,
    pub allowed: bool,
}

impl Attributes {
    /// Returns the attributes of a request. The resource may be unknown to the server: authorization precedes routing, so that
    /// it does not reveal which resources exist.
    #[must_use]
    pub fn of(method: &Method, path: &str, query: &Query) -> Self {
        let decoded = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let on_path = || Self {
            verb: method.as_str().to_ascii_lowercase(),
            path: Some(decoded.clone()),
            ..Self::default()
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
            name,
            subresource: part(2).to_owned(),
            ..Self::on_resource(verb, group, part(0), namespace, "")
        }
    }

    /// A verb on one object of a resource.
    #[must_use]
    pub fn on_resource(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the same action on a subresource.
    #[must_use]
    pub fn on_subresource(self, subresource: &str) -> Self {
        Self {
            subresource: subresource.to_owned(),
            ..self
        }
    }

    /// Returns the record of a decision.
    pub(crate) fn audited<'a>(&'a self, user: &'a User, allowed: bool) -> AuditRecord<'a> {
        AuditRecord {
            user: &user.name,
            verb: &self.verb,
            group: &self.group,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            path: self.path.as_deref().unwrap_or_default(),
            allowed,
        }
    }

    /// Returns the 403 for a user without the permission; `reason` may be empty.
    #[must_use]
    pub fn forbidden(&self, user: &User, reason: &str) -> ApiError {
        let (who, verb, group) = (&user.name, &self.verb, &self.group);
        let message = match (&self.path, self.namespace.as_str()) {
            (Some(path), _) => format!("User {who:?} cannot {verb} path {path:?}"),
            (None, namespace) => {
                let resource = combined(&self.resource, &self.subresource);
                let scope = match namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                format!("User {who:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}")
            }
        };
        // A browser must not interpret the message as HTML.
        let mut why = message
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        ApiError::forbidden_as(group, &self.resource, &self.name, &why)
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

    #[test]
    fn request_has_verb_and_resource() {
        for line in [
            "GET /healthz -> get /healthz",
            "GET /api/v1 -> get /api/v1",
            "GET /apis/apps/v1 -> get /apis/apps/v1",
            "GET /api/v1/pods -> list |pods|||",
            "GET /api/v1/pods?watch=1 -> watch |pods|||",
            "GET /api/v1/watch/namespaces/a/pods -> watch |pods||a|",
            "GET /api/v1/namespaces -> list |namespaces|||",
            "GET /api/v1/namespaces/a -> get |namespaces||a|a",
            "PUT /api/v1/namespaces/a/finalize -> update |namespaces|finalize|a|a",
            "DELETE /api/v1/namespaces/a/pods -> deletecollection |pods||a|",
            "DELETE /api/v1/namespaces/a/pods/b -> delete |pods||a|b",
            "PATCH /apis/apps/v1/namespaces/a/deployments/b/scale -> patch apps|deployments|scale|a|b",
            "POST /api/v1/namespaces/a/serviceaccounts/b/token -> create |serviceaccounts|token|a|b",
            "GET /api/v1/pods?fieldSelector=metadata.name%3Dx -> list |pods|||x",
            "GET /apis/rbac/v1/clusterroles/system%3Anode -> get rbac|clusterroles|||system:node",
        ] {
            let (request, expected) = line.split_once(" -> ").expect(line);
            let (method, uri) = request.split_once(' ').expect(line);
            let (method, uri): (Method, http::Uri) = (method.parse().expect(line), uri.parse().expect(line));
            let it = Attributes::of(&method, uri.path(), &Query::parse(&uri));
            let resource = [it.group, it.resource, it.subresource, it.namespace, it.name].join("|");
            let shown = format!("{} {}", it.verb, it.path.unwrap_or(resource));
            assert_eq!(shown, expected, "{line}");
        }
    }
}
