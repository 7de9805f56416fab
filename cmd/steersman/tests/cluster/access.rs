//! Access to the endpoints: the API server authenticates tokens and authorizes paths.

use std::fs;

use serde_json::{Value, json};
use steersman_harness::{Cluster, Need, Program, Reply, Test, certs, fixtures, test, time};

use crate::{PROGRAM, pair};

/// Short, so that changes of permissions are seen soon.
const FLAGS: [&str; 4] = [
    "--controllers=appservice-controller",
    "--authentication-token-webhook-cache-ttl=100ms",
    "--authorization-webhook-cache-authorized-ttl=100ms",
    "--authorization-webhook-cache-unauthorized-ttl=100ms",
];
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub fn tests() -> Vec<Test> {
    vec![
        test!(api_server_authenticates_and_authorizes_clients),
        test!(expired_token_is_refused).needs(Need::Real),
        test!(reviews_are_sent_with_the_credentials_of_their_kubeconfigs),
    ]
}

/// Sends one request. The reply is 503 if the API server does not review it within a short deadline.
async fn get_once(program: &Program, token: &str, path: &str) -> Reply {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    let headers = if token.is_empty() { &[][..] } else { &headers };
    let anonymous = program.anonymous();
    anonymous.request(http::Method::GET, path, headers, ()).await
}

/// Returns the reply to a request that the API server has reviewed.
async fn get(program: &Program, token: &str, path: &str) -> Reply {
    let reply = time::eventually(time::ANSWER, async || {
        let reply = get_once(program, token, path).await;
        (reply.status != 503).then_some(reply)
    });
    reply.await.expect("a review")
}

async fn becomes(program: &Program, token: &str, code: u16) {
    let changed = time::eventually(time::ANSWER, async || {
        (get_once(program, token, "/metrics").await.status == code).then_some(())
    });
    assert!(
        changed.await.is_some(),
        "{}",
        get_once(program, token, "/metrics").await
    );
}

/// Creates a service account, and returns a token of it.
async fn account(c: &Cluster, ns: &str, name: &str) -> String {
    let accounts = fixtures::core(ns, "serviceaccounts");
    let account = fixtures::named("v1", "ServiceAccount", name);
    c.api().post(&accounts, account).await.expect(201);
    c.token(ns, name).await
}

/// Grants a service account a permission in the whole cluster.
async fn allow(c: &Cluster, ns: &str, account: &str, granted: &Value) {
    let name = format!("{ns}-{account}");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [granted],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": ns}],
    });
    for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("{RBAC}/{resource}");
        c.api().post(&path, object).await.expect(201);
    }
}

/// Deletes the objects of [`allow`].
async fn disallow(c: &Cluster, ns: &str, account: &str) {
    for resource in ["clusterroles", "clusterrolebindings"] {
        let path = format!("{RBAC}/{resource}/{ns}-{account}");
        c.api().delete(&path, json!({})).await.expect(200);
    }
}

async fn api_server_authenticates_and_authorizes_clients(c: Cluster) {
    let ns = c.namespace().await;
    let program = pair::start(&c, &ns, &FLAGS).await;
    let accounts = fixtures::core(&ns, "serviceaccounts");
    let token = &*account(&c, &ns, "scraper").await;

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

    let rule = json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]});
    allow(&c, &ns, "scraper", &rule).await;
    becomes(&program, token, 200).await;
    get(&program, token, "/configz")
        .await
        .expect_error(403, "Forbidden");

    c.api()
        .delete(&format!("{accounts}/scraper"), json!({}))
        .await
        .expect(200);
    becomes(&program, token, 401).await;
    disallow(&c, &ns, "scraper").await;
}

/// The sandbox does not reveal its key; its clock can be advanced, see the suite of the process.
async fn expired_token_is_refused(c: Cluster) {
    let ns = c.namespace().await;
    let program = pair::start(&c, &ns, &FLAGS).await;
    let token = account(&c, &ns, "scraper").await;
    let key = c.kubeconfig().with_file_name("service-account.key");
    let key = fs::read_to_string(key).expect("the key that signs tokens");
    let issued = certs::with_claims(&token, &key, |_| {});
    assert_ne!(issued, token);
    get(&program, &issued, "/metrics")
        .await
        .expect_error(403, "Forbidden");
    let expired = certs::with_claims(&token, &key, |claims| {
        let issued = claims["iat"].as_i64().expect("seconds");
        for (claim, age) in [("iat", 7200), ("nbf", 7200), ("exp", 3600)] {
            claims[claim] = json!(issued - age);
        }
    });
    get(&program, &expired, "/metrics")
        .await
        .expect_error(401, "Unauthorized");
}

/// The manager has no permissions; each kubeconfig of reviews has the permission for one kind of review.
async fn reviews_are_sent_with_the_credentials_of_their_kubeconfigs(c: Cluster) {
    let ns = c.namespace().await;
    let files = tempfile::tempdir().expect("a directory");
    let mut flags = vec!["--controllers=hollow-kubelet".to_owned()];
    for (account, flag) in [
        ("manager", "kubeconfig"),
        ("authenticator", "authentication-kubeconfig"),
        ("authorizer", "authorization-kubeconfig"),
    ] {
        let token = self::account(&c, &ns, account).await;
        let text = fs::read(c.kubeconfig()).expect("the kubeconfig of the administrator");
        let mut kubeconfig: Value = serde_json::from_slice(&text).expect("it is written as JSON");
        kubeconfig["users"][0]["user"] = json!({"token": token});
        let file = files.path().join(account);
        fs::write(&file, kubeconfig.to_string()).expect("a file");
        flags.push(format!("--{flag}={}", file.display()));
    }
    for (account, group, resource) in [
        ("authenticator", "authentication.k8s.io", "tokenreviews"),
        ("authorizer", "authorization.k8s.io", "subjectaccessreviews"),
    ] {
        let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]});
        allow(&c, &ns, account, &rule).await;
    }
    let token = account(&c, &ns, "scraper").await;
    let rule = json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]});
    allow(&c, &ns, "scraper", &rule).await;

    let flags = flags.iter().map(String::as_str).chain(FLAGS[1..].iter().copied());
    let flags: Vec<&str> = flags.collect();
    let program = Program::start(PROGRAM, &flags).await;
    becomes(&program, &token, 200).await;
    get(&program, "wrong", "/metrics")
        .await
        .expect_error(401, "Unauthorized");
    get(&program, &token, "/configz")
        .await
        .expect_error(403, "Forbidden");
    for account in ["authenticator", "authorizer", "scraper"] {
        disallow(&c, &ns, account).await;
    }
}
