//! Event handlers: map a delta to the keys of the objects to reconcile.
//!
//! A handler maps both states of an update: if an object changes its owner, both owners are reconciled.
//!
//! ```
//! use steersman_manager::cache::Delta;
//! use steersman_manager::handler::Handler;
//! use steersman_manager::object::{Key, MetaObject, Resource};
//! use k8s_openapi::api::apps::v1::ReplicaSet;
//!
//! let pod: MetaObject = serde_json::from_value(serde_json::json!({"metadata": {
//!     "namespace": "default", "name": "web-0", "ownerReferences": [
//!         {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "7c1e", "controller": true},
//!     ]}}))?;
//! let handler = Handler::for_owner(Resource::of::<ReplicaSet>());
//! assert_eq!(handler.requests(&Delta::Deleted { last: pod.into() }), [Key::new("default", "web")]);
//! # Ok::<_, serde_json::Error>(())
//! ```

use std::fmt;
use std::sync::Arc;

use crate::cache::Delta;
use crate::object::{Key, Meta, Object, OwnerRef, Resource};
use crate::queue::Item;

/// A pure function from objects to keys. Clones share it.
pub struct Handler<T, Q = Key>(Arc<Requests<T, Q>>);

type Requests<T, Q> = dyn Fn(&T) -> Vec<Q> + Send + Sync;

impl<T: Object> Handler<T> {
    /// Maps an object to its own key.
    #[must_use]
    pub fn for_object() -> Self {
        Self::map(|object: &T| vec![object.meta().key()])
    }

    /// Maps an object to the key of its controller, if that is an `owner`, in any version of its group: the version of an
    /// ownerReference is not part of the identity of the owner.
    #[must_use]
    pub fn for_owner(owner: Resource) -> Self {
        Self::map(move |object: &T| {
            let meta = object.meta();
            let controller = meta.controller();
            let key = controller.and_then(|reference| owner_key(meta, reference, &owner));
            key.into_iter().collect()
        })
    }

    /// Maps an object to the keys of all its owners that are an `owner`, not only of its controller.
    #[must_use]
    pub fn for_any_owner(owner: Resource) -> Self {
        Self::map(move |object: &T| {
            let meta = object.meta();
            let references = meta.owner_references.iter();
            references
                .filter_map(|reference| owner_key(meta, reference, &owner))
                .collect()
        })
    }
}

impl<T, Q: Item> Handler<T, Q> {
    /// Maps an object by `requests`, which is called for both states of an update.
    pub fn map(requests: impl Fn(&T) -> Vec<Q> + Send + Sync + 'static) -> Self {
        Self(Arc::new(requests))
    }

    /// Returns the requests to enqueue, without duplicates.
    #[must_use]
    pub fn requests(&self, delta: &Delta<T>) -> Vec<Q> {
        let mut requests = (self.0)(delta.latest());
        if let Delta::Updated { old, .. } = delta {
            requests.extend((self.0)(old));
        }
        if requests.len() > 1 {
            requests.sort();
            requests.dedup();
        }
        requests
    }
}

fn owner_key(meta: &Meta, reference: &OwnerRef, owner: &Resource) -> Option<Key> {
    let group = reference
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    if group != owner.group || reference.kind != *owner.kind {
        return None;
    }
    if !owner.namespaced {
        return Some(Key::cluster(reference.name.clone()));
    }
    // A namespaced owner is in the namespace of its dependents; a cluster-scoped object cannot have one.
    let namespaced = !meta.namespace.is_empty();
    namespaced.then(|| Key::new(meta.namespace.clone(), reference.name.clone()))
}

