//! The annotations that the controllers read and write.

use serde::Deserialize;
use steersman_manager::object::decode::null_is_default;
use steersman_manager::object::{Interner, Meta, StringMap};

/// A copy of the whole object, written by `kubectl apply`.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The revision of a Deployment or a `ReplicaSet`.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The earlier revisions of a `ReplicaSet`, separated by commas.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// `spec.replicas` of the Deployment when the `ReplicaSet` was last scaled.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The maximum number of pods of the Deployment at that time.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Requests a rollback to a revision.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// Marks a `ReplicaSet` whose template was changed on creation, by a webhook for example. Holds the template that was
/// sent.
pub const TEMPLATE_CHANGED: &str = "steersman.dev/template-changed";

/// A workload as the API server sends it.
#[derive(Default, Deserialize)]
#[serde(
    default,
    bound = "S: Default + Deserialize<'de>, T: Default + Deserialize<'de>"
)]
pub(super) struct Wire<S, T> {
    metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    spec: S,
    #[serde(deserialize_with = "null_is_default")]
    status: T,
}

impl<S, T> Wire<S, T> {
    /// Returns the metadata, its annotations, the spec and the status.
    pub(super) fn parts(mut self) -> (Meta, StringMap, S, T) {
        let annotations = take_annotations(&mut self.metadata);
        (self.metadata, annotations, self.spec, self.status)
    }
}

/// Moves the annotations out of the metadata, because caches drop most annotations of the metadata. Drops
/// [`LAST_APPLIED`].
fn take_annotations(metadata: &mut Meta) -> StringMap {
    let all = std::mem::take(&mut metadata.annotations);
    let kept = all.iter().filter(|(key, _)| **key != *LAST_APPLIED);
    kept.cloned().collect()
}

/// Interns the keys.
pub(crate) fn intern_keys(pairs: &mut StringMap, interner: &mut Interner) {
    let shared = pairs.iter().cloned().map(|(mut key, value)| {
        interner.intern(&mut key);
        (key, value)
    });
    *pairs = shared.collect();
}
