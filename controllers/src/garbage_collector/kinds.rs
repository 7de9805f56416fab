//! The kinds that the API serves, and which of them are collected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coxswain_manager::object::{Resource, Text};

/// A kind in one version that is served.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Where its objects are.
    pub resource: Resource,
    /// Its group and version, as references write it.
    pub api_version: Text,
    /// Its name, as references write it.
    pub kind: Text,
    /// It comes from a CRD: the server knows no strategic merge patch of it.
    pub custom: bool,
}

/// All kinds at one time.
#[derive(Debug, Default)]
pub struct Kinds {
    /// By version and kind; none if several resources are of it, so that nobody can tell which one is meant.
    served: BTreeMap<(Text, Text), Option<Arc<Kind>>>,
    collected: Vec<Arc<Kind>>,
}

impl Kind {
    /// The kind of a resource.
    #[must_use]
    pub fn new(resource: Resource, custom: bool) -> Self {
        Self {
            api_version: resource.api_version().as_str().into(),
            kind: (&*resource.kind).into(),
            resource,
            custom,
        }
    }
}

impl Kinds {
    /// These kinds are served, and those in `collected` are watched, each in one version.
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
        kinds
    }

    /// These, and `more` beside them.
    #[must_use]
    pub fn and<'a>(&self, more: impl IntoIterator<Item = &'a Arc<Kind>>) -> Self {
        let mut all = Self {
            served: self.served.clone(),
            collected: self.collected.clone(),
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

    /// The kind that a reference names: in exactly that version.
    #[must_use]
    pub fn resolve(&self, api_version: &Text, kind: &Text) -> Option<&Arc<Kind>> {
        self.served.get(&(api_version.clone(), kind.clone()))?.as_ref()
    }

    /// The kind of a resource that is watched.
    #[must_use]
    pub fn watched(&self, resource: &Resource) -> Option<&Arc<Kind>> {
        let at = self
            .collected
            .binary_search_by(|kind| kind.resource.cmp(resource))
            .ok()?;
        self.collected.get(at)
    }

    /// Those that are watched, by resource.
    #[must_use]
    pub fn collected(&self) -> &[Arc<Kind>] {
        &self.collected
    }
}
