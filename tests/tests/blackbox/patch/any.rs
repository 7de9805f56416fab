//! What holds for every sort of patch.

use coxswain_tests::{
    Cluster, Reply, Test,
    fixtures::{
        JSON_PATCH, MERGE, STRATEGIC, apps, config_map, core, define, deployment, group, named, undefine,
        with,
    },
    test,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::expect::{invalid, not_found, speaks_1_36, stale, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(missing_object_is_not_found),
        test!(kind_and_version_may_not_change),
        test!(invalid_result_changes_nothing),
        test!(wrong_field_type_is_invalid),
        test!(patch_that_changes_nothing_writes_nothing),
        test!(unknown_content_type_is_415),
        test!(charset_is_ignored),
        test!(collection_is_not_patched),
        test!(force_is_for_apply_only),
        test!(custom_resources_take_no_strategic_patch),
        test!(concurrent_patches_all_succeed),
    ]
}

/// The same change in each sort of patch: these fields of the metadata.
pub fn everyway(meta: &Value) -> [(&'static str, Value); 3] {
    let fields = meta.as_object().expect("an object");
    let operations = fields
        .iter()
        .map(|(key, value)| json!({"op": "add", "path": format!("/metadata/{key}"), "value": value}));
    [
        (MERGE, json!({"metadata": meta})),
        (STRATEGIC, json!({"metadata": meta})),
        (JSON_PATCH, operations.collect()),
    ]
}

/// A `ConfigMap` named `a` in a namespace of its own: its path and itself.
pub async fn create(c: &Cluster) -> (String, Value) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect(201);
    (core(&ns, "configmaps/a"), made)
}

async fn missing_object_is_not_found(c: Cluster) {
    let ns = c.namespace().await;
    for (kind, change) in everyway(&json!({"labels": {"x": "y"}})) {
        not_found(
            &c.api().patch(&core(&ns, "configmaps/a"), kind, &change).await,
            "configmaps",
            "a",
        );
        not_found(
            &c.api().patch(&apps(&ns, "deployments/a"), kind, &change).await,
            "deployments.apps",
            "a",
        );
        // The namespace is not looked at.
        not_found(
            &c.api()
                .patch(&core("nowhere", "configmaps/a"), kind, change)
                .await,
            "configmaps",
            "a",
        );
    }
}

/// Asserts a 422 that blames the patch and not a field of the object.
#[track_caller]
fn bad_patch(reply: &Reply) -> String {
    reply.expect_error(422, "Invalid");
    let causes = reply.causes();
    let blames = causes.len() == 1 && causes[0].reason == "FieldValueInvalid" && causes[0].field == "patch";
    reply.check(blames, "expected one cause, the patch");
    let body = reply.json();
    let named = body["details"]["name"].is_string() || body["details"]["kind"].is_string();
    reply.check(!named, "neither name nor kind are known there");
    reply.check(
        reply
            .message()
            .starts_with(" \"\" is invalid: patch: Invalid value: "),
        "another message",
    );
    causes[0].message.clone()
}

async fn kind_and_version_may_not_change(c: Cluster) {
    let (path, made) = create(&c).await;
    for (field, value) in [("kind", "Secret"), ("kind", "Nope"), ("apiVersion", "v2")] {
        for (kind, change) in [
            (MERGE, json!({field: value})),
            (
                JSON_PATCH,
                json!([{"op": "replace", "path": format!("/{field}"), "value": value}]),
            ),
        ] {
            bad_patch(&c.api().patch(&path, kind, change).await);
        }
    }
    unchanged(&c, &path, &made).await;
    // Left out it is what the path says; a strategic patch does not even look.
    for (kind, change) in [
        (MERGE, json!({"kind": null})),
        (STRATEGIC, json!({"kind": "Secret"})),
        (STRATEGIC, json!({"kind": null, "apiVersion": null})),
    ] {
        assert_eq!(c.api().patch(&path, kind, change).await.expect(200), made);
    }
}

async fn invalid_result_changes_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    for (kind, change) in [
        (MERGE, json!({"spec": {"replicas": -2}})),
        (STRATEGIC, json!({"spec": {"replicas": -2}})),
        (
            JSON_PATCH,
            json!([{"op": "replace", "path": "/spec/replicas", "value": -2}]),
        ),
    ] {
        let reply = c.api().patch(&path, kind, change).await;
        invalid(
            &reply,
            &["Invalid spec.replicas: Invalid value: -2: must be greater than or equal to 0"],
        );
        unchanged(&c, &path, &made).await;
    }
}

