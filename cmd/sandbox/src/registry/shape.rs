//! What the server always writes.
//!
//! [`crate::schema::conform`] leaves out what an object need not say; this puts in what it says even when nobody has
//! set it, so that plain comparison of JSON means what comparison of objects means to the server: no change, no new
//! generation, no new resource version.
//!
//! Not copied: fields that the server writes as `null` when they are absent (such as the rules of an empty role).

use serde_json::{Value, json};

use crate::registry::json::{section, set_default};
use crate::resource::Resource;
use crate::schema;
use crate::schema::Type;

/// Adds what is missing of the fields that an object of this kind always shows.
pub(crate) fn complete(res: &Resource, obj: &mut Value) {
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
        let field = schema::builtin(&res.api_version(), &res.kind).and_then(|kind| kind.field("status"));
        if let Some(field) = field {
            fill(&field.ty, status);
        }
    }
}

/// Adds the zero values of what is always shown. The status only: elsewhere validation refuses what is missing.
fn fill(ty: &Type, value: &mut Value) {
    match (ty, value) {
        (Type::List(inner), Value::Array(items)) => items.iter_mut().for_each(|item| fill(inner, item)),
        (Type::Map(inner), Value::Object(map)) => map.values_mut().for_each(|value| fill(inner, value)),
        (Type::Object(_), Value::Object(map)) => {
            let Some(ty) = ty.object() else { return };
            for (name, value) in map.iter_mut() {
                if let Some(field) = ty.field(name) {
                    fill(&field.ty, value);
                }
            }
            for (name, field) in ty.fields().filter(|(_, field)| field.required) {
                let zero = match field.ty {
                    Type::String => json!(""),
                    Type::Int32 | Type::Int64 => json!(0),
                    Type::Boolean => json!(false),
                    Type::Time => Value::Null,
                    _ => continue,
                };
                map.entry(name).or_insert(zero);
            }
            for name in shown_nulls(ty.short_name()) {
                map.entry(*name).or_insert(Value::Null);
            }
        }
        _ => {}
    }
}

/// What may be left out and is shown all the same, as null.
fn shown_nulls(short_name: &str) -> &'static [&'static str] {
    match short_name {
        "apps.v1.DeploymentCondition" => &["lastTransitionTime", "lastUpdateTime"],
        "apps.v1.DaemonSetCondition"
        | "apps.v1.ReplicaSetCondition"
        | "apps.v1.StatefulSetCondition"
        | "autoscaling.v2.HorizontalPodAutoscalerCondition"
        | "core.v1.NamespaceCondition"
        | "core.v1.ReplicationControllerCondition"
        | "flowcontrol.v1.FlowSchemaCondition"
        | "flowcontrol.v1.PriorityLevelConfigurationCondition" => &["lastTransitionTime"],
        "autoscaling.v2.HorizontalPodAutoscalerStatus" => &["currentMetrics"],
        "batch.v1.JobCondition" | "core.v1.PersistentVolumeClaimCondition" | "core.v1.PodCondition" => {
            &["lastProbeTime", "lastTransitionTime"]
        }
        "core.v1.NodeCondition" => &["lastHeartbeatTime", "lastTransitionTime"],
        "core.v1.ContainerStateRunning" => &["startedAt"],
        "core.v1.ContainerStateTerminated" => &["finishedAt", "startedAt"],
        _ => &[],
    }
}

fn complete_status(kind: &str, status: &mut Value) {
    for counter in counters(kind) {
        set_default(status, counter, 0);
    }
    match kind {
        "Service" => set_default(status, "loadBalancer", json!({})),
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
