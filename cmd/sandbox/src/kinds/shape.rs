//! The one shape in which the server keeps an object.
//!
//! A typed server reads JSON into structures and writes it out again. On the way an empty label map disappears, as do
//! `false`, `0` and `""` where they are what an absent field means, quantities take their canonical text, and fields
//! that are always written appear. Doing the same here makes plain comparison of JSON mean what comparison of objects
//! means to the server: no change, no new generation, no new resource version.
//!
//! Not copied: fields that the server writes as `null` when they are absent (such as the rules of an empty role).

use serde_json::{Value, json};

use super::json::{section, set, set_default, text};
use crate::quantity::Quantity;
use crate::resource::Resource;

/// Maps with keys of the user's choice: dropped when empty, and never looked into.
const MAPS: &[&str] = &[
    "annotations",
    "binaryData",
    "data",
    "disruptedPods",
    "labels",
    "matchLabels",
    "nodeSelector",
    "stringData",
    "userAnnotations",
    "volumeAttributes",
];

/// Maps from resource names to quantities.
const RESOURCE_LISTS: &[&str] = &[
    "allocatable",
    "allocatedResources",
    "capacity",
    "hard",
    "limits",
    "overhead",
    "requests",
    "used",
];

/// Single quantities.
const QUANTITIES: &[&str] = &["averageValue", "divisor", "sizeLimit", "tolerance"];

/// Parts whose content is the user's business to the last empty map.
const OPAQUE: &[&str] = &["fieldsV1", "openAPIV3Schema", "parameters"];

/// Lists that are written even when they are empty; every other empty list is as good as none.
const KEPT_LISTS: &[&str] = &[
    "admissionReviewVersions",
    "containers",
    "conversionReviewVersions",
    "nodeSelectorTerms",
    "rules",
    "sources",
    "storedVersions",
    "verbs",
    "versions",
];

const FALSE_IS_ABSENT: &[&str] = &[
    "deprecated",
    "globalDefault",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "paused",
    "preserveUnknownFields",
    "publishNotReadyAddresses",
    "stdin",
    "stdinOnce",
    "tty",
    "unschedulable",
];

const ZERO_IS_ABSENT: &[&str] = &[
    "currentReplicas",
    "deprecatedCount",
    "fullyLabeledReplicas",
    "generation",
    "healthCheckNodePort",
    "hostPort",
    "initialDelaySeconds",
    "minReadySeconds",
    "nodePort",
    "numberAvailable",
    "numberUnavailable",
    "readyReplicas",
    "unavailableReplicas",
    "updatedNumberScheduled",
    "updatedReplicas",
];

const EMPTY_IS_ABSENT: &[&str] = &[
    "clusterIP",
    "externalName",
    "generateName",
    "hostIP",
    "hostname",
    "loadBalancerIP",
    "medium",
    "nodeName",
    "nominatedNodeName",
    "podCIDR",
    "podIP",
    "priorityClassName",
    "providerID",
    "resourceVersion",
    "selfLink",
    "serviceAccount",
    "serviceAccountName",
    "subPath",
    "subPathExpr",
    "subdomain",
    "workingDir",
];

/// Fields whose meaning depends on where they stand: parent, name.
const ABSENT_BY_PLACE: &[(&str, &str)] = &[
    ("env", "value"),
    ("ports", "name"),
    ("taints", "value"),
    ("tolerations", "effect"),
    ("tolerations", "key"),
    ("tolerations", "operator"),
    ("tolerations", "value"),
    ("volumeMounts", "readOnly"),
    ("secret", "readOnly"),
    ("persistentVolumeClaim", "readOnly"),
    ("nfs", "readOnly"),
];

/// Brings an object into the server's shape.
pub(super) fn settle(res: &Resource, obj: &mut Value) {
    match res.kind.as_str() {
        // The payload of a revision is an opaque document.
        "ControllerRevision" => {
            if let Some(meta) = obj.get_mut("metadata") {
                trim("metadata", meta);
            }
        }
        _ => trim("", obj),
    }
    always_written(res, obj);
    settle_status(res, obj);
}

/// Whether an object of the kind always shows its spec.
fn has_spec(kind: &str) -> bool {
    !matches!(
        kind,
        "ClusterRole"
            | "ClusterRoleBinding"
            | "ConfigMap"
            | "ControllerRevision"
            | "Event"
            | "MutatingWebhookConfiguration"
            | "PriorityClass"
            | "Role"
            | "RoleBinding"
            | "Secret"
            | "ServiceAccount"
            | "ValidatingWebhookConfiguration"
    )
}

