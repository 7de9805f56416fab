//! Nobody grants what they do not have.

use coxswain_tests::{Cluster, Test, test};
use http::Method;
use serde_json::{Value, json};

use super::{RBAC, binding, cluster_wide, forbidden, grant, post_as, role, rule, send_as, user};
use crate::expect::{not_found, speaks_1_36, unchanged};
use crate::support::{MERGE, create, of};

pub fn tests() -> Vec<Test> {
    vec![
        test!(role_with_more_than_one_has_is_refused),
        test!(role_with_what_one_has_is_made),
        test!(update_and_patch_are_checked_too),
        test!(update_of_metadata_for_the_collector_is_not),
        test!(escalate_lifts_the_check),
        test!(binding_to_more_than_one_has_is_refused),
        test!(bind_lifts_the_check),
        test!(binding_to_a_missing_role_is_refused),
        test!(aggregation_needs_everything),
    ]
}

const GROUP: &str = "rbac.authorization.k8s.io";

/// A user who may write roles and bindings, and read pods.
async fn writer(c: &Cluster, ns: &str, more: Value) -> String {
    let bob = user(ns, "bob");
    let mut rules = vec![
        rule(&["get"], "", &["pods"]),
        rule(
            &["create", "update", "patch", "get"],
            GROUP,
            &["roles", "rolebindings"],
        ),
    ];
    rules.extend(more.as_array().cloned().unwrap_or_default());
    grant(c, ns, &bob, rules.into()).await;
    bob
}

fn not_held(resource: &str, name: &str, who: &str, missing: &[&str]) -> String {
    format!(
        "{resource}.{GROUP} {name:?} is forbidden: user {who:?} (groups=[\"system:authenticated\"]) is attempting to grant \
         RBAC permissions not currently held:\n{}",
        missing.join("\n")
    )
}

async fn role_with_more_than_one_has_is_refused(c: Cluster) {
    let ns = c.namespace().await;
    let bob = writer(&c, &ns, json!([])).await;
    let path = of(RBAC, &ns, "roles");
    let rules = json!([
        rule(&["get", "list"], "", &["pods", "secrets"]),
        {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n"]},
    ]);
    let reply = post_as(&c, &bob, &path, role("Role", "more", rules)).await;
    let missing = [
        "{APIGroups:[\"\"], Resources:[\"nodes\"], ResourceNames:[\"n\"], Verbs:[\"get\"]}",
        "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}",
        "{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}",
    ];
    forbidden(&reply, &not_held("roles", "more", &bob, &missing));
    assert_eq!(c.api().get(&format!("{path}/more")).await.status, 404);
}

async fn role_with_what_one_has_is_made(c: Cluster) {
    let ns = c.namespace().await;
    let bob = writer(&c, &ns, json!([])).await;
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}]);
    let path = of(RBAC, &ns, "roles");
    post_as(&c, &bob, &path, role("Role", "same", rules))
        .await
        .expect(201);
}

async fn update_and_patch_are_checked_too(c: Cluster) {
    let ns = c.namespace().await;
    let bob = writer(&c, &ns, json!([])).await;
    let path = format!("{}/r", of(RBAC, &ns, "roles"));
    let before = create(&c, &of(RBAC, &ns, "roles"), &role("Role", "r", json!([]))).await;
    let more = json!([rule(&["get"], "", &["secrets"])]);
    let missing = ["{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"];
    let message = not_held("roles", "r", &bob, &missing);
    let put = send_as(&c, &bob, Method::PUT, &path, role("Role", "r", more.clone())).await;
    forbidden(&put, &message);
    let headers = [("impersonate-user", bob.as_str()), ("content-type", MERGE)];
    let merged = c
        .api()
        .request(Method::PATCH, &path, &headers, json!({"rules": more}))
        .await;
    forbidden(&merged, &message);
    unchanged(&c, &path, &before).await;
}

