//! Discovery: the documents by which clients find groups, versions, resources and verbs.
//!
//! All of them are computed from the resources that are served at the moment, so that a CRD shows up as soon as it
//! is served and nothing is listed that is not. Resources are given in any order; groups, versions and resources go
//! out in the order of the real server, on which clients rely to find the preferred version of a kind.

mod aggregated;
mod documents;
mod order;
pub(crate) mod resources;
mod version;

use std::borrow::Borrow;

pub use self::documents::{Document, Documents};
pub use self::resources::resource_list;
pub use self::version::version;
use crate::json::{Value, json};
use crate::resource::Resource;

/// `/api`: the versions of core. `address` is where the server can be reached (`127.0.0.1:6443`).
#[must_use]
pub fn core_versions<R: Borrow<Resource>>(resources: &[R], address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": order::versions(resources, ""),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`: all groups but core.
#[must_use]
pub fn group_list<R: Borrow<Resource>>(resources: &[R]) -> Value {
    let groups = order::groups(resources);
    let groups: Vec<Value> = groups
        .into_iter()
        .map(|group| group_entry(resources, group))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`: one group, if it is served.
#[must_use]
pub fn group<R: Borrow<Resource>>(resources: &[R], group: &str) -> Option<Value> {
    if !order::groups(resources).contains(&group) {
        return None;
    }
    let mut entry = group_entry(resources, group);
    entry["kind"] = json!("APIGroup");
    entry["apiVersion"] = json!("v1");
    Some(entry)
}

/// A group with its versions, the preferred one first.
fn group_entry<R: Borrow<Resource>>(resources: &[R], group: &str) -> Value {
    let versions: Vec<Value> = order::versions(resources, group)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "preferredVersion": versions.first(), "versions": versions})
}
