//! What the server always writes.
//!
//! [`crate::schema::conform`] leaves out what an object need not say; this puts in what it says even when nobody has
//! set it, so that plain comparison of JSON means what comparison of objects means to the server: no change, no new
//! generation, no new resource version.
//!
//! Not copied: fields that the server writes as `null` when they are absent (such as the rules of an empty role).

use serde_json::{Value, json};

use super::json::{section, set_default};
use super::pod;
use crate::resource::Resource;
use crate::schema;

/// Adds what is missing of the fields that an object of this kind always shows.
pub(super) fn complete(res: &Resource, obj: &mut Value) {
    let has_spec =
        schema::builtin(&res.api_version(), &res.kind).is_some_and(|kind| kind.field("spec").is_some());
    if has_spec {
        set_default(obj, "spec", json!({}));
    }
    if res.status {
        set_default(obj, "status", json!({}));
    }
    if let Some(status) = obj.get_mut("status") {
        complete_status(&res.kind, status);
    }
}

fn complete_status(kind: &str, status: &mut Value) {
    for counter in counters(kind) {
        set_default(status, counter, 0);
    }
    match kind {
        "Service" => set_default(status, "loadBalancer", json!({})),
        "Pod" => pod::show_condition_times(status),
        "Node" => complete_node(status),
        "CustomResourceDefinition" => {
            if let Some(names) = section(status, "acceptedNames") {
                set_default(names, "kind", "");
                set_default(names, "plural", "");
            }
        }
        _ => {}
    }
}

/// The counters of a status that are shown even when they are 0.
fn counters(kind: &str) -> &'static [&'static str] {
    match kind {
        "ReplicaSet" | "ReplicationController" => &["replicas"],
        "StatefulSet" => &["availableReplicas", "replicas"],
        "DaemonSet" => &[
            "currentNumberScheduled",
            "desiredNumberScheduled",
            "numberMisscheduled",
            "numberReady",
        ],
        "PodDisruptionBudget" => &[
            "currentHealthy",
            "desiredHealthy",
            "disruptionsAllowed",
            "expectedPods",
        ],
        "HorizontalPodAutoscaler" => &["desiredReplicas"],
        _ => &[],
    }
}

fn complete_node(status: &mut Value) {
    if let Some(endpoints) = section(status, "daemonEndpoints")
        && let Some(endpoint) = section(endpoints, "kubeletEndpoint")
    {
        set_default(endpoint, "Port", 0);
    }
    if let Some(info) = section(status, "nodeInfo") {
        for key in [
            "architecture",
            "bootID",
            "containerRuntimeVersion",
            "kernelVersion",
            "kubeProxyVersion",
            "kubeletVersion",
            "machineID",
            "operatingSystem",
            "osImage",
            "systemUUID",
        ] {
            set_default(info, key, "");
        }
    }
}

#[cfg(test)]
mod tests;
