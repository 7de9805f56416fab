//! Every patch that the tools make, on an object that is also somebody else's: what they do not own stays.

use coxswain_manager::client::Patch;
use coxswain_manager::object::{Key, Meta, MetaObject, Resource};
use coxswain_manager::{finalizer, owner};
use serde_json::{Value, json};

use super::{Bed, bed};

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const OURS: &str = "coxswain.dev/ours";

fn key() -> Key {
    Key::new("default", "map")
}

/// An object that has everything that another writer may have put there.
async fn shared(bed: &Bed) -> (Value, Meta) {
    let object = json!({"metadata": {
        "name": "map",
        "labels": {"theirs": "1"},
        "annotations": {"theirs.dev/a": "2"},
        "finalizers": ["theirs.dev/first", "theirs.dev/second"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "other", "blockOwnerDeletion": true}],
    }, "data": {"theirs": "3"}});
    let created = bed.create(&MAPS, "default", &object).await;
    let meta = meta(&created);
    (created, meta)
}

fn meta(object: &Value) -> Meta {
    let object: MetaObject = serde_json::from_value(object.clone()).expect("an object");
    object.metadata
}

/// Both without what a write changes anyway, and without the named field.
fn same_but(before: &Value, after: &Value, field: &str) {
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
async fn a_finalizer_comes_and_goes_and_the_rest_stays() {
    let bed = bed();
    let (before, meta) = shared(&bed).await;
    let added = finalizer::add(&bed.client, &MAPS, &meta, OURS)
        .await
        .expect("added");
    let added = added.expect("there was something to do");
    let after = bed.get(&MAPS, &key()).await;
    assert_eq!(
        after["metadata"]["finalizers"],
        json!(["theirs.dev/first", "theirs.dev/second", OURS])
    );
    assert_eq!(
        added.resource_version.to_string(),
        after["metadata"]["resourceVersion"]
    );
    same_but(&before, &after, "finalizers");
    let again = finalizer::add(&bed.client, &MAPS, &added, OURS).await;
    assert_eq!(again.expect("no request"), None);

    let removed = finalizer::remove(&bed.client, &MAPS, &added, OURS)
        .await
        .expect("removed");
    assert!(removed.is_some());
    let last = bed.get(&MAPS, &key()).await;
    assert_eq!(last["metadata"]["finalizers"], before["metadata"]["finalizers"]);
    same_but(&before, &last, "finalizers");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_somebody_else_added_in_between_is_not_lost() {
    let bed = bed();
    let (_, stale) = shared(&bed).await;
    finalizer::add(&bed.client, &MAPS, &stale, "theirs.dev/third")
        .await
        .expect("added");
    let refused = finalizer::add(&bed.client, &MAPS, &stale, OURS).await;
    assert!(refused.expect_err("stale").is_conflict());
    let after = bed.get(&MAPS, &key()).await;
    assert_eq!(after["metadata"]["finalizers"][2], "theirs.dev/third");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_has_no_finalizer_to_remove() {
    let bed = bed();
    let gone: Meta = serde_json::from_value(json!({"namespace": "default", "name": "map", "uid": "u",
        "resourceVersion": "5", "finalizers": [OURS]}))
    .expect("metadata");
    let removed = finalizer::remove(&bed.client, &MAPS, &gone, OURS).await;
    assert_eq!(removed.expect("nothing to do"), None);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_adopted_and_released_and_the_rest_stays() {
    let bed = bed();
    let (before, object) = shared(&bed).await;
    let owner: Meta =
        serde_json::from_value(json!({"namespace": "default", "name": "set", "uid": "set-uid"}))
            .expect("metadata");
    let sets = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    let patch = owner::adopt_patch(&sets, &owner, &object);
    let adopted: Value = bed
        .client
        .patch(&MAPS, &key(), Patch::merge(&patch))
        .await
        .expect("adopted");
    same_but(&before, &adopted, "ownerReferences");
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

    let stale = owner::release_patch(&owner, &adopted).expect("it is ours");
    finalizer::add(&bed.client, &MAPS, &adopted, "theirs.dev/third")
        .await
        .expect("a change in between");
    let refused = bed
        .client
        .patch::<Value>(&MAPS, &key(), Patch::merge(&stale))
        .await;
    assert!(refused.expect_err("stale").is_conflict());

    let fresh = meta(&bed.get(&MAPS, &key()).await);
    let patch = owner::release_patch(&owner, &fresh).expect("it is ours");
    let released: Value = bed
        .client
        .patch(&MAPS, &key(), Patch::merge(&patch))
        .await
        .expect("released");
    assert_eq!(
        released["metadata"]["ownerReferences"],
        before["metadata"]["ownerReferences"]
    );
    same_but(&before, &released, "finalizers");
}
