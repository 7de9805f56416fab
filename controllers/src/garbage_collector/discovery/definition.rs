//! What is read of a CRD: the kinds that it defines. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use coxswain_manager::object::decode::null_is_default;
use coxswain_manager::object::{Meta, Object, Resource};
use serde::Deserialize;

use super::decode::is_name;
use super::maturity::Maturity;

/// Where they are.
pub(super) const DEFINITIONS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// A CRD.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Definition {
    #[serde(deserialize_with = "null_is_default")]
    metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    spec: Spec,
    #[serde(deserialize_with = "null_is_default")]
    status: Status,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    group: String,
    #[serde(deserialize_with = "null_is_default")]
    names: Names,
    #[serde(deserialize_with = "null_is_default")]
    scope: String,
    #[serde(deserialize_with = "null_is_default")]
    versions: Vec<Version>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Names {
    #[serde(deserialize_with = "null_is_default")]
    plural: String,
    #[serde(deserialize_with = "null_is_default")]
    kind: String,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Version {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    #[serde(deserialize_with = "null_is_default")]
    served: bool,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "null_is_default")]
    accepted_names: Names,
    #[serde(deserialize_with = "null_is_default")]
    conditions: Vec<Condition>,
}

/// A condition of any object.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    pub(super) kind: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) status: String,
}

/// A group and the plural of a resource in it.
pub(super) type GroupResource = (String, String);

/// All that is defined: the versions that are served of each resource, the preferred one first; none if the CRD is not, or no
/// longer, established.
pub(super) type Definitions = BTreeMap<GroupResource, Vec<Resource>>;

impl Object for Definition {
    // With its schema, one of them can be a megabyte.
    const PAGE: u32 = 50;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }
}

impl Definition {
    fn group_resource(&self) -> GroupResource {
        (self.spec.group.clone(), self.spec.names.plural.clone())
    }

    /// What is served of it.
    fn resources(&self) -> Vec<Resource> {
        let Self { spec, status, .. } = self;
        // A CRD that is being deleted is established until its objects are gone.
        let names = &status.accepted_names;
        let namespaced = spec.scope == "Namespaced";
        let readable = [&spec.group, &names.plural, &names.kind].map(|it| is_name(it)) == [true; 3]
            && (namespaced || spec.scope == "Cluster");
        if !readable || !holds(&status.conditions, "Established") {
            return Vec::new();
        }
        let served = spec.versions.iter().filter(|it| it.served && is_name(&it.name));
        let mut versions: Vec<_> = served.map(|it| it.name.clone()).collect();
        versions.sort_by_cached_key(|it| Maturity::of(it));
        versions.dedup();
        let resource = |version: String| Resource {
            group: spec.group.clone().into(),
            version: version.into(),
            plural: names.plural.clone().into(),
            kind: names.kind.clone().into(),
            namespaced,
        };
        versions.into_iter().map(resource).collect()
    }
}

/// All that `definitions` define.
pub(super) fn defined(definitions: &[Arc<Definition>]) -> Definitions {
    let defined = definitions.iter().map(|it| (it.group_resource(), it.resources()));
    defined.collect()
}

/// Whether a condition is true.
pub(super) fn holds(conditions: &[Condition], kind: &str) -> bool {
    conditions.iter().any(|it| it.kind == kind && it.status == "True")
}
