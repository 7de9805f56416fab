//! Acting as somebody else.

use coxswain_tests::{Cluster, Reply, Test, test};
use http::Method;
use serde_json::{Value, json};

use super::{AUTHENTICATION, account, binding, cluster_wide, role, rule, token, user};
use crate::expect::speaks_1_36;
use crate::support::{create, soon};

pub fn tests() -> Vec<Test> {
    vec![
        test!(all_parts_are_taken_on).since(1, 28),
        test!(groups_follow_from_a_service_account).since(1, 28),
        test!(anonymous_is_not_authenticated).since(1, 28),
        test!(parts_without_a_user_are_refused),
        test!(who_may_not_is_told_what_is_missing),
        test!(each_part_needs_its_right),
        test!(the_right_of_the_other_counts),
        test!(constrained_impersonation_is_limited_to_a_verb).since(1, 36),
    ]
}

async fn whoami(c: &Cluster, headers: &[(&str, &str)]) -> Value {
    let path = format!("{AUTHENTICATION}/selfsubjectreviews");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let reply = c.api().request(Method::POST, &path, headers, review).await;
    reply.expect(201)["status"]["userInfo"].clone()
}

async fn all_parts_are_taken_on(c: Cluster) {
    let who = whoami(
        &c,
        &[
            ("impersonate-user", "bob"),
            ("impersonate-uid", "7"),
            ("impersonate-group", "one"),
            ("impersonate-group", "two"),
            ("impersonate-extra-scopes", "view"),
            ("impersonate-extra-example.com%2fthing", "x"),
        ],
    )
    .await;
    let expected = json!({
        "username": "bob",
        "uid": "7",
        "groups": ["one", "two", "system:authenticated"],
        "extra": {"scopes": ["view"], "example.com/thing": ["x"]},
    });
    assert_eq!(who, expected);
}

async fn groups_follow_from_a_service_account(c: Cluster) {
    let who = whoami(&c, &[("impersonate-user", "system:serviceaccount:a:b")]).await;
    let groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:a",
        "system:authenticated",
    ];
    assert_eq!(who["groups"], json!(groups));
    let headers = [
        ("impersonate-user", "system:serviceaccount:a:b"),
        ("impersonate-group", "g"),
    ];
    assert_eq!(
        whoami(&c, &headers).await["groups"],
        json!(["g", "system:authenticated"])
    );
}

async fn anonymous_is_not_authenticated(c: Cluster) {
    let headers = [("impersonate-user", "system:anonymous")];
    let path = format!("{AUTHENTICATION}/selfsubjectreviews");
    let reply = c.api().request(Method::POST, &path, &headers, json!({})).await;
    reply.expect_error(403, "Forbidden");
    let reply = c.api().request(Method::GET, "/version", &headers, ()).await;
    assert_eq!(reply.status, 200);
}

async fn parts_without_a_user_are_refused(c: Cluster) {
    for header in ["impersonate-group", "impersonate-extra-scopes"] {
        let reply = c
            .api()
            .request(Method::GET, "/version", &[(header, "x")], ())
            .await;
        reply.check(reply.status >= 400, "expected a refusal");
        let found = reply.text().contains("without impersonating a user");
        reply.check(found, "expected to be told what is missing");
    }
    if speaks_1_36(&c) {
        let headers = [("impersonate-group", "bob")];
        let reply = c.api().request(Method::GET, "/version", &headers, ()).await;
        reply.expect_error(400, "BadRequest");
        let message = "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"bob\"}, \
                       Extra:map[string][]string(nil)} without impersonating a user name";
        assert_eq!(reply.message(), message);
    }
}

/// A request with a token, on behalf of somebody.
async fn get(c: &Cluster, token: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    let bearer = format!("Bearer {token}");
    let mut all = vec![("authorization", bearer.as_str())];
    all.extend(headers);
    c.anonymous().request(Method::GET, path, &all, ()).await
}

