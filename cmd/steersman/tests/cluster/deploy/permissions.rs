//! Permissions of each service account, decided by the API server.

use serde_json::json;
use steersman_harness::roles::NAMESPACE;
use steersman_harness::{Cluster, roles, time};

use super::{deploy, own_cluster};

/// Each account with permissions that it has, and permissions that it does not have: verb, resource with subresource and API group,
/// and name.
const PERMISSIONS: [(&str, &[&str], &[&str]); 8] = [
    (
        "steersman",
        &[
            "list pods",
            "create serviceaccounts/token deployment-controller",
            "update leases.coordination.k8s.io steersman",
        ],
        &[
            "create pods",
            "delete pods",
            "get secrets",
            "patch deployments.apps",
            "create serviceaccounts",
            "create serviceaccounts/token steersman",
            "create serviceaccounts/token default",
            "update leases.coordination.k8s.io other",
        ],
    ),
    (
        "appservice-controller",
        &["create deployments.apps"],
        &["watch deployments.apps", "delete pods"],
    ),
    (
        "appreplicaset-controller",
        &["create pods"],
        &["patch replicasets/status.apps"],
    ),
    (
        "deployment-controller",
        &["create replicasets.apps"],
        &["create pods"],
    ),
    (
        "replicaset-controller",
        &["delete pods"],
        &["patch deployments.apps"],
    ),
    (
        "replication-controller",
        &["patch replicationcontrollers/status"],
        &["delete replicationcontrollers"],
    ),
    ("generic-garbage-collector", &["delete secrets"], &["create pods"]),
    ("default", &[], &["list pods"]),
];

pub async fn each_account_has_only_the_permissions_of_its_controller(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    deploy(&own, "base", &[]).await;
    for (account, allowed, denied) in PERMISSIONS {
        let allowed = allowed.iter().map(|it| (it, true));
        for (permission, expected) in allowed.chain(denied.iter().map(|it| (it, false))) {
            // A server may take a moment to load the roles.
            let decided = time::eventually(time::ANSWER, async || {
                (is_allowed(c, account, permission).await == expected).then_some(())
            });
            let decided = decided.await;
            assert!(decided.is_some(), "{account}: {permission} is not {expected}");
        }
    }
}

/// Returns the decision of the API server on a permission of a service account.
async fn is_allowed(c: &Cluster, account: &str, permission: &str) -> bool {
    let (verb, resource) = permission.split_once(' ').expect("a verb");
    let (resource, name) = resource.split_once(' ').unwrap_or((resource, ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({
        "namespace": NAMESPACE, "verb": verb, "group": group, "resource": resource,
        "subresource": subresource, "name": name,
    });
    let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
    roles::is_allowed(c, &user, &attributes).await
}
