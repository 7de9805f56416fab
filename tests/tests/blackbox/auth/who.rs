//! Who a request is from, by what it shows.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::{AUTHENTICATION, account, forbidden, get_with, review_token, send_as, token, user};
use crate::support::core;

pub fn tests() -> Vec<Test> {
    vec![
        test!(administrator_is_a_master),
        test!(garbage_is_unauthorized),
        test!(other_schemes_are_no_credentials),
        test!(anonymous_may_see_public_paths_only),
        test!(refusal_comes_before_not_found),
        test!(self_review_tells_who_asks).since(1, 28),
        test!(self_review_of_an_impersonated_user).since(1, 28),
        test!(token_review_tells_whose_it_is),
        test!(token_review_needs_a_token),
        test!(reviews_can_only_be_created),
        test!(service_account_has_its_groups),
    ]
}

fn self_review() -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
}

async fn administrator_is_a_master(c: Cluster) {
    let everything =
        json!({"spec": {"resourceAttributes": {"verb": "any", "group": "any", "resource": "any"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = c.api().post(path, everything).await.expect(201);
    assert_eq!(review["status"], json!({"allowed": true}));
}

async fn garbage_is_unauthorized(c: Cluster) {
    for token in ["garbage", "a.b.c", "e30.e30.e30", "eyJhbGciOiJub25lIn0.e30."] {
        for path in ["/api/v1/namespaces", "/version", "/healthz", "/nothing"] {
            let reply = get_with(&c, token, path).await;
            reply.expect_error(401, "Unauthorized");
            reply.check(reply.message() == "Unauthorized", "expected one word");
        }
    }
}

async fn other_schemes_are_no_credentials(c: Cluster) {
    for shown in ["Basic YTpi", "Bearer", "nonsense"] {
        let headers = [("authorization", shown)];
        let reply = c
            .anonymous()
            .request(http::Method::GET, "/api/v1/nodes", &headers, ())
            .await;
        let message = "nodes is forbidden: User \"system:anonymous\" cannot list resource \"nodes\" in API group \"\" at the \
                       cluster scope";
        forbidden(&reply, message);
    }
}

async fn anonymous_may_see_public_paths_only(c: Cluster) {
    for path in ["/version", "/healthz", "/livez", "/readyz"] {
        assert_eq!(c.anonymous().get(path).await.status, 200, "{path}");
    }
    for path in ["/api", "/apis", "/api/v1", "/readyz/ping", "/metrics", "/nothing"] {
        let reply = c.anonymous().get(path).await;
        let message = format!("forbidden: User \"system:anonymous\" cannot get path {path:?}");
        forbidden(&reply, &message);
        assert_eq!(reply.json()["details"], json!({}), "{path}");
    }
}

async fn refusal_comes_before_not_found(c: Cluster) {
    let reply = c.anonymous().get("/apis/nope/v1/namespaces/a/things/b/log").await;
    let message = "things.nope \"b\" is forbidden: User \"system:anonymous\" cannot get resource \"things/log\" in API group \
                   \"nope\" in the namespace \"a\"";
    forbidden(&reply, message);
    let details = json!({"name": "b", "group": "nope", "kind": "things"});
    assert_eq!(reply.json()["details"], details);
}

async fn self_review_tells_who_asks(c: Cluster) {
    let path = format!("{AUTHENTICATION}/selfsubjectreviews");
    let review = c.api().post(&path, self_review()).await.expect(201);
    let who = &review["status"]["userInfo"];
    assert_eq!(who["username"], "admin");
    assert_eq!(who["groups"], json!(["system:masters", "system:authenticated"]));
    assert!(review["metadata"]["creationTimestamp"].is_string(), "{review:#}");
}

async fn self_review_of_an_impersonated_user(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let path = format!("{AUTHENTICATION}/selfsubjectreviews");
    let review = send_as(&c, &bob, http::Method::POST, &path, self_review()).await;
    let who = review.expect(201)["status"]["userInfo"].clone();
    assert_eq!(who, json!({"username": bob, "groups": ["system:authenticated"]}));
}

async fn token_review_tells_whose_it_is(c: Cluster) {
    let ns = c.namespace().await;
    let bot = account(&c, &ns, "bot").await;
    let token = token(&c, &ns, "bot", json!({})).await;
    let status = review_token(&c, &token, json!(null)).await;
    assert_eq!(status["authenticated"], true);
    let who = &status["user"];
    assert_eq!(who["username"], format!("system:serviceaccount:{ns}:bot"));
    assert_eq!(who["uid"], bot["metadata"]["uid"]);
    assert_eq!(status["audiences"], json!(["https://kubernetes.default.svc"]));

    let status = review_token(&c, "garbage", json!(null)).await;
    assert_eq!(status, json!({"user": {}, "error": "invalid bearer token"}));
    let altered = review_token(&c, &format!("{token}x"), json!(null)).await;
    assert_ne!(altered["authenticated"], true, "{altered:#}");
}

async fn token_review_needs_a_token(c: Cluster) {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {}});
    let reply = c
        .api()
        .post(&format!("{AUTHENTICATION}/tokenreviews"), review)
        .await;
    let message = "token is required for TokenReview in authentication";
    crate::expect::bad_request(&reply, message);
}

async fn reviews_can_only_be_created(c: Cluster) {
    for path in [
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
    ] {
        c.api().get(path).await.expect_error(405, "MethodNotAllowed");
    }
}

async fn service_account_has_its_groups(c: Cluster) {
    let ns = c.namespace().await;
    account(&c, &ns, "bot").await;
    let token = token(&c, &ns, "bot", json!({})).await;
    let status = review_token(&c, &token, json!(null)).await;
    let groups = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{ns}"),
        "system:authenticated",
    ]);
    assert_eq!(status["user"]["groups"], groups);
    // It is somebody, and may do nothing.
    let message = format!(
        "pods is forbidden: User \"system:serviceaccount:{ns}:bot\" cannot list resource \"pods\" in API group \"\" in the \
         namespace {ns:?}"
    );
    forbidden(&get_with(&c, &token, &core(&ns, "pods")).await, &message);
    assert_eq!(get_with(&c, &token, "/api/v1").await.status, 200);
}
