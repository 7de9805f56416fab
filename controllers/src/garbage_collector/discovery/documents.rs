//! The groups, versions and resources of the discovery documents. Pure.

use std::collections::{BTreeMap, BTreeSet};

use steersman_manager::object::Resource;
use steersman_manager::revived;

use crate::garbage_collector::kinds::{Kind, Kinds};

/// Resources that are never collected: their objects are many, and expire.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// A root of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Root {
    /// `/api`: the core group.
    Core,
    /// `/apis`: all others.
    Named,
}

/// The known groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Documents(BTreeMap<Root, Vec<Group>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Empty for the core group.
    pub(super) name: String,
    /// The version that the server prefers.
    pub(super) preferred: String,
    /// In the order of the document, each once.
    pub(super) versions: Vec<Version>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) name: String,
    /// None if unknown.
    pub(super) resources: Option<Vec<Served>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) plural: String,
    pub(super) kind: String,
    pub(super) namespaced: bool,
    /// Whether it can be listed, watched and deleted.
    pub(super) collectable: bool,
}

impl Root {
    pub(super) const ALL: [Self; 2] = [Self::Core, Self::Named];

    /// The path, which is also the name.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Core => "/api",
            Self::Named => "/apis",
        }
    }
}

impl Documents {
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.0.values().flatten()
    }

    /// Replaces the groups of a root.
    pub(super) fn set(&mut self, root: Root, groups: Vec<Group>) {
        self.0.insert(root, groups);
    }

    /// Sets the resources of a version.
    pub(super) fn fill(&mut self, group: &str, version: &str, resources: Vec<Served>) {
        let versions = self.0.values_mut().flatten().filter(|it| it.name == group);
        for it in versions.flat_map(|it| &mut it.versions) {
            if it.name == version {
                it.resources = Some(resources);
                return;
            }
        }
    }

    /// Fills unknown parts from `before`. A group or version that is no longer listed is removed.
    pub(super) fn keep(&mut self, before: &Self) {
        for (root, groups) in &before.0 {
            self.0.entry(*root).or_insert_with(|| groups.clone());
        }
        for group in self.0.values_mut().flatten() {
            for version in &mut group.versions {
                if version.resources.is_none() {
                    version.resources = before.resources(&group.name, &version.name).cloned();
                }
            }
        }
    }

    /// Keeps the resources of `before` that are missing here although `defines` (by group, version and plural) still holds: the
    /// server that answered lags behind. Returns whether there are any.
    pub(super) fn keep_defined(&mut self, before: &Self, defines: impl Fn(&str, &str, &str) -> bool) -> bool {
        let mut kept = false;
        for (root, group) in before
            .0
            .iter()
            .flat_map(|(root, it)| it.iter().map(move |it| (root, it)))
        {
            for version in &group.versions {
                let mut lost = version.resources.clone().unwrap_or_default();
                lost.retain(|it| {
                    !self.has(&group.name, &it.plural) && defines(&group.name, &version.name, &it.plural)
                });
                if !lost.is_empty() {
                    kept = true;
                    self.add(*root, group, &version.name, lost);
                }
            }
        }
        kept
    }

    fn add(&mut self, root: Root, of: &Group, version: &str, resources: Vec<Served>) {
        let groups = self.0.entry(root).or_default();
        let at = groups
            .iter()
            .position(|it| it.name == of.name)
            .unwrap_or_else(|| {
                groups.push(Group {
                    versions: Vec::new(),
                    ..of.clone()
                });
                groups.len() - 1
            });
        let versions = &mut groups[at].versions;
        match versions.iter_mut().find(|it| it.name == version) {
            Some(it) => it.resources.get_or_insert_default().extend(resources),
            None => versions.push(Version {
                name: version.to_owned(),
                resources: Some(resources),
            }),
        }
    }

    /// Whether both roots were read.
    pub(super) fn has_both_roots(&self) -> bool {
        self.0.len() == Root::ALL.len() || revived!(A1) && !self.0.is_empty()
    }

    /// Whether any version of a group has a resource.
    pub(super) fn has(&self, group: &str, plural: &str) -> bool {
        let mut versions = self
            .groups()
            .filter(|it| it.name == group)
            .flat_map(|it| &it.versions);
        versions.any(|it| it.resources.iter().flatten().any(|it| it.plural == plural))
    }

    /// Whether a version is listed, with or without its resources.
    pub(super) fn lists(&self, group: &str, version: &str) -> bool {
        self.version(group, version).is_some()
    }

    /// Whether a resource is known to be served.
    pub(super) fn serves(&self, resource: &Resource) -> bool {
        let resources = self.resources(&resource.group, &resource.version);
        resources.is_some_and(|it| it.iter().any(|it| it.plural == resource.plural))
    }

    fn resources(&self, group: &str, version: &str) -> Option<&Vec<Served>> {
        self.version(group, version)?.resources.as_ref()
    }

    /// The kinds. Each resource is collected in one version: the preferred version of its group if that serves it, else the
    /// first one listed. Every version can be resolved.
    pub(super) fn kinds(&self) -> Kinds {
        let (mut served, mut collected, mut undescribed) = (Vec::new(), BTreeSet::new(), Vec::new());
        for group in self.groups() {
            let mut chosen = BTreeMap::new();
            for version in &group.versions {
                let Some(resources) = &version.resources else {
                    undescribed.push((&*group.name, &*version.name));
                    continue;
                };
                for it in resources {
                    let resource = Resource {
                        group: group.name.clone().into(),
                        version: version.name.clone().into(),
                        plural: it.plural.clone().into(),
                        kind: it.kind.clone().into(),
                        namespaced: it.namespaced,
                    };
                    served.push(Kind::new(resource.clone()));
                    // The choice of the version does not depend on its verbs.
                    let resource = it.collectable.then_some(resource);
                    if version.name == group.preferred {
                        chosen.insert(&*it.plural, resource);
                    } else {
                        chosen.entry(&*it.plural).or_insert(resource);
                    }
                }
            }
            let chosen = chosen.into_iter();
            let chosen = chosen.filter(|(plural, _)| !IGNORED.contains(&(&*group.name, *plural)));
            collected.extend(chosen.filter_map(|(_, resource)| resource));
        }
        Kinds::new(served, &collected).without(undescribed)
    }

    fn version(&self, group: &str, version: &str) -> Option<&Version> {
        let group = self.groups().find(|it| it.name == group)?;
        group.versions.iter().find(|it| it.name == version)
    }
}

/// A group and a version as references write it: `apps/v1`, or `v1` for the core group.
pub(super) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}
