//! `kubectl auth`, `kubectl create token` and `--as`.

use coxswain_tests::kubectl::Kubectl;
use coxswain_tests::{Cluster, Need, Test, test};
use serde_json::json;

use super::{account, grant, rule, user};

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(auth_can_i_reports_permission),
        test!(auth_can_i_list_shows_rules),
        test!(auth_whoami_shows_user).since(1, 28),
        test!(create_token_prints_usable_token),
        test!(create_role_and_binding_grants_permission),
        test!(forbidden_and_unauthorized_are_printed),
    ];
    tests.into_iter().map(|test| test.needs(Need::Kubectl)).collect()
}

async fn auth_can_i_reports_permission(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    grant(&c, &ns, &bob, json!([rule(&["get"], "", &["pods"])])).await;
    let k = Kubectl::new(&c, &ns);
    assert_eq!(k.run("auth can-i delete pods").ok().trim(), "yes");
    assert_eq!(
        k.run(&format!("auth can-i get pods --as {bob}")).ok().trim(),
        "yes"
    );
    let no = k.run(&format!("auth can-i delete pods --as {bob}"));
    assert_eq!(
        (no.success, no.out.lines().next()),
        (false, Some("no")),
        "{no:#?}"
    );
    assert_eq!(
        k.run(&format!("auth can-i get /healthz --as {bob}")).ok().trim(),
        "yes"
    );
}

async fn auth_can_i_list_shows_rules(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    grant(&c, &ns, &bob, json!([rule(&["get"], "", &["pods"])])).await;
    let k = Kubectl::new(&c, &ns);
    let printed = k.run(&format!("auth can-i --list --as {bob}")).ok();
    let line = printed.lines().find(|line| line.starts_with("pods "));
    assert!(line.is_some_and(|line| line.ends_with("[get]")), "{printed}");
}

async fn auth_whoami_shows_user(c: Cluster) {
    let k = Kubectl::new(&c, "default");
    let printed = k.run("auth whoami");
    if !printed.success && printed.err.contains("unknown command") {
        return; // An older kubectl.
    }
    let printed = printed.ok();
    assert!(
        printed.contains("admin") && printed.contains("system:masters"),
        "{printed}"
    );
}

async fn create_token_prints_usable_token(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let k = Kubectl::new(&c, &ns);
    let printed = k.run("create token bot --duration 20m --audience https://kubernetes.default.svc");
    if !printed.success && printed.err.contains("unknown flag") {
        return; // An older kubectl.
    }
    let token = printed.ok();
    let reply = super::get_with(&c, token.trim(), "/version").await;
    assert_eq!(reply.status, 200);
    let absent = k.run("create token absent").refused();
    assert!(
        absent.contains("serviceaccounts \"absent\" not found"),
        "{absent}"
    );
}

async fn create_role_and_binding_grants_permission(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let k = Kubectl::new(&c, &ns);
    let made = k
        .run("create role reader --verb=get,list --resource=pods,deployments.apps/scale")
        .ok();
    assert_eq!(made.trim(), "role.rbac.authorization.k8s.io/reader created");
    let made = k
        .run(&format!("create rolebinding reader --role=reader --user={bob}"))
        .ok();
    assert_eq!(
        made.trim(),
        "rolebinding.rbac.authorization.k8s.io/reader created"
    );
    let attributes = json!({"namespace": ns, "verb": "list", "resource": "pods"});
    super::allowed_soon(&c, &bob, attributes).await;
}

async fn forbidden_and_unauthorized_are_printed(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let k = Kubectl::new(&c, &ns);
    let printed = k.run(&format!("get pods --as {bob}")).refused();
    let expected = format!(
        "Error from server (Forbidden): pods is forbidden: User {bob:?} cannot list resource \"pods\" in API group \"\" in \
         the namespace {ns:?}"
    );
    assert_eq!(printed.trim(), expected);
    let printed = k.run("get pods --token garbage").refused();
    assert!(
        printed.contains("error: You must be logged in to the server"),
        "{printed}"
    );
}
