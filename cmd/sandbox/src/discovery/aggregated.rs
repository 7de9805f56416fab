//! Aggregated discovery: `/api` and `/apis` with all groups, versions and resources in one document.

use std::borrow::Borrow;

use super::order;
use super::resources::{add_names, of_version, subresources, verbs};
use crate::json::{Map, Value, json};
use crate::resource::Resource;

/// Everything that is served: of core, or of all other groups.
#[must_use]
pub fn aggregated<R: Borrow<Resource>>(resources: &[R], core: bool) -> Value {
    let groups = if core {
        vec![""]
    } else {
        order::groups_by_name(resources)
    };
    let items: Vec<Value> = groups.into_iter().map(|group| item(resources, group)).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn item<R: Borrow<Resource>>(resources: &[R], group: &str) -> Value {
    let versions: Vec<Value> = order::versions(resources, group)
        .into_iter()
        .map(|version| {
            let mut served = of_version(resources, group, version);
            served.sort_by(|a, b| a.plural.cmp(&b.plural));
            let resources: Vec<Value> = served.into_iter().map(entry).collect();
            // All of it is served by this process, so that none of it can be stale.
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let mut metadata = Map::new();
    if !group.is_empty() {
        metadata.insert("name", group.into());
    }
    json!({"metadata": metadata, "versions": versions})
}

fn entry(resource: &Resource) -> Value {
    let own = [
        resource.group.as_str(),
        resource.version.as_str(),
        resource.kind.as_str(),
    ];
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": response_kind(resource, own),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    add_names(&mut entry, resource);
    let below: Vec<Value> = subresources(resource)
        .into_iter()
        .map(|sub| {
            let kind = response_kind(resource, sub.kind.unwrap_or(own));
            json!({"subresource": sub.name, "responseKind": kind, "verbs": sub.verbs})
        })
        .collect();
    if !below.is_empty() {
        entry["subresources"] = below.into();
    }
    entry
}

/// The kind that is spoken. Built-in resources leave out the group and version where these are their own.
fn response_kind(resource: &Resource, [group, version, kind]: [&str; 3]) -> Value {
    if resource.custom.is_none() && (group, version) == (&*resource.group, &*resource.version) {
        return json!({"group": "", "version": "", "kind": kind});
    }
    json!({"group": group, "version": version, "kind": kind})
}
