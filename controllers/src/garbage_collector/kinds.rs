//! The served kinds, and those that are collected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use steersman_manager::object::{Resource, Text};

/// The plural of a group-version whose resources are unknown, as in RBAC.
pub(super) const ALL_RESOURCES: &str = "*";

/// A kind in one served version.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The resource in paths.
    pub resource: Resource,
    /// The group and version, as in references.
    pub api_version: Text,
    /// The kind, as in references.
    pub kind: Text,
}

/// All kinds at one time.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// By apiVersion and kind; none if several resources have that kind, so that a reference is ambiguous.
    served: BTreeMap<(Text, Text), Option<Arc<Kind>>>,
    collected: Vec<Arc<Kind>>,
    undescribed: Vec<Arc<Kind>>,
}

impl Kind {
    #[must_use]
    #[expect(missing_docs, reason = "plain constructor")]
    pub fn new(resource: Resource) -> Self {
        Self {
            api_version: resource.api_version().as_str().into(),
            kind: (&*resource.kind).into(),
            resource,
        }
    }

    fn plural(&self) -> (String, String, bool) {
        let it = &self.resource;
        (it.group.to_string(), it.plural.to_string(), it.namespaced)
    }

    /// Whether the server may support strategic merge patches. CRDs do not, even those in a `k8s.io` group: their first
    /// patch fails with 415.
    #[must_use]
    pub fn is_strategic(&self) -> bool {
        let group = &self.resource.group;
        !group.contains('.') || group.ends_with(".k8s.io")
    }
}

impl Kinds {
    /// Builds the set of served kinds. Those in `collected` are watched, each in one version.
    #[must_use]
    pub fn new(served: impl IntoIterator<Item = Kind>, collected: &BTreeSet<Resource>) -> Self {
        let mut kinds = Self::default();
        for kind in served {
            let kind = Arc::new(kind);
            if collected.contains(&kind.resource) {
                kinds.collected.push(Arc::clone(&kind));
            }
            let name = (kind.api_version.clone(), kind.kind.clone());
            kinds
                .served
                .entry(name)
                .and_modify(|it| *it = it.take().filter(|it| it.resource == kind.resource))
                .or_insert(Some(kind));
        }
        kinds.collected.sort();
        kinds.collected.dedup_by(|a, b| a.resource == b.resource);
        let watched: BTreeMap<_, _> = kinds.collected.iter().map(|it| (it.plural(), it)).collect();
        for kind in kinds.served.values_mut().flatten() {
            if let Some(watched) = watched.get(&kind.plural()) {
                *kind = Arc::clone(watched);
            }
        }
        kinds
    }

    /// Adds group-versions that discovery lists without a description.
    #[must_use]
    pub fn without<'a>(mut self, undescribed: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let unknown = |(group, version): (&str, &str)| {
            Arc::new(Kind::new(Resource {
                group: group.to_owned().into(),
                version: version.to_owned().into(),
                ..Resource::namespaced("", "", ALL_RESOURCES, ALL_RESOURCES)
            }))
        };
        self.undescribed = undescribed.into_iter().map(unknown).collect();
        self
    }

    /// Returns a copy with `more` kinds.
    #[must_use]
    pub fn and<'a>(&self, more: impl IntoIterator<Item = &'a Arc<Kind>>) -> Self {
        let mut all = Self {
            served: self.served.clone(),
            collected: self.collected.clone(),
            undescribed: self.undescribed.clone(),
        };
        for kind in more {
            let name = (kind.api_version.clone(), kind.kind.clone());
            all.served.entry(name).or_insert_with(|| Some(Arc::clone(kind)));
            if all.watched(&kind.resource).is_none() {
                all.collected.push(Arc::clone(kind));
                all.collected.sort();
            }
        }
        all
    }

    /// Resolves the kind of a reference in any served version to the version that is watched, if there is one, so that all versions
    /// of an object have one identity.
    #[must_use]
    pub fn resolve(&self, api_version: &Text, kind: &Text) -> Option<&Arc<Kind>> {
        self.served.get(&(api_version.clone(), kind.clone()))?.as_ref()
    }

    /// The kinds, by group, that resolve to another resource in `other`, or are watched in only one of the two.
    pub(super) fn changed(&self, other: &Self) -> BTreeMap<String, BTreeSet<Text>> {
        let mut changed: BTreeMap<String, BTreeSet<Text>> = BTreeMap::new();
        for (api_version, kind) in self.served.keys().chain(other.served.keys()) {
            let resolve = |kinds: &Self| {
                let kind = Arc::clone(kinds.resolve(api_version, kind)?);
                let watched = kinds.watched(&kind.resource).is_some();
                Some((kind, watched))
            };
            let (old, new) = (resolve(self), resolve(other));
            if old != new {
                let names = changed.entry(group(api_version).to_owned()).or_default();
                names.insert(kind.clone());
                names.extend([old, new].into_iter().flatten().map(|(it, _)| it.kind.clone()));
            }
        }
        changed
    }

    /// The kind of a watched resource.
    #[must_use]
    pub fn watched(&self, resource: &Resource) -> Option<&Arc<Kind>> {
        let at = self
            .collected
            .binary_search_by(|kind| kind.resource.cmp(resource))
            .ok()?;
        self.collected.get(at)
    }

    /// The watched kinds, ordered by resource.
    #[must_use]
    pub fn collected(&self) -> &[Arc<Kind>] {
        &self.collected
    }

    /// The group-versions that discovery lists without a description, each as a resource `*`. They may have objects that block an
    /// owner or depend on it.
    #[must_use]
    pub fn undescribed(&self) -> &[Arc<Kind>] {
        &self.undescribed
    }

    /// The numbers of served kinds, of collected kinds, and of undescribed group-versions.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.served.len(), self.collected.len(), self.undescribed.len())
    }
}

/// The group of an apiVersion; empty for the core group.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
