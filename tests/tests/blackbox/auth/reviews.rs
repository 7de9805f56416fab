//! Reviews of access: whether somebody may do something, asked without doing it.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::{AUTHORIZATION, RBAC, binding, grant, may, post_as, rule, user};
use crate::expect::{bad_request, speaks_1_36};
use crate::support::{create, of, soon, with};

pub fn tests() -> Vec<Test> {
    vec![
        test!(access_of_somebody),
        test!(access_to_a_path),
        test!(access_of_oneself),
        test!(access_in_one_namespace),
        test!(exactly_one_thing_is_asked_about),
        test!(somebody_must_be_asked_about),
        test!(local_review_stays_in_its_namespace),
        test!(reviews_have_no_names),
        test!(rules_of_oneself),
        test!(rules_need_a_namespace),
        test!(rules_tell_what_is_missing),
        test!(reviews_of_others_are_not_for_everybody),
    ]
}

fn review(kind: &str, spec: Value) -> Value {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind});
    with(review, "/spec", spec)
}

fn path(resource: &str) -> String {
    format!("{AUTHORIZATION}/{resource}")
}

async fn access_of_somebody(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let asked = json!({"namespace": ns, "verb": "list", "resource": "configmaps"});
    let before = may(&c, &bob, &asked).await;
    assert_eq!(before["status"], json!({"allowed": false}));
    assert_eq!(before["spec"]["user"], bob);
    grant(&c, &ns, &bob, json!([rule(&["list"], "", &["configmaps"])])).await;
    let reason = format!("RBAC: allowed by RoleBinding \"{bob}/{ns}\" of Role {bob:?} to User {bob:?}");
    let after = may(&c, &bob, &asked).await;
    assert_eq!(after["status"], json!({"allowed": true, "reason": reason}));
}

async fn access_to_a_path(c: Cluster) {
    let spec = |groups: Value| json!({"user": "bob", "groups": groups, "nonResourceAttributes": {"verb": "get", "path": "/api"}});
    let ask = async |groups: Value| {
        let review = review("SubjectAccessReview", spec(groups));
        c.api()
            .post(&path("subjectaccessreviews"), review)
            .await
            .expect(201)["status"]
            .clone()
    };
    assert_eq!(ask(json!([])).await, json!({"allowed": false}));
    let status = ask(json!(["system:authenticated"])).await;
    assert_eq!(status["allowed"], true);
    let reason = "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \
                  \"system:authenticated\"";
    assert_eq!(status["reason"], reason);
    assert_eq!(ask(json!(["system:masters"])).await, json!({"allowed": true}));
}

async fn access_of_oneself(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    grant(&c, &ns, &bob, json!([rule(&["get"], "", &["configmaps"])])).await;
    for (verb, allowed) in [("get", true), ("list", false)] {
        let asked = json!({"namespace": ns, "verb": verb, "resource": "configmaps"});
        let review = review("SelfSubjectAccessReview", json!({"resourceAttributes": asked}));
        let answer = post_as(&c, &bob, &path("selfsubjectaccessreviews"), review)
            .await
            .expect(201);
        assert_eq!(answer["status"]["allowed"], allowed, "{verb}");
    }
}

async fn access_in_one_namespace(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    grant(&c, &ns, &bob, json!([rule(&["get"], "", &["configmaps"])])).await;
    let asked = json!({"namespace": ns, "verb": "get", "resource": "configmaps"});
    let body = review(
        "LocalSubjectAccessReview",
        json!({"user": bob, "resourceAttributes": asked}),
    );
    let path = of("authorization.k8s.io/v1", &ns, "localsubjectaccessreviews");
    let named = with(body.clone(), "/metadata/namespace", json!(ns));
    let answer = c.api().post(&path, named).await.expect(201);
    assert_eq!(answer["status"]["allowed"], true);
    if speaks_1_36(&c) {
        let answer = c.api().post(&path, body).await.expect(201);
        assert_eq!(answer["metadata"]["namespace"], ns);
    }
}

#[track_caller]
fn refused(reply: &coxswain_tests::Reply, field: &str, end: &str) {
    reply.expect_error(422, "Invalid");
    let message = reply.message();
    reply.check(
        message.starts_with(".authorization.k8s.io \"\" is invalid: "),
        "expected a kind without a name",
    );
    let causes = reply.causes();
    let found = causes
        .iter()
        .any(|cause| cause.field == field && cause.message.ends_with(end));
    reply.check(found, &format!("expected {field}: ...{end}"));
}

