//! Owner references: which objects a controller owns, adopts and releases.
//!
//! [`claim`] follows the rules of kube-controller-manager. The patches contain all owner references, because a merge patch
//! cannot change parts of a list. They carry the uid and the resourceVersion of the list, so that a concurrent change fails
//! them with 409 Conflict and no reference is lost.
//!
//! Before the first adoption of a sync the caller must read the owner live: an owner that was deleted or replaced since the
//! cache observed it must not adopt.
//!
//! ```
//! use steersman_manager::object::{Meta, Resource};
//! use steersman_manager::owner::{self, Claim};
//! use k8s_openapi::api::apps::v1::ReplicaSet;
//! use serde_json::json;
//!
//! let set: Meta = serde_json::from_value(json!({"namespace": "default", "name": "web", "uid": "7c1e"}))?;
//! let pod: Meta = serde_json::from_value(json!({"namespace": "default", "name": "web-0", "uid": "9a4b"}))?;
//! let matches_selector = true;
//! assert_eq!(owner::claim(&set, &pod, matches_selector), Claim::Adopt);
//! let patch = owner::adopt_patch(&Resource::of::<ReplicaSet>(), &set, &pod);
//! assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "7c1e");
//! # Ok::<_, serde_json::Error>(())
//! ```

use serde_json::{Value, json};

use crate::object::{Meta, OwnerRef, Resource};

/// The relation of an object to a possible owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Controlled by the owner and matched by its selector.
    Owned,
    /// Without a controller and matched: to be adopted.
    Adopt,
    /// Controlled by the owner but no longer matched: to be released.
    Release,
    /// Not related.
    Ignore,
}

/// Returns the relation of `object` to `owner`, whose selector matches it or not.
#[must_use]
pub fn claim(owner: &Meta, object: &Meta, matches: bool) -> Claim {
    if let Some(controller) = object.controller() {
        return match controller.uid == owner.uid {
            true if matches => Claim::Owned,
            // A terminating owner neither adopts nor releases: garbage collection handles its dependents.
            true if !owner.is_terminating() => Claim::Release,
            _ => Claim::Ignore,
        };
    }
    let together = owner.namespace.is_empty() || owner.namespace == object.namespace;
    if matches && together && !owner.is_terminating() && !object.is_terminating() {
        Claim::Adopt
    } else {
        Claim::Ignore
    }
}

