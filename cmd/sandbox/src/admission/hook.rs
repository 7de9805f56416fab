//! A webhook of a configuration, compiled: whom to ask, about what, and what to do if there is no answer.

use std::time::Duration;

use serde_json::Value;

use super::call::Target;
use super::matches::Rule;
use crate::selector::{LabelSelector, label_selector_from_json};
use crate::structural::Condition;

/// All webhooks, each kind in the order in which they are asked.
#[derive(Debug, Default)]
pub struct Hooks {
    /// Those that may change the object.
    pub mutating: Vec<Hook>,
    /// Those that may only refuse it.
    pub validating: Vec<Hook>,
}

impl Hooks {
    /// Compiles configurations, which come in the order of their names. None if there is no webhook in them.
    #[must_use]
    pub fn of(mutating: &[Value], validating: &[Value]) -> Option<Self> {
        let hooks = Self {
            mutating: mutating.iter().flat_map(compile).collect(),
            validating: validating.iter().flat_map(compile).collect(),
        };
        (!hooks.mutating.is_empty() || !hooks.validating.is_empty()).then_some(hooks)
    }
}

fn compile(configuration: &Value) -> impl Iterator<Item = Hook> {
    let webhooks = configuration["webhooks"].as_array().map(Vec::as_slice);
    webhooks.unwrap_or_default().iter().map(Hook::of)
}

/// One webhook.
#[derive(Debug)]
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
    pub(super) rules: Vec<Rule>,
    pub(super) equivalent: bool,
    pub(super) namespaces: LabelSelector,
    pub(super) objects: LabelSelector,
    pub(super) conditions: Vec<Condition>,
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
