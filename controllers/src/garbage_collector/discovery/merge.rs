//! From documents and definitions to kinds. Pure.
//!
//! Each resource is collected in one version: the one that its group prefers if that serves it, else the first that is
//! listed. All versions can be resolved. What belongs to a CRD is as the CRD says, whatever the documents say.

use std::collections::{BTreeMap, BTreeSet};

use coxswain_manager::object::Resource;

use super::definition::Definitions;
use super::documents::{Documents, Group};
use crate::garbage_collector::kinds::{Kind, Kinds};

/// Resources of which nobody collects anything: there are many of them, and they expire.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// What is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Merged {
    /// Whether it comes from a CRD.
    served: BTreeMap<Resource, bool>,
    collected: BTreeSet<Resource>,
}

/// What follows from both. Without definitions, the documents alone count.
pub(super) fn merge(documents: &Documents, definitions: Option<&Definitions>) -> Merged {
    let mut merged = Merged::default();
    let is_defined = |group: &str, plural: &str| {
        definitions.is_some_and(|it| it.contains_key(&(group.to_owned(), plural.to_owned())))
    };
    for group in documents.groups() {
        merged.add(group, |plural| is_defined(&group.name, plural));
    }
    for versions in definitions.into_iter().flat_map(BTreeMap::values) {
        let served = versions.iter().map(|it| (it.clone(), true));
        merged.served.extend(served);
        merged.collected.extend(versions.first().cloned());
    }
    merged
}

impl Merged {
    pub(super) fn kinds(&self) -> Kinds {
        let served = self.served.iter();
        let served = served.map(|(resource, custom)| Kind::new(resource.clone(), *custom));
        Kinds::new(served, &self.collected)
    }

    /// How many resources are served, and how many of them are collected.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.served.len(), self.collected.len())
    }

    fn add(&mut self, group: &Group, is_defined: impl Fn(&str) -> bool) {
        let mut chosen = BTreeMap::new();
        for version in &group.versions {
            let resources = version.resources.iter().flatten();
            for it in resources.filter(|it| !is_defined(&it.plural)) {
                let resource = Resource {
                    group: group.name.clone().into(),
                    version: version.name.clone().into(),
                    plural: it.plural.clone().into(),
                    kind: it.kind.clone().into(),
                    namespaced: it.namespaced,
                };
                // Which version is chosen does not depend on what can be done with it in others.
                let collected = it.collectable.then(|| resource.clone());
                if version.name == group.preferred {
                    chosen.insert(&it.plural, collected);
                } else {
                    chosen.entry(&it.plural).or_insert(collected);
                }
                self.served.insert(resource, false);
            }
        }
        let is_ignored = |plural: &str| IGNORED.contains(&(&group.name, plural));
        let collected = chosen.into_iter().filter(|(plural, _)| !is_ignored(plural));
        self.collected
            .extend(collected.filter_map(|(_, resource)| resource));
    }
}
