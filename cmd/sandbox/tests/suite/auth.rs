//! Authentication and authorization by the clock and the API services of the sandbox.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use steersman_sandbox::{ApiService, Authorization, Sandbox};

use crate::client::{MAPS, builder, delete, get, names, patch, post, put, send_with};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

fn sandbox(authorization: Authorization) -> Sandbox {
    builder().authorization(authorization).start().expect("a sandbox")
}

/// A token of the account `default`.
async fn token(api_service: &ApiService, spec: Value) -> String {
    let path = format!("{ACCOUNTS}/default/token");
    let (status, answer) = post(api_service, &path, &json!({"spec": spec})).await;
    assert_eq!(status, 201, "{answer}");
    answer["status"]["token"].as_str().expect("a token").to_owned()
}

async fn get_with(api_service: &ApiService, token: &str, path: &str) -> (u16, Value) {
    let header = format!("Bearer {token}");
    send_with(
        api_service,
        Method::GET,
        path,
        &[("authorization", &header)],
        &Value::Null,
    )
    .await
}

async fn review(api_service: &ApiService, token: &str) -> Value {
    let body = json!({"spec": {"token": token}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (status, answer) = post(api_service, path, &body).await;
    assert_eq!(status, 201, "{answer}");
    answer["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn token_expires_by_the_clock_of_the_sandbox() {
    let api_service = sandbox(Authorization::AlwaysAllow).service();
    let token = token(&api_service, json!({"expirationSeconds": 600})).await;
    // The leeway for clock skew is one minute.
    tokio::time::advance(Duration::from_mins(10 + 1)).await;
    assert_eq!(get_with(&api_service, &token, MAPS).await.0, 200);
    tokio::time::advance(Duration::from_secs(1)).await;
    let (status, answer) = get_with(&api_service, &token, MAPS).await;
    assert_eq!((status, &answer["message"]), (401, &json!("Unauthorized")));
    let error = "[invalid bearer token, service account token has expired]";
    assert_eq!(
        review(&api_service, &token).await,
        json!({"user": {}, "error": error})
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_of_terminating_account_expire() {
    let api_service = sandbox(Authorization::AlwaysAllow).service();
    let account = format!("{ACCOUNTS}/default");
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    assert_eq!(patch(&api_service, &account, &hold).await.0, 200);
    let token = token(&api_service, json!({})).await;
    assert_eq!(delete(&api_service, &account).await.0, 200);
    assert_eq!(get_with(&api_service, &token, MAPS).await.0, 200);
    tokio::time::advance(Duration::from_secs(62)).await;
    assert_eq!(get_with(&api_service, &token, MAPS).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn token_of_other_sandbox_is_unauthorized() {
    let [one, other] = [(); 2].map(|()| sandbox(Authorization::AlwaysAllow).service());
    let foreign = token(&other, json!({})).await;
    assert_eq!(get_with(&one, &foreign, MAPS).await.0, 401);
    // The first token creates a signing key.
    token(&one, json!({})).await;
    assert_eq!(get_with(&one, &foreign, MAPS).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn in_process_request_without_credentials_is_admin() {
    let api_service = sandbox(Authorization::Rbac).service();
    assert_eq!(get(&api_service, MAPS).await.0, 200);
    let token = token(&api_service, json!({})).await;
    assert_eq!(get_with(&api_service, &token, MAPS).await.0, 403);
    assert_eq!(get_with(&api_service, "garbage", MAPS).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn always_allow_still_requires_token() {
    let sandbox = sandbox(Authorization::AlwaysAllow);
    let api_service = sandbox.service().with_admin_token("secret");
    assert_eq!(get(&api_service, MAPS).await.0, 401);
    assert_eq!(get(&api_service, "/readyz").await.0, 200);
    assert_eq!(get_with(&api_service, "secret", MAPS).await.0, 200);
    assert_eq!(get_with(&api_service, "secre", MAPS).await.0, 401);
    let bot = token(&sandbox.service(), json!({})).await;
    assert_eq!(get_with(&api_service, &bot, MAPS).await.0, 200);
    // Every user may impersonate.
    let bearer = format!("Bearer {bot}");
    let headers = [("authorization", bearer.as_str()), ("impersonate-user", "bob")];
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, who) = send_with(&api_service, Method::POST, path, &headers, &json!({})).await;
    assert_eq!(who["status"]["userInfo"]["username"], "bob");
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let body = json!({"spec": {"namespace": "default"}});
    let (_, rules) = send_with(&api_service, Method::POST, path, &headers, &body).await;
    let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    assert_eq!(rules["status"]["resourceRules"], everything);
}

#[tokio::test(start_paused = true)]
async fn root_ca_is_published_to_every_namespace() {
    let sandbox = Sandbox::builder()
        .root_ca("pem".to_owned())
        .start()
        .expect("a sandbox");
    let api_service = sandbox.service();
    let map = format!("{MAPS}/kube-root-ca.crt");
    assert_eq!(get(&api_service, &map).await.1["data"]["ca.crt"], "pem");
    assert_eq!(delete(&api_service, &map).await.0, 200);
    assert_eq!(get(&api_service, &map).await.0, 200, "it is recreated");
    let namespace = json!({"metadata": {"name": "new"}});
    let (status, _) = post(&api_service, "/api/v1/namespaces", &namespace).await;
    assert_eq!(status, 201);
    let (_, list) = get(&api_service, "/api/v1/namespaces/new/configmaps").await;
    assert_eq!(names(&list), ["kube-root-ca.crt"]);
    let (status, _) = delete(&api_service, "/api/v1/namespaces/new").await;
    assert_eq!(status, 200);
    assert_eq!(
        get(&api_service, "/api/v1/namespaces/new").await.0,
        404,
        "the namespace is removed"
    );
}

/// Three roles that aggregate each other would pass rules on without an end.
#[tokio::test(start_paused = true)]
async fn aggregation_cycle_ends() {
    let sandbox = sandbox(Authorization::AlwaysAllow);
    let api_service = sandbox.service();
    let make = async |name: &str, gathers: &str| {
        let role = json!({
            "metadata": {"name": name, "labels": {"at": name}},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"at": gathers}}]},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [name]}],
        });
        let (status, answer) = post(&api_service, ROLES, &role).await;
        assert_eq!(status, 201, "{answer}");
    };
    make("a", "b").await;
    make("b", "c").await;
    make("c", "a").await;
    let before = sandbox.revision();
    let rules = json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["other"]}]});
    let path = format!("{ROLES}/b");
    assert_eq!(patch(&api_service, &path, &rules).await.0, 200);
    assert!(
        sandbox.revision() <= before + 10,
        "{} writes",
        sandbox.revision() - before
    );
}

