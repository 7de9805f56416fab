//! Webhook configurations, compiled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::admission::webhook::client::Target;
use crate::admission::webhook::matching::Rule;
use crate::apiextensions::structural::Condition;
use crate::json::Value;
use crate::selector::{LabelSelector, label_selector_from_json};
use crate::storage::Object;

/// All webhooks in the order of their calls.
#[derive(Debug, Default)]
pub struct Webhooks {
    pub mutating: Vec<Arc<Webhook>>,
    pub validating: Vec<Arc<Webhook>>,
}

/// A cache of compiled configurations: revision and webhooks by name.
#[derive(Default)]
pub struct ConfigurationCache {
    mutating: Configurations,
    validating: Configurations,
}

type Configurations = BTreeMap<String, (u64, Vec<Arc<Webhook>>)>;

impl ConfigurationCache {
    /// Compiles changed configurations. Returns all webhooks by the name of their configuration and their index, or `None` if
    /// there are none.
    pub fn update(&mut self, mutating: &[Arc<Object>], validating: &[Arc<Object>]) -> Option<Webhooks> {
        let webhooks = Webhooks {
            mutating: refresh(&mut self.mutating, mutating),
            validating: refresh(&mut self.validating, validating),
        };
        (!webhooks.mutating.is_empty() || !webhooks.validating.is_empty()).then_some(webhooks)
    }
}

fn refresh(known: &mut Configurations, present: &[Arc<Object>]) -> Vec<Arc<Webhook>> {
    let mut before = std::mem::take(known);
    for object in present {
        let same = before.remove(&object.key);
        let same = same.filter(|(revision, _)| *revision == object.revision);
        let configuration = same.unwrap_or_else(|| {
            let webhooks = object.value()["webhooks"].as_array().into_iter().flatten();
            let compiled = webhooks.map(|webhook| Arc::new(Webhook::of(webhook)));
            (object.revision, compiled.collect())
        });
        known.insert(object.key.clone(), configuration);
    }
    known
        .values()
        .flat_map(|(_, webhooks)| webhooks)
        .cloned()
        .collect()
}

#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are the choices of a configuration"
)]
pub struct Webhook {
    pub name: String,
    /// Whether the failure policy is `Ignore`.
    pub ignores_failure: bool,
    /// Whether the webhook has no side effects on a dry run.
    pub supports_dry_run: bool,
    /// Whether the reinvocation policy is `IfNeeded`.
    pub reinvocation: bool,
    pub timeout: Duration,
    /// The first supported version of `admissionReviewVersions`.
    pub review: Option<Version>,
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
    V1,
    /// `admission.k8s.io/v1beta1`, whose responses are validated less strictly.
    V1Beta1,
}

impl Version {
    /// Returns the `apiVersion` of the review.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

impl Webhook {
    fn of(webhook: &Value) -> Self {
        let list = |key: &str| webhook[key].as_array().unwrap_or_default().iter();
        let known = |version: &Value| match version.as_str() {
            Some("v1") => Some(Version::V1),
            Some("v1beta1") => Some(Version::V1Beta1),
            _ => None,
        };
        Self {
            name: webhook["name"].as_str().unwrap_or_default().to_owned(),
            ignores_failure: webhook["failurePolicy"] == "Ignore",
            supports_dry_run: matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            reinvocation: webhook["reinvocationPolicy"] == "IfNeeded",
            timeout: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10)),
            review: list("admissionReviewVersions").find_map(known),
            target: Target::of(&webhook["clientConfig"]),
            rules: list("rules").flat_map(Value::decode).collect(),
            equivalent: webhook["matchPolicy"] != "Exact",
            namespaces: label_selector_from_json(webhook.get("namespaceSelector")),
            objects: label_selector_from_json(webhook.get("objectSelector")),
            conditions: list("matchConditions").filter_map(Condition::of).collect(),
        }
    }
}
