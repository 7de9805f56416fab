//! Reset fields: fields that an endpoint ignores, and fields that only the server sets. They have no manager.

use crate::fieldmanager::fields;
use crate::fieldmanager::fields::Fields;
use crate::json::{Map, Value};
use crate::resource::Resource;

/// Returns the fields that a write to this endpoint cannot change.
pub(super) fn fields(res: &Resource, subresource: &str) -> Fields {
    let paths: &[&[&str]] = match (subresource, res.kind.as_str()) {
        ("" | "finalize", _) if res.status => &[&["f:status"]],
        ("status", _) if res.custom.is_some() => &[&["f:metadata"], &["f:spec"]],
        ("status", "FlowSchema" | "PriorityLevelConfiguration") => &[&["f:metadata"], &["f:spec"]],
        ("status", "Deployment") => &[&["f:spec"], &["f:metadata", "f:labels"]],
        ("status", "Pod") => &[
            &["f:spec"],
            &["f:metadata", "f:deletionTimestamp"],
            &["f:metadata", "f:ownerReferences"],
        ],
        ("status", _) => &[&["f:spec"]],
        _ => &[],
    };
    let mut set = Map::new();
    for path in paths {
        fields::add(&mut set, fields::one(path));
    }
    set
}

/// Removes the identity of the object and the fields that only the server sets.
pub(super) fn strip(set: &mut Fields) {
    set.remove("f:apiVersion");
    set.remove("f:kind");
    let Some(Value::Object(metadata)) = set.get_mut("f:metadata") else {
        return;
    };
    metadata.retain(|element, _| {
        !matches!(
            element.as_str(),
            "." | "f:name"
                | "f:namespace"
                | "f:creationTimestamp"
                | "f:selfLink"
                | "f:uid"
                | "f:clusterName"
                | "f:generation"
                | "f:managedFields"
                | "f:resourceVersion"
        )
    });
    if metadata.is_empty() {
        set.remove("f:metadata");
    }
}