async fn who_may_not_is_told_what_is_missing(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let token = token(&c, &ns, "bot", json!({})).await;
    let bot = format!("system:serviceaccount:{ns}:bot");
    let reply = get(&c, &token, "/api/v1/nodes", &[("impersonate-user", "bob")]).await;
    let message = if speaks_1_36(&c) {
        format!(
            "nodes is forbidden: User {bot:?} cannot impersonate-on:user-info:list resource \"nodes\" in API group \"\" at \
             the cluster scope"
        )
    } else {
        format!(
            "users \"bob\" is forbidden: User {bot:?} cannot impersonate resource \"users\" in API group \"\" at the cluster \
             scope"
        )
    };
    super::forbidden(&reply, &message);
    // A node with groups is impersonated in the old way only.
    let headers = [("impersonate-user", "system:node:n"), ("impersonate-group", "g")];
    let reply = get(&c, &token, "/api/v1/nodes", &headers).await;
    let message = format!(
        "users \"system:node:n\" is forbidden: User {bot:?} cannot impersonate resource \"users\" in API group \"\" at the \
         cluster scope"
    );
    super::forbidden(&reply, &message);
}

/// A service account with these rules in the whole cluster, and its token.
async fn with_rules(c: &Cluster, ns: &str, rules: Value) -> String {
    account(c, ns, "bot").await;
    let name = user(ns, "bot");
    create(
        c,
        &cluster_wide("clusterroles"),
        &role("ClusterRole", &name, rules),
    )
    .await;
    let mut bound = binding("ClusterRoleBinding", &name, ("ClusterRole", &name), "");
    bound["subjects"] = json!([{"kind": "ServiceAccount", "name": "bot", "namespace": ns}]);
    create(c, &cluster_wide("clusterrolebindings"), &bound).await;
    token(c, ns, "bot", json!({})).await
}

fn named(verb: &str, group: &str, resource: &str, name: &str) -> Value {
    let mut rule = rule(&[verb], group, &[resource]);
    rule["resourceNames"] = json!([name]);
    rule
}

async fn each_part_needs_its_right(c: Cluster) {
    let ns = c.namespace().await;
    let rules = json!([
        named("impersonate", "", "users", "bob"),
        named("impersonate", "", "groups", "g"),
        named("impersonate", "authentication.k8s.io", "userextras/scopes", "s"),
        named("impersonate", "", "serviceaccounts", "robot"),
    ]);
    let token = with_rules(&c, &ns, rules).await;
    let ask = async |headers: &[(&str, &str)]| get(&c, &token, "/version", headers).await.status;
    soon("the grant is known", async || {
        (ask(&[("impersonate-user", "bob")]).await == 200).then_some(())
    })
    .await;
    let bob = ("impersonate-user", "bob");
    for (part, status) in [
        (("impersonate-group", "g"), 200),
        (("impersonate-group", "system:masters"), 403),
        (("impersonate-extra-scopes", "s"), 200),
        (("impersonate-extra-scopes", "t"), 403),
        (("impersonate-extra-other", "s"), 403),
    ] {
        assert_eq!(ask(&[bob, part]).await, status, "{part:?}");
    }
    for (name, status) in [
        ("alice", 403),
        ("system:serviceaccount:any:robot", 200),
        ("system:serviceaccount:any:other", 403),
    ] {
        assert_eq!(ask(&[("impersonate-user", name)]).await, status, "{name}");
    }
}

async fn the_right_of_the_other_counts(c: Cluster) {
    let ns = c.namespace().await;
    let rules = json!([
        rule(&["impersonate"], "", &["users"]),
        rule(&["list"], "", &["nodes"])
    ]);
    let token = with_rules(&c, &ns, rules).await;
    soon("the grant is known", async || {
        (get(&c, &token, "/api/v1/nodes", &[]).await.status == 200).then_some(())
    })
    .await;
    let reply = get(&c, &token, "/api/v1/nodes", &[("impersonate-user", "bob")]).await;
    let message = "nodes is forbidden: User \"bob\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
    super::forbidden(&reply, message);
}

async fn constrained_impersonation_is_limited_to_a_verb(c: Cluster) {
    let ns = c.namespace().await;
    let rules = json!([
        named("impersonate:user-info", "authentication.k8s.io", "users", "bob"),
        rule(&["impersonate-on:user-info:list"], "", &["nodes"]),
    ]);
    let token = with_rules(&c, &ns, rules).await;
    let bob = [("impersonate-user", "bob")];
    soon("bob is asked, not the account", async || {
        let reply = get(&c, &token, "/api/v1/nodes", &bob).await;
        reply.message().contains("User \"bob\" cannot list").then_some(())
    })
    .await;
    let reply = get(&c, &token, "/api/v1/nodes/n", &bob).await;
    let who = format!("User \"system:serviceaccount:{ns}:bot\" cannot impersonate");
    reply.check(
        reply.message().contains(&who),
        "expected the account to be refused",
    );
}
