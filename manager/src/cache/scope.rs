//! The part of the cluster that a manager caches.

use crate::object::Resource;

/// The scope of all caches of a manager. Defaults to all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Empty means all namespaces. Cluster-scoped objects are always included.
    pub namespaces: Vec<String>,
    /// A label selector in the syntax of the API. Empty means all objects.
    pub label_selector: String,
}

impl Scope {
    /// Returns the namespaces to list and watch; an empty one is the whole cluster.
    pub(super) fn partitions(&self, resource: &Resource) -> Vec<String> {
        let mut partitions = self.namespaces.clone();
        partitions.sort();
        partitions.dedup();
        // An empty name means all namespaces.
        if !resource.namespaced || partitions.first().is_none_or(String::is_empty) {
            return vec![String::new()];
        }
        partitions
    }

    /// Returns true if the scope includes all objects of a resource.
    pub(super) fn includes_all(&self, resource: &Resource) -> bool {
        self.label_selector.is_empty() && self.partitions(resource) == [""]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
    const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");

    fn scope(namespaces: &[&str], labels: &str) -> Scope {
        Scope {
            namespaces: namespaces.iter().map(ToString::to_string).collect(),
            label_selector: labels.to_owned(),
        }
    }

    #[test]
    fn namespaced_resource_has_one_partition_per_namespace() {
        let two = scope(&["b", "a", "b"], "");
        assert_eq!(two.partitions(&PODS), ["a", "b"]);
        assert_eq!(two.partitions(&NODES), [""]);
        assert!(!two.includes_all(&PODS) && two.includes_all(&NODES));
        assert_eq!(scope(&[], "").partitions(&PODS), [""]);
        assert_eq!(scope(&["a", ""], "").partitions(&PODS), [""]);
    }

    #[test]
    fn label_selector_excludes_objects() {
        assert!(scope(&[], "").includes_all(&PODS));
        assert!(!scope(&[], "a=b").includes_all(&NODES));
    }
}
