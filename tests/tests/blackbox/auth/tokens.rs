//! Tokens of service accounts: what is asked for, what is given, and when it is good no longer.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::{account, get_with, request_token, review_token, token};
use crate::expect::{bad_request, invalid, not_found};
use crate::support::{bound_pod, core, create, object, pod, soon, with};

pub fn tests() -> Vec<Test> {
    vec![
        test!(request_is_answered_with_a_token),
        test!(audience_and_age_can_be_chosen),
        test!(age_has_bounds),
        test!(account_must_exist),
        test!(name_must_be_the_accounts),
        test!(uid_must_be_the_accounts).since(1, 34),
        test!(token_for_another_audience_is_unauthorized),
        test!(deleted_account_takes_its_tokens_along),
        test!(account_of_the_same_name_is_another),
        test!(deleted_secret_takes_its_tokens_along),
        test!(bound_object_must_exist),
        test!(bound_object_is_of_certain_kinds),
        test!(bound_pod_must_run_as_the_account),
        test!(bound_pod_is_named_to_servers).since(1, 32),
        test!(bound_uid_must_be_right),
    ]
}

const AUDIENCE: &str = "https://kubernetes.default.svc";

/// The seconds between two times, of which only the time of day is looked at.
fn seconds_until(start: &Value, end: &Value) -> i64 {
    let second = |time: &Value| {
        let time = time.as_str().unwrap_or_default().get(11..19).unwrap_or_default();
        let parts: Vec<i64> = time.split(':').filter_map(|part| part.parse().ok()).collect();
        parts.iter().fold(0, |all, part| all * 60 + part)
    };
    (second(end) - second(start)).rem_euclid(24 * 60 * 60)
}

async fn request_is_answered_with_a_token(c: Cluster) {
    let ns = c.namespace().await;
    let bot = account(&c, &ns, "bot").await;
    let answer = request_token(&c, &ns, "bot", json!({})).await.expect(201);
    assert_eq!(answer["kind"], "TokenRequest");
    assert_eq!(answer["apiVersion"], "authentication.k8s.io/v1");
    assert_eq!(answer["spec"]["audiences"], json!([AUDIENCE]));
    assert_eq!(answer["spec"]["expirationSeconds"], 3600);
    assert_eq!(answer["spec"].get("boundObjectRef"), Some(&Value::Null));
    let token = answer["status"]["token"].as_str().unwrap_or_default();
    assert_eq!(token.split('.').count(), 3, "it is no JWT");
    if c.version() >= (1, 27) {
        assert_eq!(answer["metadata"]["name"], "bot");
        assert_eq!(answer["metadata"]["namespace"], ns);
    }
    if c.version() >= (1, 34) {
        assert_eq!(answer["metadata"]["uid"], bot["metadata"]["uid"]);
    }
    let (made, end) = (
        &answer["metadata"]["creationTimestamp"],
        &answer["status"]["expirationTimestamp"],
    );
    if made.is_string() {
        assert_eq!(seconds_until(made, end), 3600, "{answer:#}");
    }
}

async fn audience_and_age_can_be_chosen(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let spec = json!({"audiences": ["a", "b"], "expirationSeconds": 600});
    let answer = request_token(&c, &ns, "bot", spec).await.expect(201);
    assert_eq!(answer["spec"]["audiences"], json!(["a", "b"]));
    assert_eq!(answer["spec"]["expirationSeconds"], 600);
}

async fn age_has_bounds(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    for (seconds, why) in [
        (599_i64, "may not specify a duration less than 10 minutes"),
        (-1, "may not specify a duration less than 10 minutes"),
        (
            (1 << 32) + 1,
            "may not specify a duration larger than 2^32 seconds",
        ),
    ] {
        let reply = request_token(&c, &ns, "bot", json!({"expirationSeconds": seconds})).await;
        invalid(&reply, &[&format!("Invalid spec.expirationSeconds: {why}")]);
    }
}

async fn account_must_exist(c: Cluster) {
    let ns = c.namespace().await;
    let reply = request_token(&c, &ns, "nobody", json!({})).await;
    not_found(&reply, "serviceaccounts", "nobody");
}

async fn name_must_be_the_accounts(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let path = format!("{}/bot/token", core(&ns, "serviceaccounts"));
    let request = with(super::token_request(json!({})), "/metadata/name", json!("other"));
    let reply = c.api().post(&path, request).await;
    if c.version() >= (1, 27) {
        let why = "Invalid metadata.name: must match the service account name if specified";
        invalid(&reply, &[why]);
    }
}

async fn uid_must_be_the_accounts(c: Cluster) {
    let ns = c.namespace().await;
    let bot = account(&c, &ns, "bot").await;
    let path = format!("{}/bot/token", core(&ns, "serviceaccounts"));
    let request = with(super::token_request(json!({})), "/metadata/uid", json!("other"));
    let reply = c.api().post(&path, request).await;
    reply.expect_error(409, "Conflict");
    let message = format!(
        "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"bot\": the UID in the token request (other) \
         does not match the UID of the service account ({})",
        bot["metadata"]["uid"].as_str().unwrap_or_default()
    );
    assert_eq!(reply.message(), message);
}

