//! Any kind: built in or defined by somebody, in full or by its metadata, there or not there yet.

use std::borrow::Cow;

use coxswain_manager::cache::{Cache, Delta, Lookup, Status};
use coxswain_manager::object::{MetaObject, Resource};
use coxswain_tests::{Cluster, Test, fixtures, test};
use serde_json::{Value, json};

use super::{Bed, line, told};
use crate::process::{soon, until};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        test!(the_metadata_of_a_built_in_kind_is_followed),
        test!(the_metadata_of_a_defined_kind_is_followed),
        test!(a_kind_that_is_not_served_waits_and_fills_when_it_is),
    ]
}

/// The resource of [`fixtures::definition`].
fn defined(singular: &str) -> Resource {
    let (first, rest) = singular.split_at(1);
    Resource {
        plural: Cow::Owned(format!("{singular}s")),
        kind: Cow::Owned(format!("{}{rest}", first.to_uppercase())),
        ..Resource::namespaced("example.com", "v1", "", "")
    }
}

async fn the_metadata_of_a_built_in_kind_is_followed(c: Cluster) {
    let bed = Bed::new(&c).await;
    let sets = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    follow_metadata(&bed, &sets, &fixtures::replica_set("a")).await;
}

async fn the_metadata_of_a_defined_kind_is_followed(c: Cluster) {
    fixtures::define(&c, "cachedthing", &json!({})).await;
    let bed = Bed::new(&c).await;
    let thing = fixtures::named("example.com/v1", "Cachedthing", "a");
    let thing = fixtures::with(thing, json!({"spec": {"size": 3}}));
    follow_metadata(&bed, &defined("cachedthing"), &thing).await;
    fixtures::undefine(&c, "cachedthing").await;
}

async fn follow_metadata(bed: &Bed, resource: &Resource, object: &Value) {
    let collection = resource.collection(&bed.ns);
    let path = resource.path(&bed.key("a"));
    let api = bed.c.api();
    let owner = json!({"metadata": {
        "labels": {"x": "1"}, "finalizers": ["example.com/hold"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "controller": true},
        ],
    }});
    let object = fixtures::with(object.clone(), owner);
    let cache = bed.caches.metadata(resource);
    soon("the cache is filled", cache.synced()).await;
    let mut changes = cache.subscribe();
    api.post(&collection, &object).await.expect(201);
    let added = told(&mut changes).await;
    assert!(matches!(&added, Delta::Added { initial: false, .. }), "{added:?}");
    let metadata = &added.latest().metadata;
    assert_eq!(metadata.labels.get("x").map(|x| &**x), Some("1"));
    assert!(metadata.has_finalizer("example.com/hold"));
    let controller = metadata.controller().expect("an owner");
    assert_eq!((&*controller.kind, &*controller.name), ("ConfigMap", "o"));

    let change = json!({"metadata": {"labels": {"x": "2"}}});
    api.patch(&path, fixtures::MERGE, change).await.expect(200);
    let Delta::Updated { old, new } = told(&mut changes).await else {
        panic!("no update");
    };
    assert_eq!(old.metadata.labels.get("x").map(|x| &**x), Some("1"));
    assert_eq!(new.metadata.labels.get("x").map(|x| &**x), Some("2"));

    api.delete(&path, ()).await.expect(200);
    let marked = told(&mut changes).await;
    assert!(marked.latest().metadata.is_deleting(), "{marked:?}");
    let release = json!({"metadata": {"finalizers": null}});
    api.patch(&path, fixtures::MERGE, release).await.expect(200);
    assert_eq!(line(&mut changes).await, "Deleted a");
    assert_eq!(cache.get(&bed.key("a")), Lookup::Absent);
}

async fn a_kind_that_is_not_served_waits_and_fills_when_it_is(c: Cluster) {
    let bed = Bed::new(&c).await;
    let resource = defined("latething");
    let cache: Cache<MetaObject> = bed.caches.of(&resource);
    let mut changes = cache.subscribe();
    until("the cache says that it waits", || cache.status().is_waiting()).await;
    assert!(!cache.is_synced());
    let Status::Waiting { reason } = cache.status() else {
        panic!("it waits");
    };
    assert!(reason.contains("latethings"), "{reason}");
    // A kind that is not there is no obstacle to a new leader.
    let unserved = soon("nobody waits for it", bed.caches.catch_up(&[].into())).await;
    assert_eq!(unserved.len(), 1, "{unserved:?}");
    assert_eq!(unserved[0].0, resource);

    fixtures::define(&c, "latething", &json!({})).await;
    let thing = fixtures::named("example.com/v1", "Latething", "a");
    c.api()
        .post(&resource.collection(&bed.ns), thing)
        .await
        .expect(201);
    let first = told(&mut changes).await;
    assert_eq!(first.key(), bed.key("a"));
    until("the cache says that it follows", || {
        cache.status() == Status::Synced
    })
    .await;
    assert!(cache.is_synced());
    fixtures::undefine(&c, "latething").await;
}
