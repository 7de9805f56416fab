//! Whether a webhook is asked about a write: its rules, its selectors, its conditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::admission::webhook::Operation;
use crate::admission::webhook::hook::Hook;
use crate::apiextensions::structural::{Judge, Verdict};
use crate::resource::Resource;
use crate::status::{ApiError, Result};

/// A write, as far as rules and selectors look at it.
pub struct Write<'a> {
    /// The resource of the path.
    pub res: &'a Arc<Resource>,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// What is done.
    pub operation: Operation,
    /// Empty for what is in none. A namespace is in itself.
    pub namespace: &'a str,
    /// Labels of the object as it shall be; none if it shall not be.
    pub labels: Option<&'a Value>,
    /// Labels of the object as it is; none if it is not.
    pub old_labels: Option<&'a Value>,
}

/// What has to be looked up to answer.
pub trait Surroundings {
    /// The labels of a namespace, or the error that there is none.
    fn namespace_labels(&self, name: &str) -> Result<BTreeMap<String, String>>;
    /// The other resources through which the same objects are served.
    fn equivalents(&self, res: &Resource) -> Vec<Arc<Resource>>;
}

/// One rule of a webhook.
#[derive(Debug)]
pub(crate) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    Cluster,
    Namespaced,
}

impl Rule {
    pub fn of(rule: &Value) -> Self {
        let texts = |key: &str| -> Vec<String> {
            let list = rule[key].as_array().into_iter().flatten();
            list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            scope: match rule["scope"].as_str() {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::All,
            },
        }
    }

    fn matches(&self, write: &Write<'_>, res: &Resource) -> bool {
        let named = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        let is_namespace = res.group.is_empty() && res.plural == "namespaces";
        let in_scope = match self.scope {
            Scope::All => true,
            Scope::Cluster => is_namespace || write.namespace.is_empty(),
            Scope::Namespaced => !is_namespace && !write.namespace.is_empty(),
        };
        in_scope
            && named(&self.operations, write.operation.name())
            && named(&self.groups, &res.group)
            && named(&self.versions, &res.version)
            && self.resources.iter().any(|one| {
                let (resource, subresource) = one.split_once('/').unwrap_or((one, ""));
                (resource == "*" || resource == res.plural)
                    && (subresource == "*" || subresource == write.subresource)
            })
    }
}

impl Hook {
    /// The resource by which the hook is asked about a write, whose object it then wants in that version. None if it is not
    /// asked. Conditions are not looked at yet: they are about the object in the version of this resource.
    pub fn concerns(&self, write: &Write<'_>, around: &impl Surroundings) -> Result<Option<Arc<Resource>>> {
        let in_namespace = self.selects_namespace(write, around);
        // An error about what does not concern the hook anyway is nobody's.
        if matches!(in_namespace, Ok(false)) || !self.selects_object(write) {
            return Ok(None);
        }
        let found = self.resource(write, around);
        if found.is_some() {
            in_namespace?;
        }
        Ok(found)
    }

    fn resource(&self, write: &Write<'_>, around: &impl Surroundings) -> Option<Arc<Resource>> {
        if self.rules.iter().any(|rule| rule.matches(write, write.res)) {
            return Some(write.res.clone());
        }
        if !self.equivalent {
            return None;
        }
        let others = around.equivalents(write.res);
        let mut fitting = self
            .rules
            .iter()
            .flat_map(|rule| others.iter().filter(|other| rule.matches(write, other)));
        fitting.next().cloned()
    }

    fn selects_namespace(&self, write: &Write<'_>, around: &impl Surroundings) -> Result<bool> {
        let of_namespaces = write.res.plural == "namespaces";
        // What is in no namespace cannot be left out by one.
        if (write.namespace.is_empty() && !of_namespaces) || self.namespaces.is_everything() {
            return Ok(true);
        }
        if of_namespaces && write.subresource.is_empty() && write.operation != Operation::Delete {
            return Ok(self.namespaces.matches(&labels(write.labels)));
        }
        Ok(self
            .namespaces
            .matches(&around.namespace_labels(write.namespace)?))
    }

    fn selects_object(&self, write: &Write<'_>) -> bool {
        let selected = |found: Option<&Value>| found.is_some() && self.objects.matches(&labels(found));
        self.objects.is_everything() || selected(write.labels) || selected(write.old_labels)
    }

    /// Whether the conditions of the hook hold. `request` is the question without the objects, `judge` knows who may do what.
    pub fn conditions_hold(
        &self,
        res: &Resource,
        object: Option<&Value>,
        old: Option<&Value>,
        request: &Value,
        judge: &dyn Judge,
    ) -> Result<bool> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        match crate::apiextensions::structural::conditions(&self.conditions, object, old, request, judge) {
            Verdict::Hold => Ok(true),
            Verdict::DoNotHold => Ok(false),
            Verdict::Unknown(_) if self.optional => Ok(false),
            Verdict::Unknown(why) => {
                let name = request["name"].as_str().unwrap_or_default();
                Err(ApiError::forbidden(res, name, &why))
            }
        }
    }
}

fn labels(found: Option<&Value>) -> BTreeMap<String, String> {
    let map = found.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}
