//! The built-in resources, as the discovery of a real API server lists them.

use std::sync::LazyLock;

use crate::resource::{Resource, Scale};
use crate::{generated, schema};

static ALL: LazyLock<Vec<Resource>> = LazyLock::new(|| generated::resources().iter().map(resource).collect());

/// Every built-in resource, in the order in which discovery lists them.
#[must_use]
pub fn all() -> &'static [Resource] {
    &ALL
}

/// The built-in resource of a group, version and plural name, whether it is served or not.
#[must_use]
pub fn built_in(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    let matches = |r: &&Resource| (&*r.group, &*r.version, &*r.plural) == (group, version, plural);
    ALL.iter().find(matches)
}

fn resource(data: &generated::Resource) -> Resource {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let has = |name: &str| data.subresources.iter().any(|sub| sub.name == name);
    let (group, version, plural) = (data.group, data.version, data.plural);
    // Both groups of events share one collection, which stores core/v1.
    let (collection, stored_as) = match (group, plural) {
        ("events.k8s.io", "events") => ("events".to_owned(), "v1".to_owned()),
        ("", plural) => (plural.to_owned(), version.to_owned()),
        _ => (format!("{plural}.{group}"), format!("{group}/{version}")),
    };
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: data.kind.to_owned(),
        list_kind: format!("{}List", data.kind),
        plural: plural.to_owned(),
        singular: data.singular.to_owned(),
        short_names: owned(&data.short_names),
        categories: owned(&data.categories),
        namespaced: data.namespaced,
        status: has("status"),
        scale: has("scale").then(|| Scale {
            spec_replicas: "spec.replicas".to_owned(),
            status_replicas: "status.replicas".to_owned(),
            selector: None,
        }),
        collection,
        stored_as,
        schema: schema::find(group, version, data.kind),
        custom: None,
    }
}
