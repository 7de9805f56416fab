//! Which resources are served: the built-in ones, and those of the CRDs that are established.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kinds;
use crate::resource::Resource;

/// An immutable table; a change makes a new one.
#[derive(Debug, Clone)]
pub struct Registry {
    resources: Arc<Vec<Arc<Resource>>>,
    by_path: Arc<BTreeMap<(String, String, String), Arc<Resource>>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// The built-in resources.
    #[must_use]
    pub fn new() -> Self {
        Self::of(kinds::all().into_iter().map(Arc::new).collect())
    }

    fn of(resources: Vec<Arc<Resource>>) -> Self {
        let by_path = resources
            .iter()
            .map(|r| ((r.group.clone(), r.version.clone(), r.plural.clone()), r.clone()))
            .collect();
        Self {
            resources: Arc::new(resources),
            by_path: Arc::new(by_path),
        }
    }

    /// The same with `custom` in place of the custom resources that it had.
    #[must_use]
    pub fn with_custom(&self, custom: Vec<Resource>) -> Self {
        let built_in = self.resources.iter().filter(|r| r.custom.is_none()).cloned();
        Self::of(built_in.chain(custom.into_iter().map(Arc::new)).collect())
    }

    /// The resource at a path.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.by_path
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
            .cloned()
    }

    /// All of them, built-in ones first.
    #[must_use]
    pub fn all(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// One resource per collection of the store: the one whose version is stored, if that is served at all.
    #[must_use]
    pub fn stored(&self) -> Vec<Arc<Resource>> {
        let mut by_collection: BTreeMap<&str, &Arc<Resource>> = BTreeMap::new();
        for resource in self.resources.iter() {
            let chosen = by_collection.entry(&resource.collection).or_insert(resource);
            if resource.api_version() == resource.stored_as {
                *chosen = resource;
            }
        }
        by_collection.into_values().cloned().collect()
    }
}
