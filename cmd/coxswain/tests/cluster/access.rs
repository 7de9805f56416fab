//! Access to the endpoints: the API server authenticates tokens and authorizes paths.

use coxswain_tests::{Cluster, Program, Reply, Test, fixtures, test, time};
use serde_json::json;

use crate::pair;

/// Short, so that changes of rights are seen soon.
const FLAGS: [&str; 4] = [
    "--controllers=appservice-controller",
    "--authentication-token-webhook-cache-ttl=100ms",
    "--authorization-webhook-cache-authorized-ttl=100ms",
    "--authorization-webhook-cache-unauthorized-ttl=100ms",
];
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub fn tests() -> Vec<Test> {
    vec![test!(api_server_authenticates_and_authorizes_clients)]
}

async fn get(program: &Program, token: &str, path: &str) -> Reply {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    let headers = if token.is_empty() { &[][..] } else { &headers };
    let anonymous = program.anonymous();
    anonymous.request(http::Method::GET, path, headers, ()).await
}

async fn becomes(program: &Program, token: &str, code: u16) {
    let changed = time::eventually(time::ANSWER, async || {
        (get(program, token, "/metrics").await.status == code).then_some(())
    });
    assert!(
        changed.await.is_some(),
        "{}",
        get(program, token, "/metrics").await
    );
}

async fn api_server_authenticates_and_authorizes_clients(c: Cluster) {
    let ns = c.namespace().await;
    let program = pair::start(&c, &ns, &FLAGS).await;
    let accounts = fixtures::core(&ns, "serviceaccounts");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scraper"}});
    c.api().post(&accounts, account).await.expect(201);
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let issued = c.api().post(&format!("{accounts}/scraper/token"), request).await;
    let issued = issued.expect(201);
    let token = issued["status"]["token"].as_str().expect("a token");

    for path in ["/livez", "/readyz", "/healthz"] {
        assert_ne!(get(&program, "wrong", path).await.status, 401, "{path}");
    }
    let anonymous = get(&program, "", "/metrics").await;
    anonymous.expect_error(403, "Forbidden");
    assert_eq!(
        anonymous.message(),
        "forbidden: User \"system:anonymous\" cannot get path \"/metrics\""
    );
    get(&program, "wrong", "/metrics")
        .await
        .expect_error(401, "Unauthorized");
    let unauthorized = get(&program, token, "/metrics").await;
    unauthorized.expect_error(403, "Forbidden");
    assert_eq!(
        unauthorized.message(),
        format!("forbidden: User \"system:serviceaccount:{ns}:scraper\" cannot get path \"/metrics\"")
    );

    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": ns},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    c.api()
        .post(&format!("{RBAC}/clusterroles"), role)
        .await
        .expect(201);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ns},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ns},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": ns}],
    });
    let bindings = format!("{RBAC}/clusterrolebindings");
    c.api().post(&bindings, binding).await.expect(201);
    becomes(&program, token, 200).await;
    get(&program, token, "/configz")
        .await
        .expect_error(403, "Forbidden");

    c.api()
        .delete(&format!("{accounts}/scraper"), json!({}))
        .await
        .expect(200);
    becomes(&program, token, 401).await;
    for (path, name) in [("clusterroles", &ns), ("clusterrolebindings", &ns)] {
        c.api()
            .delete(&format!("{RBAC}/{path}/{name}"), json!({}))
            .await
            .expect(200);
    }
}
