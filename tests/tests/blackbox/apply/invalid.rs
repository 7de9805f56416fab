//! What cannot be applied: the answer says why, and nothing changes.

use coxswain_tests::{
    Cluster, Reply, Test,
    fixtures::{MERGE, apps, core, deployment, named},
    test,
};
use serde_json::{Value, json};

use super::{APPLY, apply, map};
use crate::expect::{bad_request, bad_request_starting, invalid, speaks_1_36, stale, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(a_manager_is_needed_and_has_limits),
        test!(only_an_apply_can_be_forced),
        test!(a_body_must_be_a_map),
        test!(it_must_be_this_kind_and_this_name),
        test!(another_version_or_uid_is_refused),
        test!(managers_cannot_be_applied),
        test!(keys_must_not_stand_twice),
        test!(it_must_fit_the_schema),
        test!(what_comes_out_must_be_valid),
        test!(keys_that_stand_twice_in_a_map_are_told).since(1, 36),
        test!(nothing_is_created_where_there_is_no_namespace),
    ]
}

async fn create(c: &Cluster) -> (String, Value) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = apply(c, &path, "m", "", &map(&json!({"k": "1"})))
        .await
        .expect(201);
    (path, made)
}

async fn a_manager_is_needed_and_has_limits(c: Cluster) {
    let (path, made) = create(&c).await;
    let nameless = c.api().patch(&path, APPLY, map(&json!({"k": "2"}))).await;
    invalid(&nameless, &["Required fieldManager: is required for apply patch"]);
    let long = "x".repeat(129);
    let reply = apply(&c, &path, &long, "", &map(&json!({"k": "2"}))).await;
    reply.expect_error(422, "Invalid");
    assert_eq!(reply.causes()[0].field, "fieldManager");
    for (method, path) in [
        ("post", core("x", "configmaps")),
        ("put", path.clone()),
        ("patch", path.clone()),
    ] {
        for manager in [long.as_str(), "a%09b"] {
            let path = format!("{path}?fieldManager={manager}");
            let reply = match method {
                "post" => c.api().post(&path, map(&json!({}))).await,
                "put" => c.api().put(&path, map(&json!({}))).await,
                _ => c.api().patch(&path, MERGE, json!({})).await,
            };
            reply.expect_error(422, "Invalid");
            assert_eq!(reply.causes()[0].field, "fieldManager", "{method}");
        }
    }
    unchanged(&c, &path, &made).await;
}

async fn only_an_apply_can_be_forced(c: Cluster) {
    let (path, made) = create(&c).await;
    let reply = c
        .api()
        .patch(&format!("{path}?force=true"), MERGE, json!({"data": {"k": "2"}}))
        .await;
    invalid(
        &reply,
        &["Forbidden force: may not be specified for non-apply patch"],
    );
    unchanged(&c, &path, &made).await;
}

async fn a_body_must_be_a_map(c: Cluster) {
    let (path, made) = create(&c).await;
    let path_as_m = format!("{path}?fieldManager=m");
    for body in ["a: b: c", "[1]", "text", "{", "a:\n  b\n c: d"] {
        bad_request_starting(
            &c.api().patch(&path_as_m, APPLY, body).await,
            "error decoding YAML: ",
        );
    }
    unchanged(&c, &path, &made).await;
}

async fn it_must_be_this_kind_and_this_name(c: Cluster) {
    let (path, made) = create(&c).await;
    for (version, kind, shown) in [
        ("v1", "Secret", "/v1, Kind=Secret"),
        ("apps/v1", "ConfigMap", "apps/v1, Kind=ConfigMap"),
        ("v2", "ConfigMap", "/v2, Kind=ConfigMap"),
        ("", "", "/, Kind="),
    ] {
        let reply = apply(&c, &path, "m", "", &named(version, kind, "a")).await;
        if speaks_1_36(&c) {
            bad_request(&reply, &format!("invalid object type: {shown}"));
        } else {
            assert!(matches!(reply.status, 400 | 500), "{reply}");
        }
    }
    apply(&c, &path, "m", "", &json!({"metadata": {"name": "a"}}))
        .await
        .expect_error(400, "BadRequest");
    apply(&c, &path, "m", "", &named("v1", "ConfigMap", "b"))
        .await
        .expect_error(400, "BadRequest");
    let mut elsewhere = map(&json!({}));
    elsewhere["metadata"]["namespace"] = "elsewhere".into();
    apply(&c, &path, "m", "", &elsewhere)
        .await
        .expect_error(400, "BadRequest");
    unchanged(&c, &path, &made).await;
}

