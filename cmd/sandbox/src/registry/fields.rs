//! Field selectors: the selectable fields of each kind, and their values.

use crate::json::Value;
use crate::resource::Resource;

/// A selectable field, the pointer to its value, and the text of an absent value.
type Field = (&'static str, &'static str, &'static str);

const NAME: Field = ("metadata.name", "/metadata/name", "");
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

/// Reports whether a built-in resource has selectable fields other than its name and namespace.
#[must_use]
pub fn has_own(res: &Resource) -> bool {
    !fields(res).is_empty()
}

/// Returns the text of a selectable field of a stored object.
#[must_use]
pub fn value(res: &Resource, obj: &Value, name: &str) -> String {
    let known = [NAME, NAMESPACE];
    let mut all = known.iter().chain(fields(res));
    let Some((_, pointer, absent)) = all.find(|field| field.0 == name) else {
        return String::new();
    };
    match at(obj, pointer) {
        // The source of an event without a component is its reporter.
        None if name == "source" => value(res, obj, "reportingComponent"),
        None => (*absent).to_owned(),
        Some(Value::String(text)) => text.to_string(),
        Some(value) => value.to_string(),
    }
}

/// Returns the value at a pointer. Unlike `Value::pointer`, it does not allocate.
fn at<'v>(obj: &'v Value, pointer: &str) -> Option<&'v Value> {
    pointer
        .split('/')
        .skip(1)
        .try_fold(obj, |value, part| match value {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            value => value.get(part),
        })
}
