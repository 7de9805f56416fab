//! Limits whose requests are too large for a scenario, and numbers that depend on time and other tests.

use serde_json::{Value, json};
use steersman_harness::{
    Cluster, Reply, Test,
    fixtures::{JSON_PATCH, MERGE, STRATEGIC, config_map, core, named, owner, with},
    test,
};

use crate::support::{names, unchanged};

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
        test!(managers_over_10_are_merged).since(1, 36),
        test!(pages_across_namespaces_contain_each_object_once),
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

async fn managers_over_10_are_merged(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    c.create(
        &core(&ns, "configmaps?fieldManager=m0"),
        with(config_map("a"), json!({"data": {"k0": "1"}})),
    )
    .await;
    for n in 1..12 {
        let body = json!({"data": {format!("k{n}"): "1"}});
        c.merge(&format!("{path}?fieldManager=m{n}"), body).await;
    }
    let all = c.read(&path).await;
    let managers = all["metadata"]["managedFields"].as_array().expect("managers");
    assert_eq!(managers.len(), 10);
    let fields = |manager: &str| {
        let entry = managers.iter().find(|entry| entry["manager"] == manager);
        entry.expect(manager)["fieldsV1"]["f:data"].clone()
    };
    assert_eq!(fields("ancient-changes")["f:k0"], json!({}), "{all:#}");
    assert_eq!(fields("m11"), json!({"f:k11": {}}));
}

/// The number of pages depends on the objects of other tests.
async fn pages_across_namespaces_contain_each_object_once(c: Cluster) {
    let (first, second) = (c.namespace().await, c.namespace().await);
    for ns in [&first, &second] {
        for name in ["a", "b", "c"] {
            let secret = with(
                named("v1", "Secret", name),
                json!({"metadata": {"labels": {"of": first}}}),
            );
            c.create(&core(ns, "secrets"), &secret).await;
        }
    }
    let query = format!("/api/v1/secrets?limit=2&labelSelector=of%3D{first}");
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let page = c.read(&format!("{query}{token}")).await;
        found.extend(names(&page).into_iter().map(str::to_owned));
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = format!("&continue={next}"),
            _ => break,
        }
    }
    assert_eq!(found, ["a", "b", "c", "a", "b", "c"]);
}