/// Returns the controller reference to `owner`, an object of `resource`.
#[must_use]
pub fn controller_ref(resource: &Resource, owner: &Meta) -> Value {
    json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Returns the merge patch that makes `owner`, an object of `resource`, the controller of `object`. An existing reference
/// to the owner is replaced in its position.
#[must_use]
pub fn adopt_patch(resource: &Resource, owner: &Meta, object: &Meta) -> Value {
    let ours = controller_ref(resource, owner);
    let is_ours = |it: &OwnerRef| it.uid == owner.uid;
    let mut references: Vec<Value> = object
        .owner_references
        .iter()
        .map(|it| if is_ours(it) { ours.clone() } else { write(it) })
        .collect();
    if !object.owner_references.iter().any(is_ours) {
        references.push(ours);
    }
    patch(object, &references)
}

/// Returns the merge patch that removes the reference to `owner`; none if there is no such reference.
#[must_use]
pub fn release_patch(owner: &Meta, object: &Meta) -> Option<Value> {
    let rest = object.owner_references.iter().filter(|it| it.uid != owner.uid);
    let rest: Vec<Value> = rest.map(write).collect();
    (rest.len() < object.owner_references.len()).then(|| patch(object, &rest))
}

fn patch(object: &Meta, references: &[Value]) -> Value {
    let mut metadata = object.preconditions();
    metadata["ownerReferences"] = json!(references);
    json!({"metadata": metadata})
}

/// Encodes a reference with all fields of the API.
fn write(reference: &OwnerRef) -> Value {
    let OwnerRef {
        api_version,
        kind,
        name,
        uid,
        controller,
        block_owner_deletion,
    } = reference;
    let mut json = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
    if *controller {
        json["controller"] = json!(true);
    }
    if *block_owner_deletion {
        json["blockOwnerDeletion"] = json!(true);
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");

    fn owner(json: &Value) -> Meta {
        let mut meta = json!({"namespace": "ns", "name": "set", "uid": "own"});
        meta.as_object_mut()
            .expect("an object")
            .extend(json.as_object().cloned().unwrap_or_default());
        serde_json::from_value(meta).expect("metadata")
    }

    fn object(references: &Value) -> Meta {
        object_with(references, &json!({}))
    }

    fn object_with(references: &Value, more: &Value) -> Meta {
        let mut meta = json!({"namespace": "ns", "name": "pod", "uid": "p", "resourceVersion": "3",
                              "ownerReferences": references});
        meta.as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().unwrap_or_default());
        serde_json::from_value(meta).expect("metadata")
    }

    fn reference(uid: &str, controller: bool) -> Value {
        let mut it = json!({"apiVersion": "v1", "kind": "Other", "name": uid, "uid": uid});
        if controller {
            it["controller"] = json!(true);
        }
        it
    }

    #[test]
    fn claim_follows_the_table() {
        let gone = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let (none, deleting) = (json!({}), gone.clone());
        let free = json!([reference("other", false)]);
        let upgradable = json!([reference("own", false)]);
        let ours = json!([reference("own", true)]);
        let theirs = json!([reference("other", true), reference("own", false)]);
        let elsewhere = json!({"namespace": "elsewhere"});
        #[rustfmt::skip]
        let table = [
            // owner     object       object is   matches  unmatched
            (&none,      &free,       &none,      Claim::Adopt,  Claim::Ignore),
            (&none,      &upgradable, &none,      Claim::Adopt,  Claim::Ignore),
            (&none,      &ours,       &none,      Claim::Owned,   Claim::Release),
            (&none,      &theirs,     &none,      Claim::Ignore, Claim::Ignore),
            (&none,      &free,       &gone,      Claim::Ignore, Claim::Ignore),
            (&none,      &ours,       &gone,      Claim::Owned,   Claim::Release),
            (&none,      &free,       &elsewhere, Claim::Ignore, Claim::Ignore),
            (&deleting,  &free,       &none,      Claim::Ignore, Claim::Ignore),
            (&deleting,  &ours,       &none,      Claim::Owned,   Claim::Ignore),
            (&deleting,  &theirs,     &none,      Claim::Ignore, Claim::Ignore),
        ];
        for (owned_by, references, more, matched, unmatched) in table {
            let (owner, object) = (owner(owned_by), object_with(references, more));
            assert_eq!(claim(&owner, &object, true), matched, "{owner:?} {object:?}");
            assert_eq!(claim(&owner, &object, false), unmatched, "{owner:?} {object:?}");
        }
    }

    #[test]
    fn cluster_scoped_owner_may_adopt_in_any_namespace() {
        let owner = owner(&json!({"namespace": ""}));
        assert_eq!(claim(&owner, &object(&json!([])), true), Claim::Adopt);
    }

    #[test]
    fn adoption_keeps_other_references_and_upgrades_its_own() {
        let owner = owner(&json!({}));
        let ours = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "own",
                          "controller": true, "blockOwnerDeletion": true});
        let mut blocking = reference("b", false);
        blocking["blockOwnerDeletion"] = json!(true);
        let before = json!([reference("a", false), blocking]);
        let patch = adopt_patch(&SETS, &owner, &object(&before));
        let expected =
            json!({"uid": "p", "resourceVersion": "3", "ownerReferences": [before[0], before[1], ours]});
        assert_eq!(patch, json!({"metadata": expected}));
        let before = json!([reference("own", false), reference("a", false)]);
        let patch = adopt_patch(&SETS, &owner, &object(&before));
        assert_eq!(patch["metadata"]["ownerReferences"], json!([ours, before[1]]));
    }

    #[test]
    fn release_removes_only_its_own_reference() {
        let owner = owner(&json!({}));
        let before = json!([
            reference("a", false),
            reference("own", true),
            reference("b", false)
        ]);
        let patch = release_patch(&owner, &object(&before));
        let expected = json!({"uid": "p", "resourceVersion": "3", "ownerReferences": [before[0], before[2]]});
        assert_eq!(patch, Some(json!({"metadata": expected})));
        assert_eq!(
            release_patch(&owner, &object(&json!([reference("a", true)]))),
            None
        );
    }
}
