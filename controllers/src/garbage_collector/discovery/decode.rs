//! Decodes discovery documents. Pure, and never panics on any input.
//!
//! There are two formats. The aggregated one has all groups of a root in one document, and marks a version whose server does
//! not answer as stale. The plain one has only names: each version has a document of its own. A server that does not support
//! the aggregated format answers in the plain one. Malformed entries are skipped and reported.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use steersman_manager::client::RawResponse;

use super::documents::{Group, Root, Served, Version, group_version};

/// The Accept header of a root.
pub(super) const ROOT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                               application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                               application/json";
/// The Accept header of a version.
pub(super) const VERSION: &str = "application/json";

/// The content of a root.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    pub(super) groups: Vec<Group>,
    /// Whether it has only names: each version has to be read.
    pub(super) plain: bool,
    /// The versions without resources, with the reason.
    pub(super) stale: BTreeMap<String, String>,
    /// Malformed groups and versions, with the reason.
    pub(super) skipped: BTreeMap<String, String>,
}

/// An unusable document.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    #[error("the answer is not JSON")]
    NoJson,
    #[error("the answer is not of the kind {0}")]
    Other(&'static str),
    #[error("the answer is about another group or version")]
    Elsewhere,
    #[error("the list is empty")]
    Empty,
    #[error("the list of resources is malformed")]
    Malformed,
}

/// Decodes a root.
pub(super) fn root(root: Root, raw: &RawResponse) -> Result<Listed, Unusable> {
    let body: Value = serde_json::from_slice(&raw.body).map_err(|_| Unusable::NoJson)?;
    let mut listed = if is_aggregated(&raw.content_type) {
        aggregated(root, &body)?
    } else {
        let groups = match root {
            Root::Core => core(&body)?,
            Root::Named => named(&body)?,
        };
        let mut listed = Listed {
            plain: true,
            ..Listed::default()
        };
        for (name, preferred, versions) in groups {
            listed.add(root, name, preferred, versions.map(|name| (name, None)));
        }
        listed
    };
    // A server without any group has not started completely.
    listed.groups.retain(|group| !group.versions.is_empty());
    if listed.groups.is_empty() {
        return Err(Unusable::Empty);
    }
    Ok(listed)
}

/// Decodes the document of one version.
pub(super) fn version(group: &str, version: &str, raw: &RawResponse) -> Result<Vec<Served>, Unusable> {
    let body: Value = serde_json::from_slice(&raw.body).map_err(|_| Unusable::NoJson)?;
    if body["kind"] != "APIResourceList" {
        return Err(Unusable::Other("APIResourceList"));
    }
    if body["groupVersion"] != *group_version(group, version) {
        return Err(Unusable::Elsewhere);
    }
    if !body["resources"].is_null() && !body["resources"].is_array() {
        return Err(Unusable::Malformed);
    }
    let resources = items(&body["resources"]).map(|it| {
        let namespaced = it["namespaced"].as_bool()?;
        served(it, text(&it["name"]), text(&it["kind"]), namespaced)
    });
    Ok(unique(resources))
}

fn is_aggregated(content_type: &str) -> bool {
    let mut parameters = content_type.split(';').map(str::trim);
    let has = |wanted: &str| parameters.clone().any(|it| it.eq_ignore_ascii_case(wanted));
    let aggregated = has("g=apidiscovery.k8s.io") && has("as=APIGroupDiscoveryList");
    aggregated && parameters.next() == Some("application/json")
}

