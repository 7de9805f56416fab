//! Annotations of Deployments and `ReplicaSets`, and how caches keep annotations.

use coxswain_manager::object::{Interner, Meta, StringMap};

/// What `kubectl apply` keeps of what it was given: a copy of the whole object.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The number of a rollout.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The numbers that a `ReplicaSet` had before.
pub const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How many pods the Deployment wanted when the `ReplicaSet` was last scaled.
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// How many pods there could be at that time.
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Asks for a revision to be rolled back to.
pub const ROLLBACK: &str = "deprecated.deployment.rollback.to";
/// Says that the template of a `ReplicaSet` was changed on its way into the store. Holds the template that was sent.
pub const CHANGED: &str = "coxswain.dev/template-changed";

/// Moves the annotations out of the metadata, which would lose them on its way into a cache.
pub(crate) fn take_annotations(metadata: &mut Meta) -> StringMap {
    let all = std::mem::take(&mut metadata.annotations);
    let kept = all.iter().filter(|(key, _)| **key != *LAST_APPLIED);
    kept.cloned().collect()
}

/// Shares the keys, which many objects have in common.
pub(crate) fn intern_keys(pairs: &mut StringMap, interner: &mut Interner) {
    let shared = pairs.iter().cloned().map(|(mut key, value)| {
        interner.intern(&mut key);
        (key, value)
    });
    *pairs = shared.collect();
}