async fn wrong_field_type_is_invalid(c: Cluster) {
    let (path, made) = create(&c).await;
    for (kind, change) in [
        (MERGE, json!({"data": {"k": 1}})),
        (MERGE, json!({"data": []})),
        (
            JSON_PATCH,
            json!([{"op": "replace", "path": "/data", "value": "text"}]),
        ),
        (
            JSON_PATCH,
            json!([{"op": "replace", "path": "/data/k", "value": 1}]),
        ),
    ] {
        let message = bad_patch(&c.api().patch(&path, kind, change).await);
        if speaks_1_36(&c) {
            assert!(message.contains(": json: cannot unmarshal "), "{message}");
        }
    }
    unchanged(&c, &path, &made).await;
    let ns = made["metadata"]["namespace"].as_str().expect("a namespace");
    let path = apps(ns, "deployments/a");
    let made = c
        .api()
        .post(&apps(ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    bad_patch(
        &c.api()
            .patch(&path, STRATEGIC, json!({"spec": {"replicas": "x"}}))
            .await,
    );
    unchanged(&c, &path, &made).await;
}

async fn patch_that_changes_nothing_writes_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let container = json!([{"name": "c", "image": "i"}]);
    for (kind, change) in [
        (MERGE, json!({})),
        (STRATEGIC, json!({})),
        (JSON_PATCH, json!([])),
        (
            MERGE,
            json!({"spec": {"replicas": 1}, "metadata": {"labels": {"gone": null}}}),
        ),
        (
            STRATEGIC,
            json!({"spec": {"template": {"spec": {"containers": container}}}}),
        ),
        (
            JSON_PATCH,
            json!([{"op": "test", "path": "/spec/replicas", "value": 1}]),
        ),
        (
            JSON_PATCH,
            json!([{"op": "replace", "path": "/spec/replicas", "value": 1}]),
        ),
        // A default that is removed comes back.
        (
            MERGE,
            json!({"spec": {"replicas": null, "revisionHistoryLimit": null}}),
        ),
        (JSON_PATCH, json!([{"op": "remove", "path": "/spec/replicas"}])),
    ] {
        assert_eq!(
            c.api().patch(&path, kind, change).await.expect(200),
            made,
            "{kind}"
        );
    }
    unchanged(&c, &path, &made).await;
}

async fn unknown_content_type_is_415(c: Cluster) {
    let (path, made) = create(&c).await;
    for content_type in [
        "application/json",
        "text/plain",
        "application/merge-patch",
        "application/yaml",
        "nonsense",
    ] {
        let reply = c
            .api()
            .patch(&path, content_type, json!({"data": {"k": "2"}}))
            .await;
        reply.expect_error(415, "UnsupportedMediaType");
        reply.check(
            reply.message() == "415: Unsupported Media Type",
            "another message",
        );
    }
    unchanged(&c, &path, &made).await;
}

async fn charset_is_ignored(c: Cluster) {
    let (path, _) = create(&c).await;
    let kind = "application/merge-patch+json; charset=utf-8";
    let changed = c
        .api()
        .patch(&path, kind, json!({"data": {"k": "2"}}))
        .await
        .expect(200);
    assert_eq!(changed["data"], json!({"k": "2"}));
}

async fn collection_is_not_patched(c: Cluster) {
    let ns = c.namespace().await;
    let reply = c.api().patch(&core(&ns, "configmaps"), MERGE, json!({})).await;
    reply.expect_error(405, "MethodNotAllowed");
}

async fn force_is_for_apply_only(c: Cluster) {
    let (path, made) = create(&c).await;
    let reply = c
        .api()
        .patch(&format!("{path}?force=true"), MERGE, json!({"data": {"k": "2"}}))
        .await;
    invalid(
        &reply,
        &["Forbidden force: may not be specified for non-apply patch"],
    );
    let long = format!("{path}?fieldManager={}", "x".repeat(129));
    let reply = c.api().patch(&long, MERGE, json!({"data": {"k": "2"}})).await;
    invalid(&reply, &["TooLong fieldManager: 128 bytes"]);
    unchanged(&c, &path, &made).await;
}

async fn custom_resources_take_no_strategic_patch(c: Cluster) {
    let ns = c.namespace().await;
    define(&c, "patchable", &json!({})).await;
    let path = group("example.com/v1", &ns, "patchables");
    let body = with(
        named("example.com/v1", "Patchable", "a"),
        json!({"spec": {"list": [{"name": "a"}], "n": 1}}),
    );
    let made = c.api().post(&path, body).await.expect(201);
    let path = format!("{path}/a");
    let reply = c.api().patch(&path, STRATEGIC, json!({"spec": {}})).await;
    reply.expect_error(415, "UnsupportedMediaType");
    // Apply patches follow.
    let start = "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json";
    reply.check(reply.message().starts_with(start), &format!("expected {start}"));
    unchanged(&c, &path, &made).await;
    let changed = c
        .api()
        .patch(
            &path,
            MERGE,
            json!({"spec": {"list": [{"name": "b"}], "n": null}}),
        )
        .await
        .expect(200);
    assert_eq!(changed["spec"], json!({"list": [{"name": "b"}]}));
    let operations = json!([{"op": "add", "path": "/spec/list/-", "value": {"name": "c"}}]);
    let changed = c.api().patch(&path, JSON_PATCH, operations).await.expect(200);
    assert_eq!(changed["spec"], json!({"list": [{"name": "b"}, {"name": "c"}]}));
    let reply = c
        .api()
        .patch(&path, MERGE, json!({"metadata": {"uid": "other"}}))
        .await;
    invalid(
        &reply,
        &["Invalid metadata.uid: Invalid value: \"other\": field is immutable"],
    );
    let reply = c
        .api()
        .patch(&path, MERGE, json!({"metadata": {"resourceVersion": "1"}}))
        .await;
    stale(&reply, "patchables.example.com", "a");
    undefine(&c, "patchable").await;
}

async fn concurrent_patches_all_succeed(c: Cluster) {
    let (path, _) = create(&c).await;
    let patches = (0..20).map(|i| {
        let (c, path) = (&c, &path);
        let key = format!("key-{i}");
        async move {
            let kind = [MERGE, STRATEGIC][i % 2];
            c.api()
                .patch(path, kind, json!({"metadata": {"annotations": {key: "x"}}}))
                .await
                .expect(200)
        }
    });
    let replies = join_all(patches).await;
    let read = c.api().get(&path).await.expect(200);
    let annotations = read["metadata"]["annotations"].as_object().expect("annotations");
    assert_eq!(annotations.len(), 20, "{read:#}");
    let mut versions: Vec<&Value> = replies
        .iter()
        .map(|reply| &reply["metadata"]["resourceVersion"])
        .collect();
    versions.sort_by_key(ToString::to_string);
    versions.dedup();
    assert_eq!(versions.len(), 20, "each was a write of its own");
}