fn always_written(res: &Resource, obj: &mut Value) {
    if has_spec(&res.kind) {
        set_default(obj, "spec", json!({}));
    }
    if res.status {
        set_default(obj, "status", json!({}));
    }
}

/// Counters of a status: those that are always written, and those that are not when they are 0.
fn counters(kind: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        "Deployment" => (&[], &["availableReplicas", "observedGeneration", "replicas"]),
        "ReplicaSet" | "ReplicationController" => {
            (&["replicas"], &["availableReplicas", "observedGeneration"])
        }
        "StatefulSet" => (&["availableReplicas", "replicas"], &["observedGeneration"]),
        "DaemonSet" => (
            &[
                "currentNumberScheduled",
                "desiredNumberScheduled",
                "numberMisscheduled",
                "numberReady",
            ],
            &["observedGeneration"],
        ),
        "Job" => (&[], &["active", "failed", "succeeded"]),
        "PodDisruptionBudget" => (
            &[
                "currentHealthy",
                "desiredHealthy",
                "disruptionsAllowed",
                "expectedPods",
            ],
            &["observedGeneration"],
        ),
        "HorizontalPodAutoscaler" => (&["desiredReplicas"], &[]),
        "Pod" => (&[], &["observedGeneration"]),
        _ => (&[], &[]),
    }
}

fn settle_status(res: &Resource, obj: &mut Value) {
    let (kept, dropped) = counters(&res.kind);
    let Some(status) = obj.get_mut("status") else {
        return;
    };
    for counter in kept {
        set_default(status, counter, 0);
    }
    if let Some(status) = status.as_object_mut() {
        status.retain(|key, value| value.as_i64() != Some(0) || !dropped.contains(&key.as_str()));
    }
    match res.kind.as_str() {
        "Service" => set_default(status, "loadBalancer", json!({})),
        "Node" => settle_node(status),
        "CustomResourceDefinition" => {
            if let Some(names) = section(status, "acceptedNames") {
                set_default(names, "kind", "");
                set_default(names, "plural", "");
            }
        }
        _ => {}
    }
}

fn settle_node(status: &mut Value) {
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

/// Walks down, dropping what says nothing; `place` is the name under which `value` stands.
fn trim(place: &str, value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| trim(place, item)),
        Value::Object(map) => {
            for (name, child) in map.iter_mut() {
                let name = name.as_str();
                if RESOURCE_LISTS.contains(&name) && child.is_object() {
                    settle_resources(child);
                } else if QUANTITIES.contains(&name) {
                    settle_quantity(child);
                } else if !MAPS.contains(&name) && !OPAQUE.contains(&name) {
                    trim(name, child);
                }
                if name == "resourceFieldRef" {
                    set_default(child, "divisor", "0");
                }
            }
            map.retain(|name, child| !says_nothing(place, name, child));
        }
        _ => {}
    }
}

fn says_nothing(place: &str, name: &str, value: &Value) -> bool {
    let by_place = ABSENT_BY_PLACE.contains(&(place, name));
    match value {
        Value::Array(items) => items.is_empty() && !KEPT_LISTS.contains(&name),
        Value::Object(map) => map.is_empty() && (MAPS.contains(&name) || RESOURCE_LISTS.contains(&name)),
        Value::Bool(false) => by_place || FALSE_IS_ABSENT.contains(&name),
        Value::Number(number) => number.as_i64() == Some(0) && ZERO_IS_ABSENT.contains(&name),
        Value::String(_) => text(value).is_empty() && (by_place || EMPTY_IS_ABSENT.contains(&name)),
        Value::Null | Value::Bool(true) => value.is_null(),
    }
}

fn settle_resources(resources: &mut Value) {
    if let Some(resources) = resources.as_object_mut() {
        for (_, amount) in resources.iter_mut() {
            if let Some(quantity) = Quantity::read(amount) {
                *amount = quantity.round_to_milli().text().into();
            }
        }
    }
}

fn settle_quantity(amount: &mut Value) {
    if let Some(quantity) = Quantity::read(amount) {
        *amount = quantity.text().into();
    }
}

/// Drops a map of the user's that is empty where its name alone does not tell that it is one.
pub(super) fn drop_empty_map(parent: &mut Value, key: &str) {
    if parent[key].as_object().is_some_and(serde_json::Map::is_empty) {
        super::json::remove(parent, key);
    }
}

/// Gives a template the (possibly empty) metadata that it always shows.
pub(super) fn settle_template(parent: &mut Value, key: &str) {
    if let Some(template) = parent.get_mut(key).filter(|template| template.is_object())
        && template["metadata"].is_null()
    {
        set(template, "metadata", json!({}));
    }
}

#[cfg(test)]
mod tests;