async fn exactly_one_thing_is_asked_about(c: Cluster) {
    let one = json!({"verb": "get", "resource": "pods"});
    let other = json!({"verb": "get", "path": "/x"});
    let both = json!({"resourceAttributes": one, "nonResourceAttributes": other});
    let path = path("selfsubjectaccessreviews");
    let reply = c.api().post(&path, review("SelfSubjectAccessReview", both)).await;
    let why = "cannot be specified in combination with resourceAttributes";
    refused(&reply, "spec.nonResourceAttributes", why);
    let reply = c
        .api()
        .post(&path, review("SelfSubjectAccessReview", json!({})))
        .await;
    let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    refused(&reply, "spec.resourceAttributes", why);
}

async fn somebody_must_be_asked_about(c: Cluster) {
    let spec = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    let reply = c
        .api()
        .post(&path("subjectaccessreviews"), review("SubjectAccessReview", spec))
        .await;
    refused(
        &reply,
        "spec.user",
        "at least one of user or group must be specified",
    );
}

async fn local_review_stays_in_its_namespace(c: Cluster) {
    let path = of("authorization.k8s.io/v1", "default", "localsubjectaccessreviews");
    let local = |attributes: Value| {
        let mut body = review("LocalSubjectAccessReview", attributes);
        body["spec"]["user"] = json!("bob");
        body["metadata"]["namespace"] = json!("default");
        body
    };
    let other =
        local(json!({"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}}));
    let reply = c.api().post(&path, other).await;
    refused(
        &reply,
        "spec.resourceAttributes.namespace",
        "must match metadata.namespace",
    );
    let url = local(json!({"nonResourceAttributes": {"verb": "get", "path": "/x"}}));
    let reply = c.api().post(&path, url).await;
    refused(
        &reply,
        "spec.nonResourceAttributes",
        "disallowed on this kind of request",
    );
}

async fn reviews_have_no_names(c: Cluster) {
    let asked = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    let mut body = review("SelfSubjectAccessReview", asked);
    body["metadata"]["name"] = json!("x");
    let reply = c.api().post(&path("selfsubjectaccessreviews"), body).await;
    refused(&reply, "metadata", "must be empty");
}

async fn rules_review(c: &Cluster, who: &str, ns: &str) -> Value {
    let body = review("SelfSubjectRulesReview", json!({"namespace": ns}));
    post_as(c, who, &path("selfsubjectrulesreviews"), body)
        .await
        .expect(201)["status"]
        .clone()
}

async fn rules_of_oneself(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let mine =
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"]});
    grant(&c, &ns, &bob, json!([mine])).await;
    let status = rules_review(&c, &bob, &ns).await;
    assert_eq!(status["incomplete"], false);
    assert_eq!(status.get("evaluationError"), None);
    let rules = status["resourceRules"].as_array().cloned().unwrap_or_default();
    assert!(rules.contains(&mine), "{status:#}");
    let urls = status["nonResourceRules"].to_string();
    assert!(urls.contains("\"/apis/*\""), "{status:#}");
}

async fn rules_need_a_namespace(c: Cluster) {
    let body = review("SelfSubjectRulesReview", json!({}));
    let reply = c.api().post(&path("selfsubjectrulesreviews"), body).await;
    bad_request(&reply, "no namespace on request");
}

async fn rules_tell_what_is_missing(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let bound = binding("RoleBinding", "b", ("ClusterRole", "missing"), &bob);
    create(&c, &of(RBAC, &ns, "rolebindings"), &bound).await;
    soon("the error names the role", async || {
        let error = rules_review(&c, &bob, &ns).await["evaluationError"].clone();
        (error == "clusterrole.rbac.authorization.k8s.io \"missing\" not found").then_some(())
    })
    .await;
}

async fn reviews_of_others_are_not_for_everybody(c: Cluster) {
    let ns = c.namespace().await;
    let bob = user(&ns, "bob");
    let spec = json!({"user": "alice", "resourceAttributes": {"verb": "get", "resource": "pods"}});
    let body = review("SubjectAccessReview", spec);
    let reply = post_as(&c, &bob, &path("subjectaccessreviews"), body).await;
    reply.expect_error(403, "Forbidden");
}
