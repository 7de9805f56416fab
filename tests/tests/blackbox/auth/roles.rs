//! Roles and bindings: what they allow, to whom, and what they do not.

use coxswain_tests::{Cluster, Need, Test, test};
use http::Method;
use serde_json::{Value, json};

use super::{
    RBAC, account, allowed_soon, binding, cluster_wide, forbidden, get_as, get_with, grant, may, post_as,
    role, rule, send_as, token, user,
};
use crate::expect::speaks_1_36;
use crate::support::{config_map, core, create, deployment, of, soon};

pub fn tests() -> Vec<Test> {
    vec![
        test!(role_allows_its_verbs_in_its_namespace),
        test!(every_verb_is_named_in_its_refusal),
        test!(names_narrow_a_rule),
        test!(a_selected_name_counts_as_a_name),
        test!(subresource_is_a_resource_of_its_own),
        test!(star_before_a_subresource),
        test!(urls_are_granted_by_cluster_roles),
        test!(cluster_role_in_a_namespace),
        test!(cluster_binding_is_for_all_namespaces),
        test!(binding_to_nothing_grants_nothing_and_says_so),
        test!(service_account_without_a_namespace_is_of_the_bindings),
        test!(groups_are_bound_too),
        test!(deleted_binding_takes_the_right_back),
        test!(default_roles_are_there),
        test!(view_edit_and_admin).needs(Need::Kcm),
        test!(put_that_creates_needs_to_create),
        test!(nobody_watches_what_they_may_not_see),
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

async fn cluster_role_in_a_namespace(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let rules = json!([rule(&["list"], "", &["configmaps", "nodes"])]);
    create(
        &c,
        &cluster_wide("clusterroles"),
        &role("ClusterRole", &bob, rules),
    )
    .await;
    let bound = binding("RoleBinding", "b", ("ClusterRole", &bob), &bob);
    create(&c, &of(RBAC, &ns, "rolebindings"), &bound).await;
    allowed_soon(
        &c,
        &bob,
        json!({"namespace": ns, "verb": "list", "resource": "configmaps"}),
    )
    .await;
    get_as(&c, &bob, &core(&ns, "configmaps")).await.expect(200);
    for path in ["/api/v1/configmaps", "/api/v1/nodes"] {
        get_as(&c, &bob, path).await.expect_error(403, "Forbidden");
    }
}

async fn cluster_binding_is_for_all_namespaces(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let rules = json!([rule(&["list"], "", &["configmaps"])]);
    create(
        &c,
        &cluster_wide("clusterroles"),
        &role("ClusterRole", &bob, rules),
    )
    .await;
    let bound = binding("ClusterRoleBinding", &bob, ("ClusterRole", &bob), &bob);
    create(&c, &cluster_wide("clusterrolebindings"), &bound).await;
    let asked = json!({"namespace": ns, "verb": "list", "resource": "configmaps"});
    allowed_soon(&c, &bob, asked.clone()).await;
    for path in [core(&ns, "configmaps"), "/api/v1/configmaps".to_owned()] {
        get_as(&c, &bob, &path).await.expect(200);
    }
    let reason =
        format!("RBAC: allowed by ClusterRoleBinding {bob:?} of ClusterRole {bob:?} to User {bob:?}");
    assert_eq!(
        may(&c, &bob, &asked).await["status"],
        json!({"allowed": true, "reason": reason})
    );
}

async fn binding_to_nothing_grants_nothing_and_says_so(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let path = of(RBAC, &ns, "rolebindings");
    create(&c, &path, &binding("RoleBinding", "b", ("Role", "missing"), &bob)).await;
    let message = format!(
        "configmaps is forbidden: User {bob:?} cannot list resource \"configmaps\" in API group \"\" in the namespace {ns:?}: \
         RBAC: role.rbac.authorization.k8s.io \"missing\" not found"
    );
    soon("the refusal names the role", async || {
        let reply = get_as(&c, &bob, &core(&ns, "configmaps")).await;
        reply.expect_error(403, "Forbidden");
        (reply.message() == message).then_some(())
    })
    .await;
}

async fn service_account_without_a_namespace_is_of_the_bindings(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let token = token(&c, &ns, "bot", json!({})).await;
    let rules = json!([rule(&["list"], "", &["configmaps"])]);
    create(&c, &of(RBAC, &ns, "roles"), &role("Role", "r", rules)).await;
    let mut bound = binding("RoleBinding", "b", ("Role", "r"), "");
    bound["subjects"] = json!([{"kind": "ServiceAccount", "name": "bot"}]);
    create(&c, &of(RBAC, &ns, "rolebindings"), &bound).await;
    soon("the grant is known", async || {
        (get_with(&c, &token, &core(&ns, "configmaps")).await.status == 200).then_some(())
    })
    .await;
    let account = format!("system:serviceaccount:{ns}:bot");
    let review = may(
        &c,
        &account,
        &json!({"namespace": ns, "verb": "list", "resource": "configmaps"}),
    )
    .await;
    let reason =
        format!("RBAC: allowed by RoleBinding \"b/{ns}\" of Role \"r\" to ServiceAccount \"bot/{ns}\"");
    assert_eq!(review["status"]["reason"], reason);
}

async fn groups_are_bound_too(c: Cluster) {
    let ns = c.namespace().await;
    let crew = user(&ns, "crew");
    let rules = json!([rule(&["list"], "", &["configmaps"])]);
    create(&c, &of(RBAC, &ns, "roles"), &role("Role", "r", rules)).await;
    let mut bound = binding("RoleBinding", "b", ("Role", "r"), "");
    bound["subjects"] = json!([{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": crew}]);
    create(&c, &of(RBAC, &ns, "rolebindings"), &bound).await;
    let headers = [
        ("impersonate-user", "anybody"),
        ("impersonate-group", crew.as_str()),
    ];
    soon("the grant is known", async || {
        let path = core(&ns, "configmaps");
        (c.api().request(Method::GET, &path, &headers, ()).await.status == 200).then_some(())
    })
    .await;
    let reply = get_as(&c, "anybody", &core(&ns, "configmaps")).await;
    reply.expect_error(403, "Forbidden");
}

async fn deleted_binding_takes_the_right_back(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    grant(&c, &ns, &bob, json!([rule(&["list"], "", &["configmaps"])])).await;
    let path = format!("{}/{bob}", of(RBAC, &ns, "rolebindings"));
    c.api().delete(&path, ()).await.expect(200);
    soon("the right is gone", async || {
        (get_as(&c, &bob, &core(&ns, "configmaps")).await.status == 403).then_some(())
    })
    .await;
}

async fn default_roles_are_there(c: Cluster) {
    for name in [
        "cluster-admin",
        "admin",
        "edit",
        "view",
        "system:discovery",
        "system:basic-user",
        "system:public-info-viewer",
        "system:aggregate-to-view",
    ] {
        let role = c
            .api()
            .get(&format!("{}/{name}", cluster_wide("clusterroles")))
            .await
            .expect(200);
        let metadata = &role["metadata"];
        assert_eq!(
            metadata["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults",
            "{name}"
        );
        let auto = "rbac.authorization.kubernetes.io/autoupdate";
        assert_eq!(metadata["annotations"][auto], "true", "{name}");
    }
    for (name, group) in [
        ("cluster-admin", "system:masters"),
        ("system:discovery", "system:authenticated"),
        ("system:basic-user", "system:authenticated"),
        ("system:public-info-viewer", "system:authenticated"),
    ] {
        let path = format!("{}/{name}", cluster_wide("clusterrolebindings"));
        let binding = c.api().get(&path).await.expect(200);
        assert_eq!(binding["roleRef"]["name"], name);
        assert_eq!(binding["subjects"][0]["name"], group);
    }
}

async fn view_edit_and_admin(c: Cluster) {
    let ns = c.namespace().await;
    let expected = [
        ("view", [true, false, false, false]),
        ("edit", [true, true, true, false]),
        ("admin", [true, true, true, true]),
    ];
    for (role, allowed) in expected {
        let who = user(&ns, role);
        let bound = binding("RoleBinding", role, ("ClusterRole", role), &who);
        create(&c, &of(RBAC, &ns, "rolebindings"), &bound).await;
        let asked = [
            json!({"namespace": ns, "verb": "watch", "group": "apps", "resource": "deployments"}),
            json!({"namespace": ns, "verb": "create", "group": "apps", "resource": "deployments"}),
            json!({"namespace": ns, "verb": "get", "resource": "secrets"}),
            json!({"namespace": ns, "verb": "create", "group": "rbac.authorization.k8s.io", "resource": "roles"}),
        ];
        for (asked, allowed) in asked.iter().zip(allowed) {
            if allowed {
                allowed_soon(&c, &who, asked.clone()).await;
            } else {
                assert_eq!(
                    may(&c, &who, asked).await["status"]["allowed"],
                    false,
                    "{role}: {asked}"
                );
            }
        }
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
