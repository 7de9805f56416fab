//! Built-in and custom resources, and resources that are not served yet.

use std::borrow::Cow;

use serde_json::{Value, json};
use steersman_harness::{Cluster, Test, fixtures, test};
use steersman_manager::cache::{Cache, Delta, Lookup, Status};
use steersman_manager::object::{MetaObject, Resource};

use super::{Fixture, line, next_delta};
use crate::process::{soon, until};

pub fn tests() -> Vec<Test> {
    vec![
        test!(metadata_of_a_built_in_resource_is_cached),
        test!(metadata_of_a_custom_resource_is_cached),
        test!(unserved_resource_syncs_when_it_is_served),
    ]
}

/// Returns the resource of [`fixtures::definition`].
fn defined(singular: &str) -> Resource {
    let (first, rest) = singular.split_at(1);
    Resource {
        plural: Cow::Owned(format!("{singular}s")),
        kind: Cow::Owned(format!("{}{rest}", first.to_uppercase())),
        ..Resource::namespaced("example.com", "v1", "", "")
    }
}

async fn metadata_of_a_built_in_resource_is_cached(c: Cluster) {
    let f = Fixture::new(&c).await;
    let sets = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    follow_metadata(&f, &sets, &fixtures::replica_set("a")).await;
}

async fn metadata_of_a_custom_resource_is_cached(c: Cluster) {
    fixtures::define(&c, "cachedthing", &json!({})).await;
    let f = Fixture::new(&c).await;
    let thing = fixtures::named("example.com/v1", "Cachedthing", "a");
    let thing = fixtures::with(thing, json!({"spec": {"size": 3}}));
    follow_metadata(&f, &defined("cachedthing"), &thing).await;
    fixtures::undefine(&c, "cachedthing").await;
}

async fn follow_metadata(f: &Fixture, resource: &Resource, object: &Value) {
    let collection = resource.collection(&f.ns);
    let path = resource.path(&f.key("a"));
    let api = f.c.api();
    let owner = json!({"metadata": {
        "labels": {"x": "1"}, "finalizers": ["example.com/hold"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "controller": true},
        ],
    }});
    let object = fixtures::with(object.clone(), owner);
    let cache = f.caches.metadata(resource);
    soon("the cache syncs", cache.synced()).await;
    let mut changes = cache.subscribe();
    api.post(&collection, &object).await.expect(201);
    let added = next_delta(&mut changes).await;
    assert!(matches!(&added, Delta::Added { initial: false, .. }), "{added:?}");
    let metadata = &added.latest().metadata;
    assert_eq!(metadata.labels.get("x").map(|x| &**x), Some("1"));
    assert!(metadata.has_finalizer("example.com/hold"));
    let controller = metadata.controller().expect("an owner");
    assert_eq!((&*controller.kind, &*controller.name), ("ConfigMap", "o"));

    let change = json!({"metadata": {"labels": {"x": "2"}}});
    api.patch(&path, fixtures::MERGE, change).await.expect(200);
    let Delta::Updated { old, new } = next_delta(&mut changes).await else {
        panic!("not an update");
    };
    assert_eq!(old.metadata.labels.get("x").map(|x| &**x), Some("1"));
    assert_eq!(new.metadata.labels.get("x").map(|x| &**x), Some("2"));

    api.delete(&path, ()).await.expect(200);
    let marked = next_delta(&mut changes).await;
    assert!(marked.latest().metadata.is_terminating(), "{marked:?}");
    let release = json!({"metadata": {"finalizers": null}});
    api.patch(&path, fixtures::MERGE, release).await.expect(200);
    assert_eq!(line(&mut changes).await, "Deleted a");
    assert_eq!(cache.get(&f.key("a")), Lookup::Absent);
}

async fn unserved_resource_syncs_when_it_is_served(c: Cluster) {
    let f = Fixture::new(&c).await;
    let resource = defined("latething");
    let cache: Cache<MetaObject> = f.caches.of(&resource);
    let mut changes = cache.subscribe();
    until("the cache is unavailable", || cache.status().is_unavailable()).await;
    assert!(!cache.is_synced());
    assert!(cache.version().is_none(), "nothing was read yet");
    let Status::Unavailable { reason } = cache.status() else {
        panic!("it waits");
    };
    assert!(reason.contains("latethings"), "{reason}");
    // A resource that is not served does not block a new leader.
    let unserved = soon("catch-up does not wait for it", f.caches.catch_up(&[].into())).await;
    assert_eq!(unserved.len(), 1, "{unserved:?}");
    assert_eq!(unserved[0].0, resource);

    fixtures::define(&c, "latething", &json!({})).await;
    let thing = fixtures::named("example.com/v1", "Latething", "a");
    c.api().post(&resource.collection(&f.ns), thing).await.expect(201);
    let first = next_delta(&mut changes).await;
    assert_eq!(first.key(), f.key("a"));
    until("the cache is synced", || cache.status() == Status::Synced).await;
    assert!(cache.is_synced());
    fixtures::undefine(&c, "latething").await;
}
