//! Cluster roles that are put together from others, by the others' labels.
//!
//! On a cluster a controller does it. There is none here, so the API does it itself, in the request that changes a
//! cluster role. Roles may aggregate each other in circles; so a round is made for each of them at most, not until
//! nothing changes.

use serde_json::Value;

use crate::endpoints::Api;
use crate::{meta, selector};

/// The collection of cluster roles.
pub(crate) const COLLECTION: &str = "clusterroles.rbac.authorization.k8s.io";

impl Api {
    /// Brings every aggregated role up to date.
    pub(crate) fn aggregate_roles(&self) {
        let group = "rbac.authorization.k8s.io";
        let (Some(res), Ok(snapshot)) = (
            self.registry().find(group, "v1", "clusterroles"),
            self.store.snapshot(COLLECTION, "", None, None),
        ) else {
            return;
        };
        let aggregated: Vec<String> = snapshot
            .objects
            .iter()
            .filter(|role| role.value()["aggregationRule"].is_object())
            .map(|role| role.key.clone())
            .collect();
        for _ in 0..aggregated.len() {
            let before = self.store.revision();
            for name in &aggregated {
                // One that has been deleted meanwhile needs no rules.
                let _ = self.mutate(&res, "", name, false, |role| {
                    if role["aggregationRule"].is_object() {
                        let rules = self.gathered_rules(name, role);
                        if role["rules"].as_array().map_or(&[][..], Vec::as_slice) != rules {
                            meta::set_path(role, "rules", rules.into());
                        }
                    }
                    Ok(())
                });
            }
            if self.store.revision() == before {
                break;
            }
        }
    }

    /// The rules of all roles that this one selects, each once: selector by selector, role by role.
    fn gathered_rules(&self, name: &str, role: &Value) -> Vec<Value> {
        let Ok(snapshot) = self.store.snapshot(COLLECTION, "", None, None) else {
            return Vec::new();
        };
        let mut rules: Vec<Value> = Vec::new();
        let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
        for selector in selectors.into_iter().flatten() {
            let selector = selector::label_selector_from_json(Some(selector));
            let others = snapshot.objects.iter().filter(|other| other.key != name);
            for other in others.filter(|other| selector.matches(&other.labels)) {
                for rule in other.value()["rules"].as_array().into_iter().flatten() {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        rules
    }
}
