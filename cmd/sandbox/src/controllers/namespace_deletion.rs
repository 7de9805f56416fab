//! Namespace deletion (the namespace controller): deletes the pods of a terminating namespace, then its other content,
//! then removes the finalizer `kubernetes` from its spec.
//!
//! Objects with finalizers or a grace period remain, and block the namespace; its conditions report them. Every removal
//! of an object in the namespace starts another round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};

use crate::admission::namespace_lifecycle::NAMESPACES;
use crate::controllers::{InternalController, set_condition};
use crate::endpoints::Api;
use crate::json::{Value, json};
use crate::resource::Resource;
use crate::{fieldmanager, meta, registry};

/// The finalizer of the spec that blocks a namespace until it is empty.
const FINALIZER: &str = "kubernetes";

/// The remaining content of a namespace.
#[derive(Default)]
struct Remaining {
    /// Number of objects by resource.
    resources: BTreeMap<String, usize>,
    /// Number of objects by finalizer.
    finalizers: BTreeMap<String, usize>,
}

impl Api {
    /// Deletes as much of a terminating namespace as possible, unless the controller is delayed.
    pub(crate) fn empty_namespace(&self, name: &str) {
        if self.is_delayed(InternalController::NamespaceDeletion) {
            return;
        }
        while self.is_blocked_by_content(name) {
            let Some(pods_remain) = self.empty_exclusively(name) else {
                // The round in progress checks again at its end.
                return;
            };
            // Concurrent requests may have removed the blocking objects.
            let more = if pods_remain {
                !self.has_pods(name)
            } else {
                !self.has_content(name)
            };
            if !more {
                return;
            }
        }
    }

    /// Runs one round for every terminating namespace.
    pub(super) fn delete_contents_once(&self) {
        for namespace in &self.objects(NAMESPACES, "") {
            if self.is_blocked_by_content(&namespace.key) {
                self.empty_exclusively(&namespace.key);
            }
        }
    }

    /// Reports whether the content of a namespace is being deleted at this moment.
    pub(crate) fn is_emptying(&self, name: &str) -> bool {
        self.emptying().contains(name)
    }