fn aggregated(root: Root, body: &Value) -> Result<Listed, Unusable> {
    if body["kind"] != "APIGroupDiscoveryList" {
        return Err(Unusable::Other("APIGroupDiscoveryList"));
    }
    let mut listed = Listed::default();
    for group in items(&body["items"]) {
        let name = text(&group["metadata"]["name"]);
        let mut stale = BTreeMap::new();
        let versions: Vec<_> = items(&group["versions"])
            .map(|version| {
                let id = text(&version["version"]);
                let malformed = !version["resources"].is_null() && !version["resources"].is_array();
                if version["freshness"] == "Stale" || malformed {
                    let why = if malformed {
                        "its resources are malformed"
                    } else {
                        "its server does not answer"
                    };
                    let why = why.to_owned();
                    stale.insert(group_version(name, id), why);
                    return (id, None);
                }
                let resources = items(&version["resources"]).map(|it| {
                    let namespaced = match text(&it["scope"]) {
                        "Namespaced" => true,
                        "Cluster" => false,
                        _ => return None,
                    };
                    served(
                        it,
                        text(&it["resource"]),
                        text(&it["responseKind"]["kind"]),
                        namespaced,
                    )
                });
                (id, Some(unique(resources)))
            })
            .collect();
        let preferred = versions.first().map_or("", |(name, _)| name);
        listed.add(root, name, preferred, versions.into_iter());
        let listed_now = listed.groups.last().map(|group| &group.versions);
        let is_listed = |id: &String| {
            let mut versions = listed_now.into_iter().flatten();
            versions.any(|it| group_version(name, &it.name) == *id)
        };
        stale.retain(|id, _| is_listed(id));
        listed.stale.append(&mut stale);
    }
    Ok(listed)
}

/// The name of a group, its preferred version, and all versions.
type Names<'a> = (&'a str, &'a str, Box<dyn Iterator<Item = &'a str> + 'a>);

fn core(body: &Value) -> Result<Vec<Names<'_>>, Unusable> {
    if body["kind"] != "APIVersions" {
        return Err(Unusable::Other("APIVersions"));
    }
    let preferred = text(&body["versions"][0]);
    let versions = items(&body["versions"]).map(text);
    Ok(vec![("", preferred, Box::new(versions))])
}

fn named(body: &Value) -> Result<Vec<Names<'_>>, Unusable> {
    if body["kind"] != "APIGroupList" {
        return Err(Unusable::Other("APIGroupList"));
    }
    let groups = items(&body["groups"]).map(|group| {
        let versions = items(&group["versions"]).map(|version| text(&version["version"]));
        let preferred = text(&group["preferredVersion"]["version"]);
        (text(&group["name"]), preferred, Box::new(versions) as _)
    });
    Ok(groups.collect())
}

impl Listed {
    /// Adds a group if its name is valid and new.
    fn add<'a>(
        &mut self,
        root: Root,
        name: &str,
        preferred: &str,
        versions: impl Iterator<Item = (&'a str, Option<Vec<Served>>)>,
    ) {
        let known = self.groups.iter().any(|it| it.name == name);
        if known || (root == Root::Core) != name.is_empty() || (root == Root::Named && !is_name(name)) {
            self.skip(
                format!("{} {name:?}", root.path()),
                "the group is invalid or listed twice",
            );
            return;
        }
        let mut group = Group {
            name: name.to_owned(),
            preferred: preferred.to_owned(),
            versions: Vec::new(),
        };
        for (version, resources) in versions {
            if !is_name(version) || group.versions.iter().any(|it| it.name == version) {
                let id = format!("{:?}", group_version(name, version));
                self.skip(id, "the version is invalid or listed twice");
                continue;
            }
            group.versions.push(Version {
                name: version.to_owned(),
                resources,
            });
        }
        self.groups.push(group);
    }

    fn skip(&mut self, what: String, why: &str) {
        self.skipped.insert(what, why.to_owned());
    }
}

fn served(it: &Value, plural: &str, kind: &str, namespaced: bool) -> Option<Served> {
    // A name with a slash is a subresource.
    if !is_name(plural) || !is_name(kind) {
        return None;
    }
    let can = |verb: &str| items(&it["verbs"]).any(|it| it == verb);
    Some(Served {
        plural: plural.to_owned(),
        kind: kind.to_owned(),
        namespaced,
        collectable: can("delete") && can("list") && can("watch"),
    })
}

/// Removes malformed resources and duplicates.
fn unique(resources: impl Iterator<Item = Option<Served>>) -> Vec<Served> {
    let mut seen = BTreeSet::new();
    resources
        .flatten()
        .filter(|it| seen.insert(it.plural.clone()))
        .collect()
}

fn items(value: &Value) -> std::slice::Iter<'_, Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether this is a valid name and path segment.
pub(super) fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 253
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
}