#[tokio::test(start_paused = true)]
async fn role_binding_applies_at_once() {
    let api_service = sandbox(Authorization::Rbac).service();
    let bob = [("impersonate-user", "bob")];
    let list = async || {
        send_with(&api_service, Method::GET, MAPS, &bob, &Value::Null)
            .await
            .0
    };
    assert_eq!(list().await, 403);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let binding = json!({
        "metadata": {"name": "bob"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "bob"}],
    });
    let path = format!("{rbac}/rolebindings");
    assert_eq!(post(&api_service, &path, &binding).await.0, 201);
    assert_eq!(list().await, 200);
    let path = format!("{rbac}/rolebindings/bob");
    assert_eq!(delete(&api_service, &path).await.0, 200);
    assert_eq!(list().await, 403);
}

#[tokio::test(start_paused = true)]
async fn audit_records_requests_and_not_reviews() {
    let records = Arc::new(Mutex::new(Vec::new()));
    let log = records.clone();
    let sandbox = Sandbox::builder()
        .authorization(Authorization::Rbac)
        .audit(Box::new(move |it| {
            let object = [it.group, it.resource, it.subresource, it.namespace, it.name].join("|");
            let line = format!("{} {} {object} {} {}", it.user, it.verb, it.path, it.allowed);
            log.lock().expect("no panic").push(line);
        }))
        .start()
        .expect("a sandbox");
    let api_service = sandbox.service();
    let token = token(&api_service, json!({})).await;
    assert_eq!(get_with(&api_service, &token, MAPS).await.0, 403);
    assert_eq!(get_with(&api_service, &token, "/version").await.0, 200);
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let attributes = json!({"namespace": "default", "verb": "get", "resource": "secrets"});
    let body = json!({"spec": {"user": "bob", "resourceAttributes": attributes}});
    assert_eq!(post(&api_service, path, &body).await.0, 201);
    let account = "system:serviceaccount:default:default";
    assert_eq!(
        *records.lock().expect("no panic"),
        [
            "admin create |serviceaccounts|token|default|default  true".to_owned(),
            format!("{account} list |configmaps||default|  false"),
            format!("{account} get |||| /version true"),
            "admin create authorization.k8s.io|subjectaccessreviews|||  true".to_owned(),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn role_that_aggregates_nothing_is_unchanged_by_put() {
    let api_service = sandbox(Authorization::Rbac).service();
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let aggregation = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let role = json!({"metadata": {"name": "sum"}, "rules": rules, "aggregationRule": aggregation});
    assert_eq!(post(&api_service, ROLES, &role).await.0, 201);
    let path = format!("{ROLES}/sum");
    let (_, stored) = get(&api_service, &path).await;
    assert!(stored["rules"].is_null(), "{stored}");
    let (status, written) = put(&api_service, &path, &stored).await;
    assert_eq!((status, written), (200, stored));
}