    fn emptying(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.emptying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports whether a namespace is terminating and blocked by the finalizer of its spec.
    fn is_blocked_by_content(&self, name: &str) -> bool {
        let Some(namespace) = self.store.get(NAMESPACES, name) else {
            return false;
        };
        let namespace = namespace.value();
        let finalizers = namespace["spec"]["finalizers"].as_array();
        meta::is_terminating(namespace) && finalizers.is_some_and(|all| all.iter().any(|f| f == FINALIZER))
    }

    /// Runs one round as the only one of its namespace. Returns whether pods remain, or `None` if another round is in
    /// progress.
    fn empty_exclusively(&self, name: &str) -> Option<bool> {
        if !self.emptying().insert(name.to_owned()) {
            return None;
        }
        let pods_remain = self.empty_once(name);
        self.emptying().remove(name);
        Some(pods_remain)
    }

    /// Returns whether pods remain: all other content is deleted after them.
    fn empty_once(&self, name: &str) -> bool {
        let registry = self.registry();
        let (pods, others): (Vec<_>, Vec<_>) = registry
            .stored()
            .iter()
            .filter(|res| res.namespaced)
            .partition(|res| res.collection == "pods");
        self.delete_all(&pods, name);
        if self.has_pods(name) {
            // The conditions report other content only after the pods are gone, as on a cluster.
            self.report(name, &Remaining::default());
            return true;
        }
        self.delete_all(&others, name);
        let remaining = self.remaining(name);
        self.report(name, &remaining);
        if remaining.resources.is_empty() {
            self.remove_finalizer(name);
        }
        false
    }

    /// Deletes objects, or marks them for deletion.
    fn delete_all<R: AsRef<Resource>>(&self, resources: &[R], namespace: &str) {
        let prefix = format!("{namespace}/");
        for res in resources {
            let res = res.as_ref();
            for object in self.objects(&res.collection, &prefix) {
                let name = object.key.strip_prefix(&prefix).unwrap_or_default();
                self.delete_for_good(res, namespace, name);
            }
        }
    }

    fn has_pods(&self, namespace: &str) -> bool {
        self.store.has_any("pods", &format!("{namespace}/"))
    }

    fn has_content(&self, namespace: &str) -> bool {
        let prefix = format!("{namespace}/");
        let registry = self.registry();
        let mut namespaced = registry.stored().iter().filter(|r| r.namespaced);
        namespaced.any(|res| self.store.has_any(&res.collection, &prefix))
    }

    fn remaining(&self, namespace: &str) -> Remaining {
        let prefix = format!("{namespace}/");
        let mut remaining = Remaining::default();
        for res in self.registry().stored().iter().filter(|r| r.namespaced) {
            for object in self.objects(&res.collection, &prefix) {
                let resource = format!("{}.{}", res.plural, res.group);
                *remaining.resources.entry(resource).or_default() += 1;
                for finalizer in meta::finalizers(object.value()) {
                    *remaining.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
        }
        remaining
    }

    /// Reports the remaining content in the conditions of a namespace.
    fn report(&self, name: &str, remaining: &Remaining) {
        let Some(res) = registry::built_in("", "v1", NAMESPACES) else {
            return;
        };
        let now = self.env.time();
        // NotFound: the namespace is gone.
        let _ = self.mutate(res, "", name, false, |namespace| {
            let before = namespace.clone();
            for condition in remaining.conditions() {
                set_condition(namespace, &now, condition.each_ref().map(String::as_str));
            }
            fieldmanager::track_update(res, &self.controller("status"), &before, namespace);
            Ok(())
        });
    }

    /// Removes the finalizer of an empty namespace. Other finalizers of the spec still block it.
    fn remove_finalizer(&self, name: &str) {
        let Some(res) = registry::built_in("", "v1", NAMESPACES) else {
            return;
        };
        // NotFound: a concurrent request finalized the namespace.
        let _ = self.mutate(res, "", name, false, |namespace| {
            let finalizers = namespace["spec"]["finalizers"].as_array();
            let others: Vec<Value> = finalizers
                .into_iter()
                .flatten()
                .filter(|f| **f != FINALIZER)
                .cloned()
                .collect();
            let spec = if others.is_empty() {
                json!({})
            } else {
                json!({"finalizers": others})
            };
            meta::set_path(namespace, "spec", spec);
            Ok(())
        });
    }
}

impl Remaining {
    /// Returns type, status, reason and message of each condition.
    fn conditions(&self) -> [[String; 4]; 5] {
        let listed = |counts: &BTreeMap<String, usize>, verb: &str| {
            let parts = counts.iter();
            let mut parts: Vec<String> = parts
                .map(|(name, n)| format!("{name} {verb} {n} resource instances"))
                .collect();
            parts.sort();
            parts.join(", ")
        };
        let mut conditions = NOTHING_REMAINS
            .map(|[kind, reason, message]| [kind, "False", reason, message].map(str::to_owned));
        let mut remain = |at: usize, reason: &str, message: String| {
            let kind = conditions[at][0].clone();
            conditions[at] = [kind, "True".to_owned(), reason.to_owned(), message];
        };
        if !self.resources.is_empty() {
            let message = format!("Some resources are remaining: {}", listed(&self.resources, "has"));
            remain(3, "SomeResourcesRemain", message);
        }
        if !self.finalizers.is_empty() {
            let finalizers = listed(&self.finalizers, "in");
            let message = format!("Some content in the namespace has finalizers remaining: {finalizers}");
            remain(4, "SomeFinalizersRemain", message);
        }
        conditions
    }
}

/// The conditions of a namespace without content.
const NOTHING_REMAINS: [[&str; 3]; 5] = [
    [
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ],
    [
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ],
    [
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ],
    [
        "NamespaceContentRemaining",
        "ContentRemoved",
        "All content successfully removed",
    ],
    [
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ],
];
