//! Access to the endpoints with tokens of service accounts that expire or are revoked.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use steersman_harness::{Api, Program, Reply, cluster, fixtures, time};

use crate::PROGRAM;

/// The shortest lifetime of a token.
const LIFETIME: Duration = Duration::from_mins(10);
/// The API server accepts a token for this long after it has expired: clocks differ.
const LEEWAY: Duration = Duration::from_mins(1);
const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the reply to a request with a token, once the API server has reviewed it: a review has a short deadline.
async fn metrics(program: &Program, token: &str) -> Reply {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    let anonymous = program.anonymous();
    let reply = time::eventually(time::ANSWER, async || {
        let reply = anonymous.request(Method::GET, "/metrics", &headers, ()).await;
        (reply.status != 503).then_some(reply)
    });
    reply.await.expect("a reviewed token")
}

async fn token(api: &Api, account: &str, spec: Value) -> String {
    let path = format!("{}/{account}/token", fixtures::core("default", "serviceaccounts"));
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let issued = api.post(&path, request).await.expect(201);
    issued["status"]["token"].as_str().expect("a token").to_owned()
}

/// Allows all service accounts of a namespace to read `/metrics`.
async fn allow_metrics(api: &Api, namespace: &str) {
    let version = format!("{RBAC}/v1");
    let role = fixtures::with(
        fixtures::named(&version, "ClusterRole", "scraper"),
        json!({"rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}),
    );
    let group = format!("system:serviceaccounts:{namespace}");
    let binding = fixtures::with(
        fixtures::named(&version, "ClusterRoleBinding", "scraper"),
        json!({
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "scraper"},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
        }),
    );
    for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/{version}/{resource}");
        api.post(&path, object).await.expect(201);
    }
}

#[tokio::test]
async fn expired_and_revoked_tokens_are_refused() {
    let running = cluster::start_sandbox().await.expect("a sandbox");
    let api = running.cluster.api();
    allow_metrics(api, "default").await;
    let accounts = fixtures::core("default", "serviceaccounts");
    let secrets = fixtures::core("default", "secrets");
    for account in ["kept", "deleted"] {
        let account = fixtures::named("v1", "ServiceAccount", account);
        api.post(&accounts, account).await.expect(201);
    }
    let secret = fixtures::named("v1", "Secret", "bound");
    api.post(&secrets, secret).await.expect(201);
    let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "bound"}});
    let valid = token(api, "kept", json!({})).await;
    let expiring = token(api, "kept", json!({"expirationSeconds": LIFETIME.as_secs()})).await;
    let of_secret = token(api, "kept", bound).await;
    let of_account = token(api, "deleted", json!({})).await;

    let kubeconfig = format!("--kubeconfig={}", running.cluster.kubeconfig().display());
    let flags = [
        kubeconfig.as_str(),
        "--controllers=hollow-kubelet",
        "--authentication-token-webhook-cache-ttl=0s",
    ];
    let program = Program::start(PROGRAM, &flags).await;
    for token in [&valid, &expiring, &of_secret, &of_account] {
        let reply = metrics(&program, token).await;
        reply.check(reply.status == 200, "expected status 200");
    }

    for (path, token) in [
        (format!("{secrets}/bound"), &of_secret),
        (format!("{accounts}/deleted"), &of_account),
    ] {
        api.delete(&path, ()).await.expect(200);
        metrics(&program, token).await.expect_error(401, "Unauthorized");
    }

    // The sandbox runs in this process: its clock advances, that of the program does not.
    tokio::time::pause();
    tokio::time::advance(LIFETIME + LEEWAY + Duration::from_secs(1)).await;
    tokio::time::resume();
    metrics(&program, &expiring)
        .await
        .expect_error(401, "Unauthorized");
    let reply = metrics(&program, &valid).await;
    reply.check(reply.status == 200, "expected status 200");
}
