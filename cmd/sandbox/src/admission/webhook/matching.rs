//! Matching of webhooks: rules, selectors and match conditions.

use std::sync::Arc;

use serde::Deserialize;

use crate::admission::webhook::Operation;
use crate::admission::webhook::configuration::Webhook;
use crate::apiextensions::structural::MatchResult;
use crate::endpoints::Api;
use crate::json::Value;
use crate::resource::Resource;
use crate::status::{ApiError, Result};

/// The attributes of a write that rules and selectors compare.
pub struct Write<'a> {
    pub res: &'a Arc<Resource>,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub operation: Operation,
    /// Empty for cluster-scoped objects. A Namespace is in itself.
    pub namespace: &'a str,
    /// Labels of the new object; `None` for a DELETE.
    pub labels: Option<&'a Value>,
    /// Labels of the old object; `None` for a CREATE.
    pub old_labels: Option<&'a Value>,
}

/// One rule of a webhook.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    operations: Vec<String>,
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
}

impl Rule {
    fn matches(&self, write: &Write<'_>, res: &Resource) -> bool {
        let named = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        let is_namespace = res.group.is_empty() && res.plural == "namespaces";
        let in_scope = match self.scope.as_str() {
            "Cluster" => is_namespace || write.namespace.is_empty(),
            "Namespaced" => !is_namespace && !write.namespace.is_empty(),
            _ => true,
        };
        in_scope
            && named(&self.operations, write.operation.name())
            && named(&self.api_groups, &res.group)
            && named(&self.api_versions, &res.version)
            && self.resources.iter().any(|one| {
                let (resource, subresource) = one.split_once('/').unwrap_or((one, ""));
                (resource == "*" || resource == res.plural)
                    && (subresource == "*" || subresource == write.subresource)
            })
    }
}

impl Webhook {
    /// Returns the resource by which the webhook matches a write. The webhook gets the object in that version. Conditions are
    /// evaluated later, on the converted object.
    pub fn matching_resource(&self, write: &Write<'_>, api: &Api) -> Result<Option<Arc<Resource>>> {
        let in_namespace = self.selects_namespace(write, api);
        // A missing namespace is an error only if the rules match.
        if matches!(in_namespace, Ok(false)) || !self.selects_object(write) {
            return Ok(None);
        }
        let found = self.resource(write, api);
        if found.is_some() {
            in_namespace?;
        }
        Ok(found)
    }

    fn resource(&self, write: &Write<'_>, api: &Api) -> Option<Arc<Resource>> {
        if self.rules.iter().any(|rule| rule.matches(write, write.res)) {
            return Some(write.res.clone());
        }
        if !self.equivalent {
            return None;
        }
        let registry = api.registry();
        // Resources that serve the same objects.
        let same = |other: &&Arc<Resource>| other.collection == write.res.collection;
        let others: Vec<&Arc<Resource>> = registry.all().iter().filter(same).collect();
        let mut fitting = self
            .rules
            .iter()
            .flat_map(|rule| others.iter().filter(|other| rule.matches(write, other)));
        fitting.next().map(|other| (*other).clone())
    }

    fn selects_namespace(&self, write: &Write<'_>, api: &Api) -> Result<bool> {
        let of_namespaces = write.res.plural == "namespaces";
        // Namespace selectors do not apply to other cluster-scoped objects.
        if (write.namespace.is_empty() && !of_namespaces) || self.namespaces.is_everything() {
            return Ok(true);
        }
        if of_namespaces && write.subresource.is_empty() && write.operation != Operation::Delete {
            return Ok(self.namespaces.matches(write.labels.unwrap_or(&Value::Null)));
        }
        let namespace = api.store.get("namespaces", write.namespace);
        let namespace = namespace.ok_or_else(|| ApiError::namespace_not_found(write.namespace))?;
        Ok(self.namespaces.matches(namespace.labels()))
    }

    fn selects_object(&self, write: &Write<'_>) -> bool {
        let selected = |found: Option<&Value>| found.is_some_and(|labels| self.objects.matches(labels));
        self.objects.is_everything() || selected(write.labels) || selected(write.old_labels)
    }

    /// Evaluates the match conditions. `request` is the review request without its objects.
    pub fn conditions_hold(
        &self,
        res: &Resource,
        object: Option<&Value>,
        old: Option<&Value>,
        request: &Value,
    ) -> Result<bool> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        match crate::apiextensions::structural::conditions(&self.conditions, object, old, request) {
            MatchResult::Matches => Ok(true),
            MatchResult::DoesNotMatch => Ok(false),
            MatchResult::Error(_) if self.ignores_failure => Ok(false),
            MatchResult::Error(why) => {
                let name = request["name"].as_str().unwrap_or_default();
                Err(ApiError::forbidden(res, name, &why))
            }
        }
    }
}