async fn another_version_or_uid_is_refused(c: Cluster) {
    let (path, made) = create(&c).await;
    let mut old = map(&json!({"k": "2"}));
    old["metadata"]["resourceVersion"] = "1".into();
    stale(&apply(&c, &path, "m", "", &old).await, "configmaps", "a");
    let mut other = map(&json!({"k": "2"}));
    other["metadata"]["uid"] = "x".into();
    let reply = apply(&c, &path, "m", "", &other).await;
    assert!(matches!(reply.status, 409 | 422), "{reply}");
    if speaks_1_36(&c) {
        invalid(&reply, &["Invalid metadata.uid: field is immutable"]);
    }
    unchanged(&c, &path, &made).await;
    let mut right = map(&json!({"k": "2"}));
    right["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    right["metadata"]["uid"] = made["metadata"]["uid"].clone();
    apply(&c, &path, "m", "", &right).await.expect(200);
}

async fn managers_cannot_be_applied(c: Cluster) {
    let (path, made) = create(&c).await;
    let mut config = map(&json!({"k": "2"}));
    config["metadata"]["managedFields"] = made["metadata"]["managedFields"].clone();
    let reply = apply(&c, &path, "m", "", &config).await;
    bad_request(&reply, "metadata.managedFields must be nil");
    if speaks_1_36(&c) {
        config["metadata"]["managedFields"] = json!("x");
        let reply = apply(&c, &path, "m", "", &config).await;
        untyped(&reply, ".metadata.managedFields: expected list, got &{x}");
    }
    unchanged(&c, &path, &made).await;
}

/// Asserts a 500 whose message ends so: the server has no better answer to what does not fit its schema.
#[track_caller]
fn untyped(reply: &Reply, end: &str) {
    assert_eq!((reply.status, reply.reason().as_str()), (500, ""), "{reply}");
    reply.check(reply.message().ends_with(end), &format!("expected {end}"));
}

async fn keys_must_not_stand_twice(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let with = |containers: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"containers": containers}}}})
    };
    let twice = json!([{"name": "c", "image": "i"}, {"name": "c", "image": "j"}]);
    let reply = apply(&c, &path, "m", "", &with(twice)).await;
    untyped(
        &reply,
        ".spec.template.spec.containers: duplicate entries for key [name=\"c\"]",
    );
    let mut finalizers = with(json!([]));
    finalizers["metadata"]["finalizers"] = json!(["a.b/c", "a.b/c"]);
    let reply = apply(&c, &path, "m", "", &finalizers).await;
    untyped(
        &reply,
        ".metadata.finalizers: duplicate entries for key [=\"a.b/c\"]",
    );
    unchanged(&c, &path, &made).await;
}

async fn it_must_fit_the_schema(c: Cluster) {
    let (path, made) = create(&c).await;
    let mut unknown = map(&json!({}));
    unknown["dada"] = json!({"k": "1"});
    untyped(
        &apply(&c, &path, "m", "", &unknown).await,
        ".dada: field not declared in schema",
    );
    if speaks_1_36(&c) {
        let reply = apply(&c, &path, "m", "", &unknown).await;
        let text = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .dada: field not declared in schema";
        assert_eq!(reply.message(), text);
        let reply = apply(&c, &path, "m", "", &map(&json!({"k": 2}))).await;
        untyped(
            &reply,
            ".data.k: expected string, got &value.valueUnstructured{Value:2}",
        );
        untyped(
            &apply(&c, &path, "m", "", &map(&json!("x"))).await,
            ".data: expected map, got &{x}",
        );
    }
    unchanged(&c, &path, &made).await;
}

async fn what_comes_out_must_be_valid(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods/a");
    let pod =
        |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
    apply(&c, &path, "m", "", &pod(json!({"containers": []})))
        .await
        .expect_error(422, "Invalid");
    c.api().get(&path).await.expect_error(404, "NotFound");
    let good = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
    let made = apply(&c, &path, "m", "", &good).await.expect(201);
    apply(&c, &path, "m", "", &pod(json!({})))
        .await
        .expect_error(422, "Invalid");
    unchanged(&c, &path, &made).await;
}

async fn keys_that_stand_twice_in_a_map_are_told(c: Cluster) {
    let (path, made) = create(&c).await;
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: \"3\"}\ndata: {k: \"1\"}\n";
    let strict = c
        .api()
        .patch(
            &format!("{path}?fieldManager=m&fieldValidation=Strict"),
            APPLY,
            text,
        )
        .await;
    let line = "line 5: key \"data\" already set in map";
    let what = format!(
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {line}"
    );
    bad_request(&strict, &what);
    let warned = c
        .api()
        .patch(&format!("{path}?fieldManager=m"), APPLY, text)
        .await;
    warned.expect(200);
    assert_eq!(warned.header("warning"), Some(format!("299 - {line:?}").as_str()));
    unchanged(&c, &path, &made).await;
}

async fn nothing_is_created_where_there_is_no_namespace(c: Cluster) {
    let reply = apply(
        &c,
        &core("nowhere-at-all", "configmaps/a"),
        "m",
        "",
        &map(&json!({})),
    )
    .await;
    reply.expect_error(404, "NotFound");
}
