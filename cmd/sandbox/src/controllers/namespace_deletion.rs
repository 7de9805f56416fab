//! How a namespace that is marked goes away: its pods, then all the rest, then the namespace itself.
//!
//! What has finalizers or needs time to end stays, and holds the namespace; its status says so. Whenever something of it is
//! removed, the next step is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::admission::namespace_lifecycle::NAMESPACES;
use crate::endpoints::Api;
use crate::resource::Resource;
use crate::{fieldmanager, meta};

/// The finalizer of the spec by which a namespace is held until it is empty.
const HOLD: &str = "kubernetes";

/// What is left of a namespace.
#[derive(Default)]
struct Left {
    /// How many objects, by resource.
    resources: BTreeMap<String, usize>,
    /// How many objects, by finalizer.
    finalizers: BTreeMap<String, usize>,
}

impl Api {
    /// Takes a namespace that is marked as far as it goes now.
    pub(crate) fn empty_namespace(&self, name: &str) {
        while self.is_leaving(name) {
            if !self.emptying().insert(name.to_owned()) {
                // Whoever is at it looks again when done.
                return;
            }
            let pods_remain = self.empty_once(name);
            self.emptying().remove(name);
            // Meanwhile others may have taken away what stood in the way.
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

    /// Whether a namespace is being emptied at this moment.
    pub(crate) fn is_emptying(&self, name: &str) -> bool {
        self.emptying().contains(name)
    }

    fn emptying(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.emptying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a namespace is marked, and held for its content.
    fn is_leaving(&self, name: &str) -> bool {
        let Some(namespace) = self.store.get(NAMESPACES, name) else {
            return false;
        };
        let namespace = namespace.value();
        let finalizers = namespace["spec"]["finalizers"].as_array();
        meta::is_terminating(namespace) && finalizers.is_some_and(|all| all.iter().any(|f| f == HOLD))
    }

    /// Returns whether pods are left, for which all else waits.
    fn empty_once(&self, name: &str) -> bool {
        let registry = self.registry();
        let (pods, others): (Vec<_>, Vec<_>) = registry
            .stored()
            .iter()
            .filter(|res| res.namespaced)
            .partition(|res| res.collection == "pods");
        self.delete_all(&pods, name);
        if self.has_pods(name) {
            // As on a cluster, where the wait for pods goes before any look at what else there is.
            self.report(name, &Left::default());
            return true;
        }
        self.delete_all(&others, name);
        let left = self.left(name);
        self.report(name, &left);
        if left.resources.is_empty() {
            self.release_namespace(name);
        }
        false
    }

    /// Deletes as far as it can be done now.
    fn delete_all<R: AsRef<Resource>>(&self, resources: &[R], namespace: &str) {
        let prefix = format!("{namespace}/");
        for res in resources {
            let res = res.as_ref();
            let Ok(snapshot) = self.store.snapshot(&res.collection, &prefix, None, None) else {
                continue;
            };
            for object in snapshot.objects {
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

    fn left(&self, namespace: &str) -> Left {
        let prefix = format!("{namespace}/");
        let mut left = Left::default();
        for res in self.registry().stored().iter().filter(|r| r.namespaced) {
            let Ok(snapshot) = self.store.snapshot(&res.collection, &prefix, None, None) else {
                continue;
            };
            for object in snapshot.objects {
                let resource = format!("{}.{}", res.plural, res.group);
                *left.resources.entry(resource).or_default() += 1;
                for finalizer in meta::finalizers(object.value()) {
                    *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
        }
        left
    }

    /// Says in the status of a namespace what keeps it.
    fn report(&self, name: &str, left: &Left) {
        let Some(res) = self.registry().find("", "v1", NAMESPACES) else {
            return;
        };
        let now = self.env.time();
        // If it is gone, there is nobody to tell.
        let _ = self.mutate(&res, "", name, false, |namespace| {
            let before = namespace.clone();
            for condition in left.conditions(&now) {
                set_condition(namespace, condition);
            }
            fieldmanager::track(&res, &self.controller("status"), Some(&before), namespace);
            Ok(())
        });
    }

    /// Lets go of a namespace that is empty. It stays if others hold it too.
    fn release_namespace(&self, name: &str) {
        let Some(res) = self.registry().find("", "v1", NAMESPACES) else {
            return;
        };
        // If somebody else has done so meanwhile, there is nothing left to do.
        let _ = self.mutate(&res, "", name, false, |namespace| {
            let finalizers = namespace["spec"]["finalizers"].as_array();
            let others: Vec<Value> = finalizers
                .into_iter()
                .flatten()
                .filter(|f| **f != HOLD)
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

impl Left {
    fn conditions(&self, now: &str) -> [Value; 5] {
        let listed = |counts: &BTreeMap<String, usize>, how: &str| {
            let mut parts: Vec<String> = counts
                .iter()
                .map(|(what, n)| format!("{what} {how} {n} resource instances"))
                .collect();
            parts.sort();
            parts.join(", ")
        };
        let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
        let good = |kind: &str, reason: &str, message: &str| condition(kind, "False", reason, message);
        let content = if self.resources.is_empty() {
            good(
                "NamespaceContentRemaining",
                "ContentRemoved",
                "All content successfully removed",
            )
        } else {
            let message = format!("Some resources are remaining: {}", listed(&self.resources, "has"));
            condition(
                "NamespaceContentRemaining",
                "True",
                "SomeResourcesRemain",
                &message,
            )
        };
        let held = if self.finalizers.is_empty() {
            good(
                "NamespaceFinalizersRemaining",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            )
        } else {
            let message = format!(
                "Some content in the namespace has finalizers remaining: {}",
                listed(&self.finalizers, "in")
            );
            condition(
                "NamespaceFinalizersRemaining",
                "True",
                "SomeFinalizersRemain",
                &message,
            )
        };
        [
            good(
                "NamespaceDeletionDiscoveryFailure",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            good(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            good(
                "NamespaceDeletionContentFailure",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            content,
            held,
        ]
    }
}

/// Sets a condition; its time changes only with its status.
fn set_condition(namespace: &mut Value, mut condition: Value) {
    let mut conditions = namespace["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    match conditions.iter_mut().find(|c| c["type"] == condition["type"]) {
        Some(present) => {
            if present["status"] == condition["status"] {
                condition["lastTransitionTime"] = present["lastTransitionTime"].clone();
            }
            *present = condition;
        }
        None => conditions.push(condition),
    }
    meta::set_path(namespace, "status.conditions", conditions.into());
}
