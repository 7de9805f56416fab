//! Patches of finalizers and owner references preserve all other fields.

use serde_json::{Value, json};
use steersman_manager::client::Patch;
use steersman_manager::object::{Key, Meta, MetaObject, Resource};
use steersman_manager::{finalizer, owner};

use crate::fixture::{Fixture, fixture};

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const OURS: &str = "steersman.dev/ours";

fn key() -> Key {
    Key::new("default", "map")
}

/// Creates an object with fields of another client.
async fn shared(fixture: &Fixture) -> (Value, Meta) {
    let object = json!({"metadata": {
        "name": "map",
        "labels": {"theirs": "1"},
        "annotations": {"theirs.dev/a": "2"},
        "finalizers": ["theirs.dev/first", "theirs.dev/second"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "other", "blockOwnerDeletion": true}],
    }, "data": {"theirs": "3"}});
    let created = fixture.create(&MAPS, "default", &object).await;
    let meta = meta(&created);
    (created, meta)
}

fn meta(object: &Value) -> Meta {
    let object: MetaObject = serde_json::from_value(object.clone()).expect("an object");
    object.metadata
}

/// Asserts equality, except for this field and fields that every write changes.
fn assert_equal_except(before: &Value, after: &Value, field: &str) {
    let strip = |object: &Value| {
        let mut object = object.clone();
        let meta = object["metadata"].as_object_mut().expect("metadata");
        for field in ["resourceVersion", "managedFields", field] {
            meta.remove(field);
        }
        object
    };
    assert_eq!(strip(before), strip(after));
}

#[tokio::test(start_paused = true)]
async fn finalizer_is_added_and_removed_without_other_changes() {
    let fixture = fixture();
    let (before, meta) = shared(&fixture).await;
    let added = finalizer::add(&fixture.client, &MAPS, &meta, OURS)
        .await
        .expect("added");
    let added = added.expect("a change");
    let after = fixture.get(&MAPS, &key()).await;
    assert_eq!(
        after["metadata"]["finalizers"],
        json!(["theirs.dev/first", "theirs.dev/second", OURS])
    );
    assert_eq!(
        added.resource_version.to_string(),
        after["metadata"]["resourceVersion"]
    );
    assert_equal_except(&before, &after, "finalizers");
    let again = finalizer::add(&fixture.client, &MAPS, &added, OURS).await;
    assert_eq!(again.expect("no request"), None);

    let removed = finalizer::remove(&fixture.client, &MAPS, &added, OURS)
        .await
        .expect("removed");
    assert!(removed.is_some());
    let last = fixture.get(&MAPS, &key()).await;
    assert_eq!(last["metadata"]["finalizers"], before["metadata"]["finalizers"]);
    assert_equal_except(&before, &last, "finalizers");
}

#[tokio::test(start_paused = true)]
async fn stale_finalizer_patch_fails_with_conflict() {
    let fixture = fixture();
    let (_, stale) = shared(&fixture).await;
    finalizer::add(&fixture.client, &MAPS, &stale, "theirs.dev/third")
        .await
        .expect("added");
    let conflict = finalizer::add(&fixture.client, &MAPS, &stale, OURS).await;
    assert!(conflict.expect_err("stale").is_conflict());
    let after = fixture.get(&MAPS, &key()).await;
    assert_eq!(after["metadata"]["finalizers"][2], "theirs.dev/third");
}

#[tokio::test(start_paused = true)]
async fn finalizer_of_a_deleted_object_needs_no_removal() {
    let fixture = fixture();
    let gone: Meta = serde_json::from_value(json!({"namespace": "default", "name": "map", "uid": "u",
        "resourceVersion": "5", "finalizers": [OURS]}))
    .expect("metadata");
    let removed = finalizer::remove(&fixture.client, &MAPS, &gone, OURS).await;
    assert_eq!(removed.expect("nothing to do"), None);
}

#[tokio::test(start_paused = true)]
async fn object_is_adopted_and_released_without_other_changes() {
    let fixture = fixture();
    let (before, object) = shared(&fixture).await;
    let owner: Meta =
        serde_json::from_value(json!({"namespace": "default", "name": "set", "uid": "set-uid"}))
            .expect("metadata");
    let sets = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    let patch = owner::adopt_patch(&sets, &owner, &object);
    let adopted: Value = fixture
        .client
        .patch(&MAPS, &key(), Patch::merge(&patch))
        .await
        .expect("adopted");
    assert_equal_except(&before, &adopted, "ownerReferences");
    assert_eq!(
        adopted["metadata"]["ownerReferences"][0],
        before["metadata"]["ownerReferences"][0]
    );
    assert_eq!(
        adopted["metadata"]["ownerReferences"][1],
        owner::controller_ref(&sets, &owner)
    );
    let adopted = meta(&adopted);
    assert_eq!(owner::claim(&owner, &adopted, true), owner::Claim::Owned);

    let stale = owner::release_patch(&owner, &adopted).expect("a reference");
    finalizer::add(&fixture.client, &MAPS, &adopted, "theirs.dev/third")
        .await
        .expect("added");
    let conflict = fixture
        .client
        .patch::<Value>(&MAPS, &key(), Patch::merge(&stale))
        .await;
    assert!(conflict.expect_err("stale").is_conflict());

    let fresh = meta(&fixture.get(&MAPS, &key()).await);
    let patch = owner::release_patch(&owner, &fresh).expect("a reference");
    let released: Value = fixture
        .client
        .patch(&MAPS, &key(), Patch::merge(&patch))
        .await
        .expect("released");
    assert_eq!(
        released["metadata"]["ownerReferences"],
        before["metadata"]["ownerReferences"]
    );
    assert_equal_except(&before, &released, "finalizers");
}
