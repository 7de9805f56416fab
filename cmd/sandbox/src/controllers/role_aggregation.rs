//! Cluster role aggregation: `ClusterRoles` whose rules are the union of the rules of others, selected by label.
//!
//! Roles may aggregate each other in cycles. A request that changes a role therefore runs at most one round per
//! aggregated role, and stops when a round changes nothing.

use crate::controllers::InternalController;
use crate::endpoints::Api;
use crate::json::Value;
use crate::{meta, registry, selector};

/// The collection of cluster roles.
pub(crate) const COLLECTION: &str = "clusterroles.rbac.authorization.k8s.io";

impl Api {
    /// Aggregates until no role changes, unless the controller is delayed.
    pub(crate) fn aggregate_roles(&self) {
        if self.is_delayed(InternalController::RoleAggregation) {
            return;
        }
        for _ in 0..self.aggregated_roles().len() {
            let before = self.store.revision();
            self.aggregate_roles_once();
            if self.store.revision() == before {
                break;
            }
        }
    }

    /// Writes the rules of each aggregated role once.
    pub(super) fn aggregate_roles_once(&self) {
        let group = "rbac.authorization.k8s.io";
        let Some(res) = registry::built_in(group, "v1", "clusterroles") else {
            return;
        };
        for name in self.aggregated_roles() {
            // NotFound: the role was deleted concurrently and needs no rules.
            let _ = self.mutate(res, "", &name, false, |role| {
                if role["aggregationRule"].is_object() {
                    let rules = self.gathered_rules(&name, role);
                    if role["rules"].as_array().unwrap_or_default() == rules {
                        return Ok(());
                    }
                    if rules.is_empty() {
                        // As decoded from a body.
                        role.as_object_mut().map(|role| role.remove("rules"));
                    } else {
                        meta::set_path(role, "rules", rules.into());
                    }
                }
                Ok(())
            });
        }
    }

    fn aggregated_roles(&self) -> Vec<String> {
        let objects = self.objects(COLLECTION, "");
        let roles = objects.iter();
        roles
            .filter(|role| role.value()["aggregationRule"].is_object())
            .map(|role| role.key.clone())
            .collect()
    }

    /// Returns the rules of all selected roles without duplicates, in order of selectors and role names.
    fn gathered_rules(&self, name: &str, role: &Value) -> Vec<Value> {
        let objects = self.objects(COLLECTION, "");
        let mut rules: Vec<Value> = Vec::new();
        let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
        for selector in selectors.into_iter().flatten() {
            let selector = selector::label_selector_from_json(Some(selector));
            let others = objects.iter().filter(|other| other.key != name);
            for other in others.filter(|other| selector.matches(other.labels())) {
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
