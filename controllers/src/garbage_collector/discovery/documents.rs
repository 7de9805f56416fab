//! What the documents of discovery say, whichever form they came in. Pure.

use std::collections::BTreeMap;

use coxswain_manager::object::Resource;

/// Where the documents begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Root {
    /// `/api`: the core group.
    Core,
    /// `/apis`: all others.
    Named,
}

/// The groups, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Documents(BTreeMap<Root, Vec<Group>>);

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Empty for the core group.
    pub(super) name: String,
    /// The version that the server prefers.
    pub(super) preferred: String,
    /// In the order of the document, each once.
    pub(super) versions: Vec<Version>,
}

/// A version of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) name: String,
    /// None if they are not known.
    pub(super) resources: Option<Vec<Served>>,
}

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) plural: String,
    pub(super) kind: String,
    pub(super) namespaced: bool,
    /// It can be listed, watched and deleted.
    pub(super) collectable: bool,
}

impl Root {
    pub(super) const ALL: [Self; 2] = [Self::Core, Self::Named];

    /// Its path, which is its name as well.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Core => "/api",
            Self::Named => "/apis",
        }
    }
}

impl Documents {
    /// All groups.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.0.values().flatten()
    }

    /// The groups below a root are these.
    pub(super) fn set(&mut self, root: Root, groups: Vec<Group>) {
        self.0.insert(root, groups);
    }

    /// The resources of a version are these.
    pub(super) fn fill(&mut self, group: &str, version: &str, resources: Vec<Served>) {
        let versions = self.0.values_mut().flatten().filter(|it| it.name == group);
        for it in versions.flat_map(|it| &mut it.versions) {
            if it.name == version {
                it.resources = Some(resources);
                return;
            }
        }
    }

    /// What is not known is as it was `before`. A group or version that is no longer listed is gone.
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

    /// Strikes a resource off, in all versions.
    pub(super) fn strike(&mut self, group: &str, plural: &str) {
        let versions = self.0.values_mut().flatten().filter(|it| it.name == group);
        for resources in versions
            .flat_map(|it| &mut it.versions)
            .filter_map(|it| it.resources.as_mut())
        {
            resources.retain(|it| it.plural != plural);
        }
    }

    /// Whether the resources of any version are known.
    pub(super) fn is_known(&self) -> bool {
        let mut versions = self.groups().flat_map(|it| &it.versions);
        versions.any(|it| it.resources.is_some())
    }

    /// Whether a version is listed, known or not.
    pub(super) fn lists(&self, group: &str, version: &str) -> bool {
        self.version(group, version).is_some()
    }

    /// Whether a resource is known to be served.
    pub(super) fn serves(&self, resource: &Resource) -> bool {
        let resources = self.resources(&resource.group, &resource.version);
        resources.is_some_and(|it| it.iter().any(|it| it.plural == resource.plural))
    }

    /// The resources of a version, if they are known.
    fn resources(&self, group: &str, version: &str) -> Option<&Vec<Served>> {
        self.version(group, version)?.resources.as_ref()
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
