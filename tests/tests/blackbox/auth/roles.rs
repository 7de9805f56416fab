//! Roles: what their rules allow, and what they do not.

use coxswain_tests::{Cluster, Test, test};
use http::Method;
use serde_json::{Value, json};

use super::{
    RBAC, allowed_soon, binding, cluster_wide, forbidden, get_as, grant, may, post_as, role, rule, send_as,
    user,
};
use crate::expect::speaks_1_36;
use crate::support::{config_map, core, create, deployment, names, of, soon};

pub fn tests() -> Vec<Test> {
    vec![
        test!(role_allows_its_verbs_in_its_namespace),
        test!(every_verb_is_named_in_its_refusal),
        test!(names_narrow_a_rule),
        test!(a_selected_name_counts_as_a_name),
        test!(subresource_is_a_resource_of_its_own),
        test!(star_before_a_subresource),
        test!(urls_are_granted_by_cluster_roles),
        test!(put_that_creates_needs_to_create),
        test!(nobody_watches_what_they_may_not_see),
        test!(nothing_is_written_on_a_path_for_watches),
    ]
}

async fn role_allows_its_verbs_in_its_namespace(c: Cluster) {
    let (ns, other) = (c.namespace().await, c.namespace().await);
    let bob = user(&ns, "bob");
    grant(
        &c,
        &ns,
        &bob,
        json!([rule(&["get", "list"], "", &["configmaps"])]),
    )
    .await;
    get_as(&c, &bob, &core(&ns, "configmaps")).await.expect(200);
    for (path, place) in [
        (core(&other, "configmaps"), format!("in the namespace {other:?}")),
        ("/api/v1/configmaps".to_owned(), "at the cluster scope".to_owned()),
    ] {
        let message = format!(
            "configmaps is forbidden: User {bob:?} cannot list resource \"configmaps\" in API group \"\" {place}"
        );
        forbidden(&get_as(&c, &bob, &path).await, &message);
    }
    let reply = get_as(&c, &bob, &core(&ns, "secrets")).await;
    reply.expect_error(403, "Forbidden");
}

async fn every_verb_is_named_in_its_refusal(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let all = core(&ns, "configmaps");
    let one = format!("{all}/a");
    let cases = [
        (Method::GET, all.clone(), "list"),
        (Method::GET, format!("{all}?watch=1"), "watch"),
        (Method::POST, all.clone(), "create"),
        (Method::DELETE, all.clone(), "deletecollection"),
        (Method::GET, one.clone(), "get"),
        (Method::PUT, one.clone(), "update"),
        (Method::PATCH, one.clone(), "patch"),
        (Method::DELETE, one.clone(), "delete"),
    ];
    for (method, path, verb) in cases {
        let body = if matches!(method, Method::GET | Method::DELETE) {
            Value::Null
        } else {
            config_map("a")
        };
        let reply = send_as(&c, &bob, method, &path, body).await;
        let named = if path == one { " \"a\"" } else { "" };
        let message = format!(
            "configmaps{named} is forbidden: User {bob:?} cannot {verb} resource \"configmaps\" in API group \"\" in the \
             namespace {ns:?}"
        );
        forbidden(&reply, &message);
    }
    assert_eq!(c.api().get(&one).await.status, 404);
}

