//! The `ReplicaSet` for the present template: its size, and what it is made of.

use bytes::Bytes;
use coxswain_manager::object::Text;
use coxswain_manager::owner::controller_ref;
use serde_json::{Map, Value, json};

use super::bounds::Bounds;
use super::sets::Sets;
use super::{DEPLOYMENTS, REPLICA_SETS, revision};
use crate::support::deployment::Deployment;
use crate::support::pod_template::{Canonical, POD_TEMPLATE_HASH, labelled};
use crate::support::template_hash::{self, Hash};

/// One that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Its name, which the template leads to: sent twice, it is made once.
    pub name: Text,
    /// The hash in its name.
    pub hash: Hash,
    /// How many pods it begins with.
    pub replicas: i64,
    /// Its revision.
    pub revision: i64,
    /// The object.
    pub body: Bytes,
}

/// How many pods the one for the present template shall have where old ones give way one by one: as many more as there is
/// room for, and no more than are wanted.
#[must_use]
pub fn size(bounds: &Bounds, sets: &Sets) -> i64 {
    let present = sets.new.as_ref().map_or(0, |it| it.replicas);
    let room = bounds.limit() - sets.replicas();
    if room <= 0 {
        return present;
    }
    present + room.min(bounds.replicas - present)
}

/// What to make for the present template, which has this form, with so many pods to begin with.
#[must_use]
pub fn creation(
    deployment: &Deployment,
    template: &Canonical,
    bounds: &Bounds,
    sets: &Sets,
    replicas: i64,
) -> Creation {
    let hash = Hash::of(template);
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
    Creation {
        name,
        hash,
        replicas,
        revision,
        body: body.to_string().into(),
    }
}
