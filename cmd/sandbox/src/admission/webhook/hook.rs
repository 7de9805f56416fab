//! A webhook of a configuration, compiled: whom to ask, about what, and what to do if there is no answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::admission::webhook::call::Target;
use crate::admission::webhook::matches::Rule;
use crate::apiextensions::structural::Condition;
use crate::selector::{LabelSelector, label_selector_from_json};
use crate::storage::Object;

/// All webhooks, each kind in the order in which they are asked.
#[derive(Debug, Default)]
pub struct Hooks {
    /// Those that may change the object.
    pub mutating: Vec<Arc<Hook>>,
    /// Those that may only refuse it.
    pub validating: Vec<Arc<Hook>>,
}

/// Configurations that have been compiled: one that has not changed is not compiled again.
#[derive(Default)]
pub struct Compiled {
    mutating: BTreeMap<String, Configuration>,
    validating: BTreeMap<String, Configuration>,
}

struct Configuration {
    revision: u64,
    hooks: Vec<Arc<Hook>>,
}

impl Compiled {
    /// Makes it what these configurations say. Returns their webhooks, in the order of the configurations' names and of their
    /// places in them; none if there are none.
    pub fn update(&mut self, mutating: &[Arc<Object>], validating: &[Arc<Object>]) -> Option<Hooks> {
        let hooks = Hooks {
            mutating: refresh(&mut self.mutating, mutating),
            validating: refresh(&mut self.validating, validating),
        };
        (!hooks.mutating.is_empty() || !hooks.validating.is_empty()).then_some(hooks)
    }
}

fn refresh(known: &mut BTreeMap<String, Configuration>, present: &[Arc<Object>]) -> Vec<Arc<Hook>> {
    let mut before = std::mem::take(known);
    for object in present {
        let same = before
            .remove(&object.key)
            .filter(|configuration| configuration.revision == object.revision);
        let configuration = same.unwrap_or_else(|| Configuration {
            revision: object.revision,
            hooks: compile(&object.value()),
        });
        known.insert(object.key.clone(), configuration);
    }
    known
        .values()
        .flat_map(|configuration| configuration.hooks.iter().cloned())
        .collect()
}

fn compile(configuration: &Value) -> Vec<Arc<Hook>> {
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    webhooks.map(|webhook| Arc::new(Hook::of(webhook))).collect()
}

/// One webhook.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are the choices of a configuration"
)]
pub struct Hook {
    /// As messages name it.
    pub name: String,
    /// Whether a write goes on without its answer.
    pub optional: bool,
    /// Whether it may be asked about what is not going to be done.
    pub takes_dry_run: bool,
    /// Whether it is asked again when others changed the object after it.
    pub reinvoked: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// The version of reviews that it wants: the first one that is known here.
    pub review: Option<Version>,
    /// Where it is.
    pub target: Target,
    pub(crate) rules: Vec<Rule>,
    pub(crate) equivalent: bool,
    pub(crate) namespaces: LabelSelector,
    pub(crate) objects: LabelSelector,
    pub(crate) conditions: Vec<Condition>,
}

/// A version of `AdmissionReview`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `admission.k8s.io/v1`.
    V1,
    /// `admission.k8s.io/v1beta1`, whose answers are not looked at as closely.
    V1Beta1,
}

impl Version {
    /// As objects name it.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

impl Hook {
    fn of(webhook: &Value) -> Self {
        let list = |key: &str| {
            webhook[key]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
                .iter()
        };
        let known = |version: &Value| match version.as_str() {
            Some("v1") => Some(Version::V1),
            Some("v1beta1") => Some(Version::V1Beta1),
            _ => None,
        };
        Self {
            name: webhook["name"].as_str().unwrap_or_default().to_owned(),
            optional: webhook["failurePolicy"] == "Ignore",
            takes_dry_run: matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            reinvoked: webhook["reinvocationPolicy"] == "IfNeeded",
            timeout: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10)),
            review: list("admissionReviewVersions").find_map(known),
            target: Target::of(&webhook["clientConfig"]),
            rules: list("rules").map(Rule::of).collect(),
            equivalent: webhook["matchPolicy"] != "Exact",
            namespaces: label_selector_from_json(webhook.get("namespaceSelector")),
            objects: label_selector_from_json(webhook.get("objectSelector")),
            conditions: list("matchConditions").filter_map(Condition::of).collect(),
        }
    }
}
