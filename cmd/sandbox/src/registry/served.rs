//! The served resources: the built-in ones, unless some are disabled, and those of established CRDs.
//!
//! The API server uses objects of built-in kinds itself, whether they are served or not: see [`registry::built_in`].

use std::sync::Arc;

use crate::discovery::Documents;
use crate::json::Lookup;
use crate::registry;
use crate::resource::Resource;

/// An immutable table; a change makes a new one.
#[derive(Debug, Clone)]
pub struct ServedResources {
    resources: Arc<Vec<Arc<Resource>>>,
    /// By plural name.
    by_name: Arc<Lookup<Vec<Arc<Resource>>, String>>,
    stored: Arc<Vec<Arc<Resource>>>,
    documents: Arc<Documents>,
}

impl Default for ServedResources {
    fn default() -> Self {
        Self::new()
    }
}

impl ServedResources {
    /// The built-in resources.
    #[must_use]
    pub fn new() -> Self {
        let built_in: Vec<_> = registry::all().iter().cloned().map(Arc::new).collect();
        let stored = built_in
            .iter()
            .filter(|r| r.api_version() == r.stored_as)
            .cloned()
            .collect();
        Self::of(built_in, stored, Documents::default())
    }

    fn of(resources: Vec<Arc<Resource>>, stored: Vec<Arc<Resource>>, documents: Documents) -> Self {
        let mut by_name: Lookup<Vec<_>, String> = Lookup::default();
        for resource in &resources {
            let others = by_name.entry(resource.plural.clone()).or_default();
            others.push(resource.clone());
        }
        Self {
            resources: Arc::new(resources),
            by_name: Arc::new(by_name),
            stored: Arc::new(stored),
            documents: Arc::new(documents),
        }
    }

    /// The same with other custom resources: those that are `served`, and those that are `stored`.
    #[must_use]
    pub fn with_custom(&self, served: Vec<Resource>, stored: Vec<Resource>) -> Self {
        let replaced = |present: &[Arc<Resource>], custom: Vec<Resource>| {
            let built_in = present.iter().filter(|r| r.custom.is_none()).cloned();
            built_in.chain(custom.into_iter().map(Arc::new)).collect()
        };
        let resources: Vec<_> = replaced(&self.resources, served);
        let documents = self.documents.for_next(&self.resources, &resources);
        Self::of(resources, replaced(&self.stored, stored), documents)
    }

    /// The same with those built-in resources only for which `serves` (group, plural name) returns true.
    #[must_use]
    pub fn with_built_in(&self, serves: &dyn Fn(&str, &str) -> bool) -> Self {
        let is_served = |r: &&Arc<Resource>| r.custom.is_some() || serves(&r.group, &r.plural);
        let resources = self.resources.iter().filter(is_served).cloned().collect();
        Self::of(resources, self.stored.to_vec(), Documents::default())
    }

    /// Discovery and `OpenAPI` documents of the resources.
    #[must_use]
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// The resource at a path.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let mut found = self.by_name.get(plural)?.iter();
        // A custom resource takes precedence.
        found.rfind(|r| r.group == group && r.version == version).cloned()
    }

    /// All of them, built-in ones first.
    #[must_use]
    pub fn all(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// One resource per collection of the store, in the version that is stored, whether that is served or not.
    #[must_use]
    pub fn stored(&self) -> &[Arc<Resource>] {
        &self.stored
    }
}
