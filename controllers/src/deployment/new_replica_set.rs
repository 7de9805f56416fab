//! The `ReplicaSet` of the current template: its size and its body.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use steersman_manager::object::Text;
use steersman_manager::owner::controller_ref;

use super::bounds::Bounds;
use super::replica_sets::ReplicaSets;
use super::{DEPLOYMENTS, REPLICA_SETS, revision};
use crate::support::deployment::Deployment;
use crate::support::pod_template::{POD_TEMPLATE_HASH, labelled};
use crate::support::template_hash::{self, Hash};

/// A `ReplicaSet` to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReplicaSet {
    /// Derived from the template, so that a repeated create does not create a second `ReplicaSet`.
    pub name: Text,
    /// The hash of the template.
    pub hash: Hash,
    /// The initial size.
    pub replicas: i64,
    /// The revision annotation.
    pub revision: i64,
    /// The JSON of the object.
    pub body: Bytes,
}

/// Returns the size of the new `ReplicaSet` in a rolling update: the present size plus the room within the bounds, at
/// most the desired number of pods.
#[must_use]
pub fn rolling_size(bounds: &Bounds, sets: &ReplicaSets) -> i64 {
    let present = sets.new.as_ref().map_or(0, |it| it.replicas);
    let room = bounds.max_replicas() - sets.replicas();
    if room <= 0 {
        return present;
    }
    present + room.min(bounds.replicas - present)
}

/// Builds the `ReplicaSet` of the current template.
#[must_use]
pub fn new_replica_set(
    deployment: &Deployment,
    bounds: &Bounds,
    sets: &ReplicaSets,
    replicas: i64,
) -> NewReplicaSet {
    let hash = deployment.template().hash;
    let text = hash.text(deployment.status.collision_count);
    let name = template_hash::name(&deployment.metadata.name, &text);
    let revision = revision::next(sets.old.iter().map(|it| &it.object.annotations));
    let labelled = labelled(&deployment.template().text, &text);
    let mut selector: Value = serde_json::from_str(deployment.selector_text()).unwrap_or_default();
    if !selector["matchLabels"].is_object() {
        selector["matchLabels"] = Value::Object(Map::new());
    }
    selector["matchLabels"][POD_TEMPLATE_HASH] = json!(text);
    let body = json!({
        "apiVersion": REPLICA_SETS.api_version(),
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": name,
            "labels": labelled["metadata"]["labels"],
            "annotations": revision::initial(deployment, revision, bounds),
            "ownerReferences": [controller_ref(&DEPLOYMENTS, &deployment.metadata)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.min_ready_seconds(),
            "selector": selector,
            "template": labelled,
        },
    });
    NewReplicaSet {
        name,
        hash,
        replicas,
        revision,
        body: body.to_string().into(),
    }
}
