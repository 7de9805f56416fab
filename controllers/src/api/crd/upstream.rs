//! What is known of the types of Kubernetes and not said by `k8s-openapi`: which lists are maps or sets, which objects are
//! replaced as a whole, what keys of lists are by default. All by the definitions that a server of 1.36 publishes.
//!
//! A list that is not named here is replaced as a whole, which is what a server assumes.

use serde_json::{Value, json};

/// How the types of Kubernetes are named, all of them.
const KUBERNETES: &str = "io.k8s.";
const CORE: &str = "io.k8s.api.core.v1.";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// A number with a unit, as the API takes it.
const QUANTITIES: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Lists whose items are known by these fields.
const MAPS: &[(&str, &str, &[&str])] = &[
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

/// Lists that have each item once.
const SETS: &[(&str, &str)] = &[("ContainerRestartRuleOnExitCodes", "values")];

/// A key of a list that need not be given has to have a value all the same.
const KEYS: &[(&str, &str, &str)] = &[("ContainerPort", "protocol", "TCP")];

/// Or has to be given: by default it would be the empty text, which servers of 1.20 take for null, and which names nothing.
const GIVEN: &[(&str, &str)] = &[("LocalObjectReference", "name")];

/// Objects that are replaced as a whole.
const WHOLE: &[&str] = &[
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

/// Makes of the schema of a type what is to stand in a definition. One of ours stays as it is.
pub(super) fn amend(name: &str, schema: &mut Value) {
    if !name.starts_with(KUBERNETES) {
        return;
    }
    undescribed(schema);
    if name == QUANTITY {
        schema["pattern"] = QUANTITIES.into();
    }
    if let Some(name) = name.strip_prefix(META) {
        match name {
            "ObjectMeta" => *schema = metadata(),
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
    for (_, list, keys) in MAPS.iter().filter(|it| it.0 == name) {
        fields[*list]["x-kubernetes-list-type"] = "map".into();
        fields[*list]["x-kubernetes-list-map-keys"] = json!(keys);
    }
    for (_, list) in SETS.iter().filter(|it| it.0 == name) {
        fields[*list]["x-kubernetes-list-type"] = "set".into();
    }
    for (_, key, default) in KEYS.iter().filter(|it| it.0 == name) {
        fields[*key]["default"] = json!(default);
    }
    for (_, key) in GIVEN.iter().filter(|it| it.0 == name) {
        schema["required"] = json!([key]);
    }
    if name == "PodSpec" {
        schema["properties"]["nodeSelector"]["x-kubernetes-map-type"] = "atomic".into();
    }
    if WHOLE.contains(&name) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
}

/// The metadata of a template. What is not named here is dropped by the server; what is not for a template to say is
/// better refused where that is asked for. `creationTimestamp` is null in what `kubectl create --dry-run` prints.
fn metadata() -> Value {
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

/// Without the descriptions; a field may be called `description`.
fn undescribed(schema: &mut Value) {
    let Value::Object(said) = schema else { return };
    said.remove("description");
    for (key, below) in said {
        match key.as_str() {
            "properties" => below
                .as_object_mut()
                .into_iter()
                .flatten()
                .for_each(|(_, field)| undescribed(field)),
            "items" | "additionalProperties" => undescribed(below),
            _ => {}
        }
    }
}
