//! Metadata in a patch: preconditions, and what may not change.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{JSON_PATCH, MERGE, STRATEGIC, apps, deployment},
    test,
};
use serde_json::json;

use super::any::{create, everyway};
use crate::expect::{bad_request, invalid, speaks_1_36, stale, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(stale_version_is_a_conflict),
        test!(current_version_and_uid_pass),
        test!(other_uid_is_invalid),
        test!(name_and_namespace_may_not_change),
        test!(system_fields_stay),
    ]
}

async fn stale_version_is_a_conflict(c: Cluster) {
    let (path, made) = create(&c).await;
    for (kind, change) in everyway(&json!({"resourceVersion": "1", "labels": {"x": "y"}})) {
        stale(&c.api().patch(&path, kind, change).await, "configmaps", "a");
    }
    unchanged(&c, &path, &made).await;
}

async fn current_version_and_uid_pass(c: Cluster) {
    let (path, made) = create(&c).await;
    let mut version = made["metadata"]["resourceVersion"].clone();
    for (i, kind) in [MERGE, STRATEGIC, JSON_PATCH].into_iter().enumerate() {
        let meta = json!({"resourceVersion": version, "uid": made["metadata"]["uid"], "labels": {"x": format!("{i}")}});
        let change = everyway(&meta)
            .into_iter()
            .find_map(|(k, change)| (k == kind).then_some(change));
        let changed = c
            .api()
            .patch(&path, kind, change.unwrap_or_default())
            .await
            .expect(200);
        assert_eq!(changed["metadata"]["labels"], json!({"x": format!("{i}")}));
        version = changed["metadata"]["resourceVersion"].clone();
    }
    // None at all is as good.
    for meta in [
        json!({"resourceVersion": null}),
        json!({"resourceVersion": ""}),
        json!({"uid": null}),
    ] {
        c.api()
            .patch(&path, MERGE, json!({"metadata": meta}))
            .await
            .expect(200);
    }
    let read = c.api().get(&path).await.expect(200);
    assert_eq!(read["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(read["metadata"]["resourceVersion"], version);
}

/// Other than an update, a patch with a wrong uid is no conflict.
async fn other_uid_is_invalid(c: Cluster) {
    let (path, made) = create(&c).await;
    for (kind, change) in everyway(&json!({"uid": "other", "labels": {"x": "y"}})) {
        let reply = c.api().patch(&path, kind, change).await;
        invalid(
            &reply,
            &["Invalid metadata.uid: Invalid value: \"other\": field is immutable"],
        );
    }
    unchanged(&c, &path, &made).await;
}

async fn name_and_namespace_may_not_change(c: Cluster) {
    let (path, made) = create(&c).await;
    for (kind, change) in everyway(&json!({"name": "b"})) {
        let reply = c.api().patch(&path, kind, change).await;
        bad_request(
            &reply,
            "the name of the object (b) does not match the name on the URL (a)",
        );
    }
    let ns = made["metadata"]["namespace"].as_str().expect("a namespace");
    let message = if speaks_1_36(&c) {
        "the namespace of the provided object does not match the namespace sent on the request".to_owned()
    } else {
        format!("the namespace of the object (other) does not match the namespace on the request ({ns})")
    };
    for (kind, change) in everyway(&json!({"namespace": "other"})) {
        bad_request(&c.api().patch(&path, kind, change).await, &message);
    }
    let message = "the name of the object (a based on URL) was undeterminable: name must be provided";
    bad_request(
        &c.api().patch(&path, MERGE, json!({"metadata": null})).await,
        message,
    );
    unchanged(&c, &path, &made).await;
}

async fn system_fields_stay(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let made = c
        .api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    for (kind, change) in
        everyway(&json!({"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 8, "selfLink": "/z"}))
    {
        assert_eq!(
            c.api().patch(&path, kind, change).await.expect(200),
            made,
            "{kind}"
        );
    }
    for (kind, change) in everyway(&json!({"deletionTimestamp": "2001-01-01T00:00:00Z"})) {
        let reply = c.api().patch(&path, kind, change).await;
        invalid(
            &reply,
            &["Invalid metadata.deletionTimestamp: field is immutable"],
        );
    }
    unchanged(&c, &path, &made).await;
}
