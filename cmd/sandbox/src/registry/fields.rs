//! Field selectors: which fields of a kind can be asked for, and what they are.

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

/// Kinds without a namespace that nevertheless answer for one do so only where nobody looked; these do not.
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
        "Event" => fields.extend(of_event(obj)),
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

fn of_event(obj: &Value) -> Vec<(&'static str, String)> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{names, of, supports};
    use crate::registry::testing::resource;

    #[test]
    fn every_supported_field_has_a_value() {
        for res in crate::registry::all() {
            let obj = json!({"metadata": {"name": "a", "namespace": "b"}});
            let fields = of(&res, &obj);
            for name in names(&res) {
                assert!(supports(&res, name));
                assert!(
                    fields.iter().any(|(known, _)| known == name),
                    "{} {name}",
                    res.kind
                );
            }
            assert_eq!(fields[0], ("metadata.name", "a".to_owned()));
        }
    }

    #[test]
    fn kinds_differ_in_what_they_answer() {
        let cases = [
            ("pods", "spec.nodeName", true),
            ("pods", "spec.containers", false),
            ("nodes", "metadata.namespace", false),
            ("configmaps", "metadata.namespace", true),
            ("configmaps", "data", false),
            ("deployments.apps", "status.replicas", false),
            ("events", "involvedObject.name", true),
            ("events", "regarding.name", false),
            ("events.events.k8s.io", "regarding.name", true),
            ("events.events.k8s.io", "source", false),
        ];
        for (kind, field, expected) in cases {
            assert_eq!(supports(&resource(kind), field), expected, "{kind} {field}");
        }
    }

    #[test]
    fn values_are_texts() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "hostNetwork": true},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.1.2.3"}]}});
        let fields = of(&resource("pods"), &pod);
        let value = |name: &str| {
            fields
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(value("spec.nodeName"), Some("n"));
        assert_eq!(value("spec.hostNetwork"), Some("true"));
        assert_eq!(value("status.phase"), Some("Running"));
        assert_eq!(value("status.podIP"), Some("10.1.2.3"));
        let event = json!({"metadata": {}, "involvedObject": {"kind": "Pod"}, "reportingComponent": "r"});
        let fields = of(&resource("events"), &event);
        for field in [
            ("involvedObject.kind", "Pod"),
            ("regarding.kind", "Pod"),
            ("source", "r"),
        ] {
            assert!(fields.contains(&(field.0, field.1.to_owned())), "{field:?}");
        }
    }
}
