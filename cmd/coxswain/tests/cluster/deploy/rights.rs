//! Rights of each service account, decided by the API server.

use coxswain_tests::{Cluster, time};
use serde_json::{Value, json};

use super::instances::NAMESPACE;
use super::{deploy, own_cluster};

/// A right that is asked for: account, verb, API group, resource with subresource, and name.
type Right = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// Rights that each account has, and rights of others that it has not.
const RIGHTS: [(Right, bool); 25] = [
    (("coxswain", "list", "", "pods", ""), true),
    (("coxswain", "create", "", "pods", ""), false),
    (("coxswain", "delete", "", "pods", ""), false),
    (("coxswain", "get", "", "secrets", ""), false),
    (("coxswain", "patch", "apps", "deployments", ""), false),
    (("coxswain", "create", "", "serviceaccounts", ""), false),
    (
        (
            "coxswain",
            "create",
            "",
            "serviceaccounts/token",
            "deployment-controller",
        ),
        true,
    ),
    (
        ("coxswain", "create", "", "serviceaccounts/token", "coxswain"),
        false,
    ),
    (
        ("coxswain", "create", "", "serviceaccounts/token", "default"),
        false,
    ),
    (
        ("coxswain", "update", "coordination.k8s.io", "leases", "coxswain"),
        true,
    ),
    (
        ("coxswain", "update", "coordination.k8s.io", "leases", "other"),
        false,
    ),
    (
        ("appservice-controller", "create", "apps", "deployments", ""),
        true,
    ),
    (
        ("appservice-controller", "watch", "apps", "deployments", ""),
        false,
    ),
    (("appservice-controller", "delete", "", "pods", ""), false),
    (("appreplicaset-controller", "create", "", "pods", ""), true),
    (
        (
            "appreplicaset-controller",
            "patch",
            "apps",
            "replicasets/status",
            "",
        ),
        false,
    ),
    (
        ("deployment-controller", "create", "apps", "replicasets", ""),
        true,
    ),
    (("deployment-controller", "create", "", "pods", ""), false),
    (("replicaset-controller", "delete", "", "pods", ""), true),
    (
        ("replicaset-controller", "patch", "apps", "deployments", ""),
        false,
    ),
    (
        (
            "replication-controller",
            "patch",
            "",
            "replicationcontrollers/status",
            "",
        ),
        true,
    ),
    (
        (
            "replication-controller",
            "delete",
            "",
            "replicationcontrollers",
            "",
        ),
        false,
    ),
    (("generic-garbage-collector", "delete", "", "secrets", ""), true),
    (("generic-garbage-collector", "create", "", "pods", ""), false),
    (("default", "list", "", "pods", ""), false),
];

pub async fn each_account_has_only_the_rights_of_its_controller(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    deploy(&own, "base", &[]).await;
    for (right, expected) in RIGHTS {
        // A server may take a moment to load the roles.
        let decided = time::eventually(time::ANSWER, async || {
            (is_allowed(c, right).await == expected).then_some(())
        });
        assert!(decided.await.is_some(), "{right:?} is not {expected}");
    }
}

/// Returns the decision of the API server on a right of a service account.
async fn is_allowed(c: &Cluster, (account, verb, group, resource, name): Right) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({
        "namespace": NAMESPACE, "verb": verb, "group": group, "resource": resource,
        "subresource": subresource, "name": name,
    });
    let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
    is_user_allowed(c, &user, &attributes).await
}

/// Returns the decision of the API server, by a `SubjectAccessReview`.
async fn is_user_allowed(c: &Cluster, user: &str, attributes: &Value) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    c.api().post(path, review).await.expect(201)["status"]["allowed"] == true
}

/// Waits until the API server has loaded all roles and bindings that exist. It loads each kind in the order of creation, so that
/// the right of a later role and binding is granted last.
pub async fn roles_are_loaded(c: &Cluster) {
    let api_group = "rbac.authorization.k8s.io";
    let version = format!("{api_group}/v1");
    for (prefix, root) in [
        ("Cluster", format!("/apis/{version}/cluster")),
        ("", format!("/apis/{version}/namespaces/{NAMESPACE}/")),
    ] {
        let kind = format!("{prefix}Role");
        let role = json!({
            "apiVersion": version, "kind": kind, "metadata": {"generateName": "loaded-"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
        });
        let role = c.api().post(&format!("{root}roles"), role).await.expect(201);
        let name = role["metadata"]["name"].as_str().expect("a name");
        let binding = json!({
            "apiVersion": version, "kind": format!("{prefix}RoleBinding"), "metadata": {"name": name},
            "roleRef": {"apiGroup": api_group, "kind": kind, "name": name},
            "subjects": [{"apiGroup": api_group, "kind": "User", "name": name}],
        });
        let bindings = format!("{root}rolebindings");
        c.api().post(&bindings, binding).await.expect(201);
        let loaded = time::eventually(time::ANSWER, async || {
            let attributes = json!({"namespace": NAMESPACE, "verb": "get", "resource": "configmaps"});
            is_user_allowed(c, name, &attributes).await.then_some(())
        });
        assert!(loaded.await.is_some(), "{kind} {name} is not loaded");
    }
}