async fn update_of_metadata_for_the_collector_is_not(c: Cluster) {
    let ns = c.namespace().await;
    let bob = writer(&c, &ns, json!([])).await;
    let path = format!("{}/r", of(RBAC, &ns, "roles"));
    let rules = json!([rule(&["get"], "", &["secrets"])]);
    create(&c, &of(RBAC, &ns, "roles"), &role("Role", "r", rules)).await;
    let headers = [("impersonate-user", bob.as_str()), ("content-type", MERGE)];
    let send = async |patch: Value| c.api().request(Method::PATCH, &path, &headers, patch).await;
    send(json!({"metadata": {"finalizers": ["example.com/hold"]}}))
        .await
        .expect(200);
    let labels = send(json!({"metadata": {"labels": {"a": "b"}}})).await;
    labels.expect_error(403, "Forbidden");
}

async fn escalate_lifts_the_check(c: Cluster) {
    let ns = c.namespace().await;
    let bob = writer(&c, &ns, json!([rule(&["escalate"], GROUP, &["roles"])])).await;
    let rules = json!([rule(&["*"], "*", &["*"])]);
    let path = of(RBAC, &ns, "roles");
    post_as(&c, &bob, &path, role("Role", "all", rules))
        .await
        .expect(201);
}

async fn binding_to_more_than_one_has_is_refused(c: Cluster) {
    let ns = c.namespace().await;
    let bob = writer(&c, &ns, json!([])).await;
    let path = of(RBAC, &ns, "rolebindings");
    let bound = binding("RoleBinding", "b", ("ClusterRole", "cluster-admin"), &bob);
    let reply = post_as(&c, &bob, &path, bound).await;
    let missing = [
        "{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}",
        "{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}",
    ];
    forbidden(&reply, &not_held("rolebindings", "b", &bob, &missing));
    assert_eq!(c.api().get(&format!("{path}/b")).await.status, 404);
}

async fn bind_lifts_the_check(c: Cluster) {
    let ns = c.namespace().await;
    let may_bind = json!({"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["view"]});
    let bob = writer(&c, &ns, json!([may_bind])).await;
    let path = of(RBAC, &ns, "rolebindings");
    let bound = |role: &str| binding("RoleBinding", role, ("ClusterRole", role), "somebody");
    post_as(&c, &bob, &path, bound("view")).await.expect(201);
    let other = post_as(&c, &bob, &path, bound("cluster-admin")).await;
    other.expect_error(403, "Forbidden");
}

async fn binding_to_a_missing_role_is_refused(c: Cluster) {
    let ns = c.namespace().await;
    let bob = writer(&c, &ns, json!([])).await;
    let path = of(RBAC, &ns, "rolebindings");
    let bound = binding("RoleBinding", "b", ("Role", "missing"), &bob);
    let reply = post_as(&c, &bob, &path, bound).await;
    reply.expect_error(404, "NotFound");
    if speaks_1_36(&c) {
        // In the name of what was to be made, not of what is missing.
        not_found(&reply, "rolebindings.rbac.authorization.k8s.io", "missing");
    }
    assert_eq!(c.api().get(&format!("{path}/b")).await.status, 404);
}

async fn aggregation_needs_everything(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let rules = json!([rule(&["create"], GROUP, &["clusterroles"])]);
    create(
        &c,
        &cluster_wide("clusterroles"),
        &role("ClusterRole", &bob, rules),
    )
    .await;
    let bound = binding("ClusterRoleBinding", &bob, ("ClusterRole", &bob), &bob);
    create(&c, &cluster_wide("clusterrolebindings"), &bound).await;
    let asked = json!({"verb": "create", "group": GROUP, "resource": "clusterroles"});
    super::allowed_soon(&c, &bob, asked).await;
    let name = user(&ns, "sum");
    let mut sum = role("ClusterRole", &name, json!([]));
    sum["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let reply = post_as(&c, &bob, &cluster_wide("clusterroles"), sum).await;
    let message = format!(
        "clusterroles.{GROUP} {name:?} is forbidden: must have cluster-admin privileges to use the aggregationRule"
    );
    forbidden(&reply, &message);
}
