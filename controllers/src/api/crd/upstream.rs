//! Facts about Kubernetes types that `k8s-openapi` does not carry: list types, map types and defaults of list map keys,
//! as the `OpenAPI` document of Kubernetes 1.36 has them.
//!
//! A list without an entry is atomic, which is the default of the API server.

use serde_json::{Value, json};

const KUBERNETES: &str = "io.k8s.";
const CORE: &str = "io.k8s.api.core.v1.";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Lists of type map: type, field, keys.
const LIST_MAPS: &[(&str, &str, &[&str])] = &[
    ("Container", "env", &["name"]),
    ("Container", "ports", &["containerPort", "protocol"]),
    ("Container", "volumeDevices", &["devicePath"]),
    ("Container", "volumeMounts", &["mountPath"]),
    ("EphemeralContainer", "env", &["name"]),
    ("EphemeralContainer", "ports", &["containerPort", "protocol"]),
    ("EphemeralContainer", "volumeDevices", &["devicePath"]),
    ("EphemeralContainer", "volumeMounts", &["mountPath"]),
    ("PodSpec", "containers", &["name"]),
    ("PodSpec", "ephemeralContainers", &["name"]),
    ("PodSpec", "hostAliases", &["ip"]),
    ("PodSpec", "imagePullSecrets", &["name"]),
    ("PodSpec", "initContainers", &["name"]),
    ("PodSpec", "resourceClaims", &["name"]),
    ("PodSpec", "schedulingGates", &["name"]),
    (
        "PodSpec",
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("PodSpec", "volumes", &["name"]),
    ("ResourceRequirements", "claims", &["name"]),
];

/// Lists of type set: type, field.
const LIST_SETS: &[(&str, &str)] = &[("ContainerRestartRuleOnExitCodes", "values")];

/// Defaults of list map keys that are optional: type, field, default.
const KEY_DEFAULTS: &[(&str, &str, &str)] = &[("ContainerPort", "protocol", "TCP")];

/// List map keys that are required here. Upstream defaults them to the empty string, which API servers of 1.20 treat as
/// null.
const REQUIRED_KEYS: &[(&str, &str)] = &[("LocalObjectReference", "name")];

/// Objects of map type atomic.
const ATOMIC: &[&str] = &[
    "ConfigMapKeySelector",
    "FileKeySelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ResourceFieldSelector",
    "SecretKeySelector",
    "TypedLocalObjectReference",
];

/// Amends the schema of a Kubernetes type. Other types are unchanged.
pub(super) fn amend(name: &str, schema: &mut Value) {
    if !name.starts_with(KUBERNETES) {
        return;
    }
    remove_descriptions(schema);
    if name == QUANTITY {
        schema["pattern"] = QUANTITY_PATTERN.into();
    }
    if let Some(name) = name.strip_prefix(META) {
        match name {
            "ObjectMeta" => *schema = template_metadata(),
            "LabelSelector" => schema["x-kubernetes-map-type"] = "atomic".into(),
            _ => {}
        }
    }
    if let Some(name) = name.strip_prefix(CORE) {
        core(name, schema);
    }
    let known = ["properties", "additionalProperties"].map(|it| schema.get(it).is_some());
    if schema["type"] == "object" && known == [false; 2] {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
}

fn core(name: &str, schema: &mut Value) {
    let fields = &mut schema["properties"];
    for (_, list, keys) in LIST_MAPS.iter().filter(|it| it.0 == name) {
        fields[*list]["x-kubernetes-list-type"] = "map".into();
        fields[*list]["x-kubernetes-list-map-keys"] = json!(keys);
    }
    for (_, list) in LIST_SETS.iter().filter(|it| it.0 == name) {
        fields[*list]["x-kubernetes-list-type"] = "set".into();
    }
    for (_, key, default) in KEY_DEFAULTS.iter().filter(|it| it.0 == name) {
        fields[*key]["default"] = json!(default);
    }
    for (_, key) in REQUIRED_KEYS.iter().filter(|it| it.0 == name) {
        schema["required"] = json!([key]);
    }
    if name == "PodSpec" {
        schema["properties"]["nodeSelector"]["x-kubernetes-map-type"] = "atomic".into();
    }
    if ATOMIC.contains(&name) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
}

/// The schema of the metadata of a template. `creationTimestamp` is nullable because `kubectl create --dry-run` prints
/// null.
fn template_metadata() -> Value {
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "properties": {
        "annotations": map,
        "creationTimestamp": {"type": "string", "format": "date-time", "nullable": true},
        "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "generateName": {"type": "string"},
        "labels": map,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    }})
}

/// Removes the descriptions of a schema, but not a field named `description`.
fn remove_descriptions(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    keywords.remove("description");
    for (key, value) in keywords {
        match key.as_str() {
            "properties" => value
                .as_object_mut()
                .into_iter()
                .flatten()
                .for_each(|(_, field)| remove_descriptions(field)),
            "items" | "additionalProperties" => remove_descriptions(value),
            _ => {}
        }
    }
}
