//! Field selectors: the selectable fields of each kind, and their values.

use serde_json::Value;

use crate::registry::json::{flag, list, number, text};
use crate::resource::Resource;

/// Every field that selectors of a resource may name, beyond the name and namespace that all have.
fn names(res: &Resource) -> &'static [&'static str] {
    match (res.group.as_str(), res.kind.as_str()) {
        ("", "Pod") => &[
            "spec.nodeName",
            // A name of the field from before 1.0, still understood.
            "spec.host",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "Event") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "Node") => &["spec.unschedulable"],
        ("", "Namespace") => &["status.phase"],
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("", "ReplicationController") | ("apps", "ReplicaSet") => &["status.replicas"],
        ("batch", "Job") => &["status.successful"],
        _ => &[],
    }
}

/// Most cluster-scoped kinds accept `metadata.namespace` in a selector; these do not.
const NO_NAMESPACE: [&str; 2] = ["Namespace", "Node"];

pub(crate) fn supports(res: &Resource, label: &str) -> bool {
    match label {
        "metadata.name" => true,
        other if res.custom.is_some() => {
            let selectable = res.custom.as_ref().map(|custom| &custom.selectable);
            (other == "metadata.namespace" && res.namespaced)
                || selectable.is_some_and(|fields| fields.iter().any(|field| field == other))
        }
        "metadata.namespace" => !(res.group.is_empty() && NO_NAMESPACE.contains(&res.kind.as_str())),
        other => names(res).contains(&other),
    }
}

/// The fields of a stored object. Events have theirs under the names of both groups, because they share a collection.
pub(crate) fn of(res: &Resource, obj: &Value) -> Vec<(&'static str, String)> {
    let mut fields = vec![("metadata.name", text(&obj["metadata"]["name"]).to_owned())];
    if res.namespaced {
        fields.push((
            "metadata.namespace",
            text(&obj["metadata"]["namespace"]).to_owned(),
        ));
    }
    if res.custom.is_some() {
        return fields;
    }
    match res.kind.as_str() {
        "Event" => fields.extend(event_fields(obj)),
        _ => fields.extend(names(res).iter().map(|name| (*name, value(obj, name)))),
    }
    fields
}

fn value(obj: &Value, name: &str) -> String {
    let (spec, status) = (&obj["spec"], &obj["status"]);
    match name {
        "spec.host" => text(&spec["nodeName"]).to_owned(),
        "spec.hostNetwork" => flag(&spec["hostNetwork"]).to_string(),
        "spec.unschedulable" => flag(&spec["unschedulable"]).to_string(),
        "status.podIP" => list(&status["podIPs"])
            .first()
            .map_or("", |ip| text(&ip["ip"]))
            .to_owned(),
        // Understood, but never set, so that it compares as empty.
        "status.podIPs" => String::new(),
        "status.replicas" => number(&status["replicas"]).to_string(),
        "status.successful" => number(&status["succeeded"]).to_string(),
        "type" => text(&obj["type"]).to_owned(),
        path => {
            let found = path.split('.').fold(obj, |value, key| &value[key]);
            text(found).to_owned()
        }
    }
}

fn event_fields(obj: &Value) -> Vec<(&'static str, String)> {
    let about = |key: &str| text(&obj["involvedObject"][key]).to_owned();
    let reporter = text(&obj["reportingComponent"]).to_owned();
    let component = text(&obj["source"]["component"]);
    let mut fields = vec![
        ("reason", text(&obj["reason"]).to_owned()),
        ("reportingComponent", reporter.clone()),
        ("reportingController", reporter.clone()),
        (
            "source",
            if component.is_empty() {
                reporter
            } else {
                component.to_owned()
            },
        ),
        ("type", text(&obj["type"]).to_owned()),
    ];
    for (core, modern, key) in [
        ("involvedObject.kind", "regarding.kind", "kind"),
        ("involvedObject.namespace", "regarding.namespace", "namespace"),
        ("involvedObject.name", "regarding.name", "name"),
        ("involvedObject.uid", "regarding.uid", "uid"),
        ("involvedObject.apiVersion", "regarding.apiVersion", "apiVersion"),
        (
            "involvedObject.resourceVersion",
            "regarding.resourceVersion",
            "resourceVersion",
        ),
        ("involvedObject.fieldPath", "regarding.fieldPath", "fieldPath"),
    ] {
        fields.push((core, about(key)));
        fields.push((modern, about(key)));
    }
    fields
}
