//! Authentication and authorization with kubectl, and an admission plugin that the real tier does not run.

mod kubectl;
mod owner_references;

use coxswain_tests::{Cluster, Reply, Test, roles::is_allowed};
use http::Method;
use serde_json::{Value, json};

use crate::support::{core, object, of, soon, with};

/// The tests of this folder.
pub fn tests() -> Vec<Test> {
    [kubectl::tests(), owner_references::tests()].concat()
}

pub const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A user name that no other test uses.
pub fn user(ns: &str, name: &str) -> String {
    format!("{name}-of-{ns}")
}

/// A request of the administrator on behalf of a user.
pub async fn send_as(c: &Cluster, user: &str, method: Method, path: &str, body: Value) -> Reply {
    let headers = [("impersonate-user", user)];
    if body.is_null() {
        return c.api().request(method, path, &headers, ()).await;
    }
    c.api().request(method, path, &headers, body).await
}

/// A request with a bearer token.
pub async fn get_with(c: &Cluster, token: &str, path: &str) -> Reply {
    let header = format!("Bearer {token}");
    c.anonymous()
        .request(Method::GET, path, &[("authorization", &header)], ())
        .await
}

pub fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources})
}

/// A role, or a cluster role.
pub fn role(kind: &str, name: &str, rules: Value) -> Value {
    with(object(RBAC, kind, name), "/rules", rules)
}

/// A binding of a user to a role or cluster role.
pub fn binding(kind: &str, name: &str, role: (&str, &str), user: &str) -> Value {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
    json!({"apiVersion": RBAC, "kind": kind, "metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
}

/// Grants rules to a user in a namespace, and waits until the server has loaded them.
pub async fn grant(c: &Cluster, ns: &str, user: &str, rules: Value) {
    let last = rules
        .as_array()
        .and_then(|rules| rules.last())
        .cloned()
        .unwrap_or_default();
    c.create(&of(RBAC, ns, "roles"), &role("Role", user, rules)).await;
    let bound = binding("RoleBinding", user, ("Role", user), user);
    c.create(&of(RBAC, ns, "rolebindings"), &bound).await;
    let resource = last["resources"][0].as_str().unwrap_or_default();
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({
        "namespace": ns,
        "verb": last["verbs"][0],
        "group": last["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "name": last["resourceNames"][0].as_str().unwrap_or_default(),
    });
    allowed_soon(c, user, attributes).await;
}

/// Waits until a request of a user is allowed.
pub async fn allowed_soon(c: &Cluster, user: &str, attributes: Value) {
    soon("the role is loaded", async || {
        is_allowed(c, user, &attributes).await.then_some(())
    })
    .await;
}

/// A new service account.
pub async fn account(c: &Cluster, ns: &str, name: &str) -> Value {
    c.create(
        &core(ns, "serviceaccounts"),
        &object("v1", "ServiceAccount", name),
    )
    .await
}

/// Asserts a 403 with this message.
#[track_caller]
pub fn forbidden(reply: &Reply, message: &str) {
    reply.expect_error(403, "Forbidden");
    reply.check(reply.message() == message, &format!("expected {message}"));
}