async fn names_narrow_a_rule(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let path = core(&ns, "configmaps");
    for name in ["a", "b"] {
        create(&c, &path, &config_map(name)).await;
    }
    let rule = json!({"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]});
    grant(&c, &ns, &bob, json!([rule])).await;
    get_as(&c, &bob, &format!("{path}/a")).await.expect(200);
    for path in [format!("{path}/b"), path.clone()] {
        get_as(&c, &bob, &path).await.expect_error(403, "Forbidden");
    }
    let all = send_as(&c, &bob, Method::DELETE, &path, Value::Null).await;
    all.expect_error(403, "Forbidden");
    send_as(&c, &bob, Method::DELETE, &format!("{path}/a"), Value::Null)
        .await
        .expect(200);
}

async fn a_selected_name_counts_as_a_name(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let rule =
        json!({"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]});
    grant(&c, &ns, &bob, json!([rule])).await;
    let path = core(&ns, "configmaps");
    get_as(&c, &bob, &format!("{path}?fieldSelector=metadata.name%3Da"))
        .await
        .expect(200);
    for query in [
        "",
        "?fieldSelector=metadata.name%3Db",
        "?fieldSelector=metadata.name!%3Da",
    ] {
        let reply = get_as(&c, &bob, &format!("{path}{query}")).await;
        reply.expect_error(403, "Forbidden");
    }
}

async fn subresource_is_a_resource_of_its_own(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let path = of("apps/v1", &ns, "deployments");
    create(&c, &path, &deployment("a")).await;
    grant(
        &c,
        &ns,
        &bob,
        json!([rule(&["get"], "apps", &["deployments/scale"])]),
    )
    .await;
    get_as(&c, &bob, &format!("{path}/a/scale")).await.expect(200);
    get_as(&c, &bob, &format!("{path}/a"))
        .await
        .expect_error(403, "Forbidden");
    let reply = get_as(&c, &bob, &format!("{path}/a/status")).await;
    let message = format!(
        "deployments.apps \"a\" is forbidden: User {bob:?} cannot get resource \"deployments/status\" in API group \"apps\" \
         in the namespace {ns:?}"
    );
    forbidden(&reply, &message);
}

async fn star_before_a_subresource(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    create(
        &c,
        &of(RBAC, &ns, "roles"),
        &role("Role", "any", json!([rule(&["get"], "*", &["*/scale"])])),
    )
    .await;
    create(
        &c,
        &of(RBAC, &ns, "rolebindings"),
        &binding("RoleBinding", "any", ("Role", "any"), &bob),
    )
    .await;
    let scale = json!({"namespace": ns, "verb": "get", "group": "apps", "resource": "replicasets", "subresource": "scale"});
    allowed_soon(&c, &bob, scale).await;
    let plain = json!({"namespace": ns, "verb": "get", "group": "apps", "resource": "replicasets"});
    assert_eq!(may(&c, &bob, &plain).await["status"]["allowed"], false);
}

async fn urls_are_granted_by_cluster_roles(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let rules = json!([{"verbs": ["get"], "nonResourceURLs": ["/one", "/many/*"]}]);
    create(
        &c,
        &cluster_wide("clusterroles"),
        &role("ClusterRole", &bob, rules),
    )
    .await;
    let bound = binding("ClusterRoleBinding", &bob, ("ClusterRole", &bob), &bob);
    create(&c, &cluster_wide("clusterrolebindings"), &bound).await;
    soon("the grant is known", async || {
        (get_as(&c, &bob, "/one").await.status == 404).then_some(())
    })
    .await;
    assert_eq!(get_as(&c, &bob, "/many/a/b").await.status, 404);
    for path in ["/one/more", "/many"] {
        let message = format!("forbidden: User {bob:?} cannot get path {path:?}");
        forbidden(&get_as(&c, &bob, path).await, &message);
    }
}

async fn put_that_creates_needs_to_create(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let group = "rbac.authorization.k8s.io";
    grant(&c, &ns, &bob, json!([rule(&["update"], group, &["roles"])])).await;
    let path = format!("{}/new", of(RBAC, &ns, "roles"));
    let reply = send_as(&c, &bob, Method::PUT, &path, role("Role", "new", json!([]))).await;
    let message = format!(
        "roles.rbac.authorization.k8s.io \"new\" is forbidden: User {bob:?} cannot create resource \"roles\" in API group \
         \"rbac.authorization.k8s.io\" in the namespace {ns:?}"
    );
    reply.expect_error(403, "Forbidden");
    if speaks_1_36(&c) {
        forbidden(&reply, &message);
    }
    assert_eq!(c.api().get(&path).await.status, 404);
}

async fn nobody_watches_what_they_may_not_see(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    grant(&c, &ns, &bob, json!([rule(&["list"], "", &["configmaps"])])).await;
    for path in [
        format!("{}?watch=true", core(&ns, "configmaps")),
        format!("/api/v1/watch/namespaces/{ns}/configmaps"),
    ] {
        let reply = get_as(&c, &bob, &path).await;
        let message = format!(
            "configmaps is forbidden: User {bob:?} cannot watch resource \"configmaps\" in API group \"\" in the namespace \
             {ns:?}"
        );
        forbidden(&reply, &message);
    }
    let reply = post_as(&c, &bob, &core(&ns, "configmaps"), config_map("a")).await;
    reply.expect_error(403, "Forbidden");
}

/// On such a path the right to watch is asked for, whatever the method.
async fn nothing_is_written_on_a_path_for_watches(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    grant(&c, &ns, &bob, json!([rule(&["watch"], "", &["configmaps"])])).await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    let path = format!("/api/v1/watch/namespaces/{ns}/configmaps");
    post_as(&c, &bob, &path, config_map("b"))
        .await
        .expect_error(405, "MethodNotAllowed");
    for path in [path.clone(), format!("{path}/a")] {
        let reply = send_as(&c, &bob, Method::DELETE, &path, Value::Null).await;
        reply.expect_error(405, "MethodNotAllowed");
    }
    let list = c.api().get(&core(&ns, "configmaps")).await.expect(200);
    assert_eq!(names(&list), ["a"]);
}
