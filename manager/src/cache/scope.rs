//! Which part of the cluster is cached.

use crate::object::Resource;

/// What all caches of a manager are limited to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The namespaces; none means all. What is not in a namespace is cached in any case.
    pub namespaces: Vec<String>,
    /// The labels that objects must have, as the API takes them; empty means no limit.
    pub label_selector: String,
}

impl Scope {
    /// The namespaces that a resource is listed and watched in, each once; an empty one is the whole cluster.
    pub(super) fn feeds(&self, resource: &Resource) -> Vec<String> {
        let mut feeds = self.namespaces.clone();
        feeds.sort();
        feeds.dedup();
        // An empty name among them asks for all.
        if !resource.namespaced || feeds.first().is_none_or(String::is_empty) {
            return vec![String::new()];
        }
        feeds
    }

    /// Whether all objects of a resource are within it.
    pub(super) fn is_whole(&self, resource: &Resource) -> bool {
        self.label_selector.is_empty() && self.feeds(resource) == [""]
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
    fn namespaces_make_a_feed_each_for_what_is_in_one() {
        let two = scope(&["b", "a", "b"], "");
        assert_eq!(two.feeds(&PODS), ["a", "b"]);
        assert_eq!(two.feeds(&NODES), [""]);
        assert!(!two.is_whole(&PODS) && two.is_whole(&NODES));
        assert_eq!(scope(&[], "").feeds(&PODS), [""]);
        assert_eq!(scope(&["a", ""], "").feeds(&PODS), [""]);
    }

    #[test]
    fn labels_leave_something_out() {
        assert!(scope(&[], "").is_whole(&PODS));
        assert!(!scope(&[], "a=b").is_whole(&NODES));
    }
}
