//! Rights of each service account, decided by the API server.

use coxswain_tests::roles::NAMESPACE;
use coxswain_tests::{Cluster, roles, time};
use serde_json::json;

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
    roles::is_allowed(c, &user, &attributes).await
}
