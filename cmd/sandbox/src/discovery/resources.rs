//! `/api/v1` and `/apis/<group>/<version>`: the resources of one version, with their subresources and verbs.

use std::borrow::Borrow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

use crate::generated;
use crate::json::{Value, json};
use crate::resource::Resource;

/// The verbs of custom resources, in the order in which the real server lists them.
const CUSTOM_VERBS: &[&str] = &[
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
/// The same while the definition is going away.
const LEAVING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// A subresource: its name, its verbs, and the kind of its bodies.
pub(crate) struct Subresource {
    pub name: &'static str,
    pub verbs: &'static [&'static str],
    /// Group, version and kind, if not those of the resource itself.
    pub kind: Option<[&'static str; 3]>,
}

/// The list of one version's resources; `None` if it has none.
#[must_use]
pub fn resource_list<R: Borrow<Resource>>(resources: &[R], group: &str, version: &str) -> Option<Value> {
    let mut served = of_version(resources, group, version);
    served.sort_by(|a, b| a.plural.cmp(&b.plural));
    let entries: Vec<Value> = served
        .into_iter()
        .flat_map(|resource| {
            let mut entries = entries(resource);
            if let (Some(main), Some(hash)) = (entries.first_mut(), stored(resources, resource)) {
                main["storageVersionHash"] = hash.into();
            }
            entries
        })
        .collect();
    if entries.is_empty() {
        return None;
    }
    Some(if group.is_empty() {
        json!({"kind": "APIResourceList", "groupVersion": version, "resources": entries})
    } else {
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": format!("{group}/{version}"),
            "resources": entries,
        })
    })
}

/// By what clients see that objects are stored in another version than before: a part of the hash of the one that they
/// are stored in. A resource that is not stored, or is stored in a version that is not served, has no hash.
fn stored<R: Borrow<Resource>>(resources: &[R], resource: &Resource) -> Option<String> {
    let mut resources = resources.iter().map(Borrow::borrow);
    let shown = resource.custom.is_none()
        || resources.any(|one| one.plural == resource.plural && one.api_version() == resource.stored_as);
    if resource.is_review() || !shown {
        return None;
    }
    let version = match (&resource.custom, resource.kind.as_str()) {
        // Kept in the shape of its first version, for servers of any age to read.
        (None, "CustomResourceDefinition") => "apiextensions.k8s.io/v1beta1",
        _ => &resource.stored_as,
    };
    let core = if version.contains('/') { "" } else { "/" };
    let hash = digest(&SHA256, format!("{core}{version}/{}", resource.kind).as_bytes());
    hash.as_ref().get(..8).map(|part| STANDARD.encode(part))
}

/// The resources of one version.
pub(crate) fn of_version<'a, R: Borrow<Resource>>(
    resources: &'a [R],
    group: &str,
    version: &str,
) -> Vec<&'a Resource> {
    let resources = resources.iter().map(Borrow::borrow);
    resources
        .filter(|resource| resource.group == group && resource.version == version)
        .collect()
}

/// A resource and its subresources.
fn entries(resource: &Resource) -> Vec<Value> {
    let mut main = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs(resource),
    });
    add_names(&mut main, resource);
    let below = subresources(resource).into_iter().map(|sub| {
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, sub.name),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": sub.verbs,
        });
        if let Some([group, version, kind]) = sub.kind {
            // Left out where it is the list's own.
            if group != resource.group || version != resource.version {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
            entry["kind"] = json!(kind);
        }
        entry
    });
    std::iter::once(main).chain(below).collect()
}

/// Adds short names and categories to the entry of a resource.
pub(super) fn add_names(entry: &mut Value, resource: &Resource) {
    for (key, names) in [
        ("shortNames", &resource.short_names),
        ("categories", &resource.categories),
    ] {
        if !names.is_empty() {
            entry[key] = json!(names);
        }
    }
}

/// The verbs of the resource itself.
pub(crate) fn verbs(resource: &Resource) -> &'static [&'static str] {
    match &resource.custom {
        Some(custom) if custom.terminating => LEAVING_VERBS,
        Some(_) => CUSTOM_VERBS,
        None => data(resource).map_or(&[], |data| &data.verbs),
    }
}

fn data(resource: &Resource) -> Option<&'static generated::Resource> {
    generated::resource(&resource.group, &resource.version, &resource.plural)
}

/// Subresources of built-in resources that are not served.
const NOT_SERVED: [&str; 3] = ["nodes/proxy", "pods/resize", "services/proxy"];

/// The subresources, in the order in which they are listed: by name, but status first for custom resources.
pub(crate) fn subresources(resource: &Resource) -> Vec<Subresource> {
    if resource.custom.is_none() {
        let all = data(resource).map_or(&[][..], |data| &data.subresources);
        let served = all
            .iter()
            .filter(|sub| !NOT_SERVED.contains(&&*format!("{}/{}", resource.plural, sub.name)));
        let own = [resource.group.as_str(), &resource.version, &resource.kind];
        return served
            .map(|sub| Subresource {
                name: sub.name,
                verbs: &sub.verbs,
                kind: Some(sub.kind).filter(|kind| *kind != own),
            })
            .collect();
    }
    let status = resource.status.then_some(("status", None));
    let scale = resource.scale.as_ref();
    let scale = scale.map(|_| ("scale", Some(["autoscaling", "v1", "Scale"])));
    let all = status.into_iter().chain(scale);
    all.map(|(name, kind)| Subresource {
        name,
        verbs: SUBRESOURCE_VERBS,
        kind,
    })
    .collect()
}
