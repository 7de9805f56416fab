//! Field selectors: the selectable fields of each kind, and their values.

use serde_json::Value;

use crate::resource::Resource;

/// A selectable field, the pointer to its value, and the text of an absent value.
type Field = (&'static str, &'static str, &'static str);

const NAMESPACE: Field = ("metadata.namespace", "/metadata/namespace", "");
const POD: &[Field] = &[
    ("spec.nodeName", "/spec/nodeName", ""),
    // A name of the field from before 1.0, which the server still supports.
    ("spec.host", "/spec/nodeName", ""),
    ("spec.restartPolicy", "/spec/restartPolicy", ""),
    ("spec.schedulerName", "/spec/schedulerName", ""),
    ("spec.serviceAccountName", "/spec/serviceAccountName", ""),
    ("spec.hostNetwork", "/spec/hostNetwork", "false"),
    ("status.phase", "/status/phase", ""),
    ("status.podIP", "/status/podIPs/0/ip", ""),
    // The server supports the field and never sets it.
    ("status.podIPs", "/-", ""),
    ("status.nominatedNodeName", "/status/nominatedNodeName", ""),
];
const CORE_EVENT: &[Field] = &[
    ("involvedObject.kind", "/involvedObject/kind", ""),
    ("involvedObject.namespace", "/involvedObject/namespace", ""),
    ("involvedObject.name", "/involvedObject/name", ""),
    ("involvedObject.uid", "/involvedObject/uid", ""),
    ("involvedObject.apiVersion", "/involvedObject/apiVersion", ""),
    (
        "involvedObject.resourceVersion",
        "/involvedObject/resourceVersion",
        "",
    ),
    ("involvedObject.fieldPath", "/involvedObject/fieldPath", ""),
    ("reason", "/reason", ""),
    ("reportingComponent", "/reportingComponent", ""),
    ("source", "/source/component", ""),
    ("type", "/type", ""),
];
/// Both groups of events share a collection, so that the pointers are those of the core group.
const MODERN_EVENT: &[Field] = &[
    ("regarding.kind", "/involvedObject/kind", ""),
    ("regarding.namespace", "/involvedObject/namespace", ""),
    ("regarding.name", "/involvedObject/name", ""),
    ("regarding.uid", "/involvedObject/uid", ""),
    ("regarding.apiVersion", "/involvedObject/apiVersion", ""),
    ("regarding.resourceVersion", "/involvedObject/resourceVersion", ""),
    ("regarding.fieldPath", "/involvedObject/fieldPath", ""),
    ("reason", "/reason", ""),
    ("reportingController", "/reportingComponent", ""),
    ("type", "/type", ""),
];

/// Returns the selectable fields of a built-in resource, beyond the name and namespace that all have.
fn fields(res: &Resource) -> &'static [Field] {
    match (res.group.as_str(), res.kind.as_str()) {
        ("", "Pod") => POD,
        ("", "Event") => CORE_EVENT,
        ("events.k8s.io", "Event") => MODERN_EVENT,
        ("", "Node") => &[("spec.unschedulable", "/spec/unschedulable", "false")],
        ("", "Namespace") => &[("status.phase", "/status/phase", "")],
        ("", "Secret") => &[("type", "/type", "")],
        ("", "Service") => &[
            ("spec.clusterIP", "/spec/clusterIP", ""),
            ("spec.type", "/spec/type", ""),
        ],
        ("", "ReplicationController") | ("apps", "ReplicaSet") => {
            &[("status.replicas", "/status/replicas", "0")]
        }
        ("batch", "Job") => &[("status.successful", "/status/succeeded", "0")],
        _ => &[],
    }
}

/// Reports whether field selectors of a resource may name this field.
#[must_use]
pub fn supports(res: &Resource, label: &str) -> bool {
    match (label, &res.custom) {
        ("metadata.name", _) => true,
        ("metadata.namespace", Some(_)) => res.namespaced,
        (label, Some(custom)) => custom.selectable.iter().any(|field| field == label),
        // Other cluster-scoped kinds support it.
        ("metadata.namespace", None) => {
            !res.group.is_empty() || !matches!(res.kind.as_str(), "Namespace" | "Node")
        }
        (label, None) => fields(res).iter().any(|field| field.0 == label),
    }
}

/// Returns the selectable fields of a stored object. Events have those of both groups.
#[must_use]
pub fn of(res: &Resource, obj: &Value) -> Vec<(&'static str, String)> {
    let read = |(name, pointer, absent): &Field| {
        let value = match obj.pointer(pointer) {
            None => (*absent).to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        (*name, value)
    };
    let mut all = vec![read(&("metadata.name", "/metadata/name", ""))];
    if res.namespaced {
        all.push(read(&NAMESPACE));
    }
    if res.custom.is_none() {
        if res.collection == "events" {
            all.extend(CORE_EVENT.iter().chain(MODERN_EVENT).map(read));
            let reporter = read(&("source", "/reportingComponent", ""));
            let source = all
                .iter_mut()
                .filter(|(name, value)| *name == "source" && value.is_empty());
            source.for_each(|source| *source = reporter.clone());
        } else {
            all.extend(fields(res).iter().map(read));
        }
    }
    all
}
