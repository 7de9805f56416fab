//! Merge patch (RFC 7396).

use coxswain_tests::{
    Cluster, Test,
    fixtures::{MERGE, apps, config_map, core, deployment, owner, with},
    test,
};
use serde_json::{Value, json};

use crate::expect::{bad_request, bad_request_starting, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(objects_are_merged),
        test!(null_removes),
        test!(lists_are_replaced),
        test!(whole_maps_may_go),
        test!(removing_a_required_field_is_invalid),
        test!(patch_that_is_no_object_is_a_bad_request).since(1, 36),
        test!(directives_of_strategic_patches_mean_nothing),
    ]
}

async fn create(c: &Cluster, change: Value) -> String {
    let ns = c.namespace().await;
    c.api()
        .post(&core(&ns, "configmaps"), with(config_map("a"), change))
        .await
        .expect(201);
    core(&ns, "configmaps/a")
}

async fn objects_are_merged(c: Cluster) {
    let path = create(
        &c,
        json!({"data": {"k": "1", "l": "2"}, "metadata": {"labels": {"x": "1"}}}),
    )
    .await;
    let change =
        json!({"data": {"l": "3", "m": "4"}, "metadata": {"labels": {"y": "2"}, "annotations": {"z": "3"}}});
    let changed = c.api().patch(&path, MERGE, change).await.expect(200);
    assert_eq!(changed["data"], json!({"k": "1", "l": "3", "m": "4"}));
    assert_eq!(changed["metadata"]["labels"], json!({"x": "1", "y": "2"}));
    assert_eq!(changed["metadata"]["annotations"], json!({"z": "3"}));
    unchanged(&c, &path, &changed).await;
}

async fn null_removes(c: Cluster) {
    let path = create(
        &c,
        json!({"data": {"k": "1", "l": "2"}, "metadata": {"labels": {"x": "1", "y": "2"}}}),
    )
    .await;
    let change = json!({"data": {"k": null, "gone": null}, "metadata": {"labels": {"x": null, "z": "3"}}});
    let changed = c.api().patch(&path, MERGE, change).await.expect(200);
    assert_eq!(changed["data"], json!({"l": "2"}));
    assert_eq!(changed["metadata"]["labels"], json!({"y": "2", "z": "3"}));
    // Also inside an object that was not there.
    let change = json!({"metadata": {"annotations": {"a": null, "b": "1"}}});
    let changed = c.api().patch(&path, MERGE, change).await.expect(200);
    assert_eq!(changed["metadata"]["annotations"], json!({"b": "1"}));
}

async fn lists_are_replaced(c: Cluster) {
    let path = create(
        &c,
        json!({"metadata": {"finalizers": ["a.b/c", "a.b/d"], "ownerReferences": [owner("u1")]}}),
    )
    .await;
    let change = json!({"metadata": {"finalizers": ["a.b/e"], "ownerReferences": [owner("u2")]}});
    let changed = c.api().patch(&path, MERGE, change).await.expect(200);
    assert_eq!(changed["metadata"]["finalizers"], json!(["a.b/e"]));
    assert_eq!(changed["metadata"]["ownerReferences"], json!([owner("u2")]));
    let change = json!({"metadata": {"finalizers": null, "ownerReferences": []}});
    let changed = c.api().patch(&path, MERGE, change).await.expect(200);
    assert_eq!(changed["metadata"].get("finalizers"), None);
    assert_eq!(changed["metadata"].get("ownerReferences"), None);
    let ns = changed["metadata"]["namespace"].as_str().expect("a namespace");
    c.api()
        .post(&apps(ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let containers = json!([{"name": "d", "image": "j"}]);
    let change = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let changed = c
        .api()
        .patch(&apps(ns, "deployments/a"), MERGE, change)
        .await
        .expect(200);
    let containers = changed["spec"]["template"]["spec"]["containers"]
        .as_array()
        .expect("a list");
    assert_eq!((containers.len(), &containers[0]["name"]), (1, &json!("d")));
    assert_eq!(containers[0]["imagePullPolicy"], "Always", "with defaults");
}

async fn whole_maps_may_go(c: Cluster) {
    let path = create(&c, json!({"metadata": {"labels": {"x": "1"}}})).await;
    let changed = c
        .api()
        .patch(&path, MERGE, json!({"data": null, "metadata": {"labels": null}}))
        .await
        .expect(200);
    assert_eq!(changed.get("data"), None);
    assert_eq!(changed["metadata"].get("labels"), None);
}

async fn removing_a_required_field_is_invalid(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    c.api()
        .patch(&path, MERGE, json!({"spec": null}))
        .await
        .expect_error(422, "Invalid");
    c.api()
        .patch(&path, MERGE, json!({"spec": {"template": null}}))
        .await
        .expect_error(422, "Invalid");
    unchanged(&c, &path, &made).await;
}

/// Before, most of these were errors without a reason.
async fn patch_that_is_no_object_is_a_bad_request(c: Cluster) {
    let path = create(&c, json!({})).await;
    let before = c.api().get(&path).await.expect(200);
    for body in ["[]", "\"x\"", "3", "nope", ""] {
        bad_request_starting(&c.api().patch(&path, MERGE, body).await, "error decoding patch: ");
    }
    bad_request(&c.api().patch(&path, MERGE, "null").await, "Invalid JSON Patch");
    unchanged(&c, &path, &before).await;
}

async fn directives_of_strategic_patches_mean_nothing(c: Cluster) {
    let path = create(&c, json!({"data": {"k": "1"}})).await;
    let change = json!({"data": {"$patch": "replace", "l": "2"}});
    // `$patch` is a key like any other, and no valid one.
    let reply = c.api().patch(&path, MERGE, change).await;
    reply.expect_error(422, "Invalid");
    reply.check(
        reply.causes()[0].field == "data[$patch]",
        "expected the key to be refused",
    );
}