async fn token_for_another_audience_is_unauthorized(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let token = token(&c, &ns, "bot", json!({"audiences": ["a"]})).await;
    get_with(&c, &token, "/version")
        .await
        .expect_error(401, "Unauthorized");
    let status = review_token(&c, &token, json!(null)).await;
    let error = status["error"].as_str().unwrap_or_default();
    let why = format!("token audiences [\"a\"] is invalid for the target audiences [\"{AUDIENCE}\"]");
    assert!(error.contains(&why), "{status:#}");
    let status = review_token(&c, &token, json!(["b", "a"])).await;
    assert_eq!(status["authenticated"], true);
    assert_eq!(status["audiences"], json!(["a"]));
}

/// The real server remembers for some seconds that a token was good.
async fn unauthorized_soon(c: &Cluster, token: &str) {
    soon("the token is refused", async || {
        let reply = get_with(c, token, "/version").await;
        (reply.status == 401).then(|| reply.expect_error(401, "Unauthorized").clone())
    })
    .await;
    let status = review_token(c, token, json!(null)).await;
    assert_ne!(status["authenticated"], true, "{status:#}");
    assert_eq!(status["user"], json!({}));
}

async fn deleted_account_takes_its_tokens_along(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let token = token(&c, &ns, "bot", json!({})).await;
    assert_eq!(get_with(&c, &token, "/version").await.status, 200);
    let path = format!("{}/bot", core(&ns, "serviceaccounts"));
    c.api().delete(&path, ()).await.expect(200);
    unauthorized_soon(&c, &token).await;
}

async fn account_of_the_same_name_is_another(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let token = token(&c, &ns, "bot", json!({})).await;
    let path = format!("{}/bot", core(&ns, "serviceaccounts"));
    c.api().delete(&path, ()).await.expect(200);
    account(&c, &ns, "bot").await;
    unauthorized_soon(&c, &token).await;
}

async fn deleted_secret_takes_its_tokens_along(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    create(&c, &core(&ns, "secrets"), &object("v1", "Secret", "bond")).await;
    let bond = json!({"apiVersion": "v1", "kind": "Secret", "name": "bond"});
    let token = token(&c, &ns, "bot", json!({"boundObjectRef": bond})).await;
    assert_eq!(get_with(&c, &token, "/version").await.status, 200);
    let path = format!("{}/bond", core(&ns, "secrets"));
    c.api().delete(&path, ()).await.expect(200);
    unauthorized_soon(&c, &token).await;
}

async fn bound_object_must_exist(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    for (kind, resource) in [("Secret", "secrets"), ("Pod", "pods")] {
        let bond = json!({"apiVersion": "v1", "kind": kind, "name": "x"});
        let reply = request_token(&c, &ns, "bot", json!({"boundObjectRef": bond})).await;
        not_found(&reply, resource, "x");
    }
}

async fn bound_object_is_of_certain_kinds(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let bond = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"});
    let reply = request_token(&c, &ns, "bot", json!({"boundObjectRef": bond})).await;
    bad_request(
        &reply,
        "cannot bind token to object of type apps/v1, Kind=Deployment",
    );
}

async fn bound_pod_must_run_as_the_account(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let other = with(pod("p"), "/spec/serviceAccountName", json!("other"));
    create(&c, &core(&ns, "pods"), &other).await;
    let bond = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
    let reply = request_token(&c, &ns, "bot", json!({"boundObjectRef": bond})).await;
    let message =
        "cannot bind token for serviceaccount \"bot\" to pod running with different serviceaccount name.";
    bad_request(&reply, message);
}

async fn bound_pod_is_named_to_servers(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let ours = with(bound_pod("p"), "/spec/serviceAccountName", json!("bot"));
    let made = create(&c, &core(&ns, "pods"), &ours).await;
    let bond = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
    let token = token(&c, &ns, "bot", json!({"boundObjectRef": bond})).await;
    let status = review_token(&c, &token, json!(null)).await;
    let extra = &status["user"]["extra"];
    let tells = |key: &str| extra[format!("authentication.kubernetes.io/{key}")].clone();
    assert_eq!(tells("pod-name"), json!(["p"]));
    assert_eq!(tells("pod-uid"), json!([made["metadata"]["uid"]]));
    assert_eq!(tells("node-name"), json!(["node-1"]));
    let id = tells("credential-id");
    assert!(
        id[0].as_str().is_some_and(|id| id.starts_with("JTI=")),
        "{status:#}"
    );
}

async fn bound_uid_must_be_right(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    create(&c, &core(&ns, "secrets"), &object("v1", "Secret", "bond")).await;
    let bond = json!({"apiVersion": "v1", "kind": "Secret", "name": "bond", "uid": "other"});
    let reply = request_token(&c, &ns, "bot", json!({"boundObjectRef": bond})).await;
    reply.expect_error(409, "Conflict");
    let message = "Operation cannot be fulfilled on Secret \"bond\": the UID in the bound object reference (other) does not \
                   match the UID in record. The object might have been deleted and then recreated";
    assert_eq!(reply.message(), message);
}