// Not derived: that would require `T: Clone`.
impl<T, Q> Clone for Handler<T, Q> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, Q> fmt::Debug for Handler<T, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    use crate::object::MetaObject;

    fn sets() -> Resource {
        Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet")
    }

    /// Returns the object `namespace`/a with these ownerReferences.
    fn owned(namespace: &str, owners: &serde_json::Value) -> Arc<MetaObject> {
        let json = json!({"metadata": {"namespace": namespace, "name": "a", "ownerReferences": owners}});
        Arc::new(serde_json::from_value(json).expect("an object"))
    }

    fn owner(api_version: &str, kind: &str, name: &str) -> serde_json::Value {
        json!([
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "1"},
            {"apiVersion": api_version, "kind": kind, "name": name, "uid": "2", "controller": true},
        ])
    }

    fn added(new: Arc<MetaObject>) -> Delta<MetaObject> {
        Delta::Added { new, initial: false }
    }

    #[test]
    fn for_object_returns_the_key_once() {
        let handler = Handler::for_object();
        let object = owned("ns", &json!([]));
        let updated = Delta::Updated {
            old: object.clone(),
            new: object.clone(),
        };
        let deleted = Delta::Deleted { last: object.clone() };
        for delta in [added(object), updated, deleted] {
            assert_eq!(handler.requests(&delta), [Key::new("ns", "a")]);
        }
    }

    #[test]
    fn for_owner_matches_controller_by_group_and_kind() {
        let handler = Handler::for_owner(sets());
        for (api_version, kind, keys) in [
            ("apps/v1", "ReplicaSet", vec![Key::new("ns", "x")]),
            ("apps/v1beta2", "ReplicaSet", vec![Key::new("ns", "x")]),
            ("apps/v1", "Deployment", vec![]),
            ("apps.example.com/v1", "ReplicaSet", vec![]),
            ("v1", "ReplicaSet", vec![]),
        ] {
            let object = owned("ns", &owner(api_version, kind, "x"));
            assert_eq!(handler.requests(&added(object)), keys, "{api_version} {kind}");
        }
        let unowned = owned("ns", &json!([]));
        assert!(handler.requests(&added(unowned)).is_empty());
    }

    #[test]
    fn for_any_owner_matches_all_owners() {
        let handler = Handler::for_any_owner(sets());
        let object = owned("ns", &owner("apps/v1", "ReplicaSet", "x"));
        assert_eq!(
            handler.requests(&added(object)),
            [Key::new("ns", "other"), Key::new("ns", "x")]
        );
    }

    #[test]
    fn for_owner_matches_the_core_group() {
        let handler = Handler::for_owner(Resource::namespaced(
            "",
            "v1",
            "replicationcontrollers",
            "ReplicationController",
        ));
        let object = owned("ns", &owner("v1", "ReplicationController", "x"));
        assert_eq!(handler.requests(&added(object)), [Key::new("ns", "x")]);
    }

    #[test]
    fn for_owner_uses_the_scope_of_the_owner() {
        let node = Handler::for_owner(Resource::cluster("", "v1", "nodes", "Node"));
        let object = owned("ns", &owner("v1", "Node", "x"));
        assert_eq!(node.requests(&added(object)), [Key::cluster("x")]);
        let set = Handler::for_owner(sets());
        let cluster_scoped = owned("", &owner("apps/v1", "ReplicaSet", "x"));
        assert!(set.requests(&added(cluster_scoped)).is_empty());
    }

    #[test]
    fn update_maps_to_the_old_and_the_new_owner() {
        let handler = Handler::for_owner(sets());
        let state = |name| owned("ns", &owner("apps/v1", "ReplicaSet", name));
        let keys = |old, new| handler.requests(&Delta::Updated { old, new });
        assert_eq!(
            keys(state("y"), state("x")),
            [Key::new("ns", "x"), Key::new("ns", "y")]
        );
        assert_eq!(keys(state("x"), state("x")), [Key::new("ns", "x")]);
        assert_eq!(keys(state("x"), owned("ns", &json!([]))), [Key::new("ns", "x")]);
        assert_eq!(keys(owned("ns", &json!([])), state("x")), [Key::new("ns", "x")]);
    }

    #[test]
    fn map_is_called_for_both_states() {
        let handler = Handler::map(|object: &MetaObject| {
            let owners = object.metadata.owner_references.iter();
            owners.map(|owner| Key::cluster(owner.name.clone())).collect()
        });
        let delta = Delta::Updated {
            old: owned("ns", &owner("v1", "A", "old")),
            new: owned("ns", &owner("v1", "A", "new")),
        };
        assert_eq!(
            handler.requests(&delta),
            ["new", "old", "other"].map(Key::cluster),
            "each once"
        );
    }
}
