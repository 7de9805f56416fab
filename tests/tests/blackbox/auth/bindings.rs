//! Bindings: to whom a role is given, and where; and the bindings and roles that every cluster has.

use coxswain_tests::{Cluster, Need, Test, test};
use http::Method;
use serde_json::json;

use super::{
    RBAC, account, allowed_soon, binding, cluster_wide, get_as, get_with, grant, may, role, rule, token, user,
};
use crate::support::{core, create, of, soon};

pub fn tests() -> Vec<Test> {
    vec![
        test!(cluster_role_in_a_namespace),
        test!(cluster_binding_is_for_all_namespaces),
        test!(binding_to_nothing_grants_nothing_and_says_so),
        test!(service_account_without_a_namespace_is_of_the_bindings),
        test!(groups_are_bound_too),
        test!(deleted_binding_takes_the_right_back),
        test!(view_edit_and_admin).needs(Need::Kcm),
        test!(default_roles_are_there),
    ]
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
