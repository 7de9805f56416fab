//! Limits whose requests are too large for a scenario.

use coxswain_tests::{
    Cluster, Reply, Test,
    fixtures::{JSON_PATCH, MERGE, STRATEGIC, config_map, core, named, owner, with},
    test,
};
use serde_json::{Value, json};

use crate::expect::unchanged;

const BODY_MAX: usize = 3 * 1024 * 1024;
const ANNOTATIONS_MAX: usize = 256 * 1024;
const JSON_PATCH_MAX: usize = 10_000;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    vec![
        test!(body_over_3_mib_is_too_large),
        test!(annotations_over_256_kib_are_too_long),
        test!(json_patch_over_10000_operations_is_too_large),
        test!(strategic_patch_deletes_a_thousand_owner_references),
    ]
}

#[track_caller]
fn too_large(reply: &Reply) {
    reply.expect_error(413, "RequestEntityTooLarge");
}

#[track_caller]
fn too_long(reply: &Reply, field: &str) {
    reply.expect_error(422, "Invalid");
    let causes = reply.causes();
    let expected = causes.len() == 1 && causes[0].reason == "FieldValueTooLong" && causes[0].field == field;
    reply.check(expected, &format!("expected FieldValueTooLong of {field}"));
}

async fn body_over_3_mib_is_too_large(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let created = c.create(&path, config_map("a")).await;
    let body = |size: usize| {
        let empty = with(config_map("a"), json!({"data": {"k": ""}})).to_string();
        with(
            config_map("a"),
            json!({"data": {"k": "x".repeat(size - empty.len())}}),
        )
    };
    let object = format!("{path}/a");
    too_large(&c.api().post(&path, body(BODY_MAX + 1)).await);
    too_large(&c.api().put(&object, body(BODY_MAX + 1)).await);
    for patch in [MERGE, STRATEGIC, JSON_PATCH] {
        too_large(&c.api().patch(&object, patch, body(BODY_MAX + 1)).await);
    }
    unchanged(&c, &object, &created).await;
    // The server decodes a body of the limit, and validation rejects the ConfigMap.
    too_long(&c.api().put(&object, body(BODY_MAX)).await, "[]");
}

async fn annotations_over_256_kib_are_too_long(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    // The limit includes the keys.
    let annotated = |size: usize| {
        let annotations = json!({"annotations": {"k": "x".repeat(size - 1)}});
        with(config_map("a"), json!({"metadata": annotations}))
    };
    too_long(
        &c.api().post(&path, annotated(ANNOTATIONS_MAX + 1)).await,
        "metadata.annotations",
    );
    c.create(&path, annotated(ANNOTATIONS_MAX)).await;
}

async fn json_patch_over_10000_operations_is_too_large(c: Cluster) {
    let ns = c.namespace().await;
    let created = c.create(&core(&ns, "configmaps"), config_map("a")).await;
    let path = core(&ns, "configmaps/a");
    let operations = vec![json!({"op": "add", "path": "/data/n", "value": "3"}); JSON_PATCH_MAX + 1];
    too_large(&c.api().patch(&path, JSON_PATCH, json!(operations)).await);
    unchanged(&c, &path, &created).await;
    let reply = c.api().patch(&path, JSON_PATCH, json!(operations[1..])).await;
    reply.expect(200);
}

async fn strategic_patch_deletes_a_thousand_owner_references(c: Cluster) {
    let ns = c.namespace().await;
    let references: Vec<Value> = (0..1000).map(|index| owner(&format!("u{index}"))).collect();
    let body = with(
        named("v1", "ConfigMap", "a"),
        json!({"metadata": {"ownerReferences": references}}),
    );
    let created = c.create(&core(&ns, "configmaps"), body).await;
    assert_eq!(created["metadata"]["ownerReferences"], json!(references));
    let deletions = references.iter().filter(|reference| reference["uid"] != "u500");
    let deletions: Vec<Value> = deletions
        .map(|reference| json!({"$patch": "delete", "uid": reference["uid"]}))
        .collect();
    let patch = json!({"metadata": {"ownerReferences": deletions}});
    let patched = c
        .api()
        .patch(&core(&ns, "configmaps/a"), STRATEGIC, patch)
        .await
        .expect(200);
    assert_eq!(patched["metadata"]["ownerReferences"], json!([owner("u500")]));
}
