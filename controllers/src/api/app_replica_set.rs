//! `AppReplicaSet`: the types behind its CRD schema, and the CRD.
//!
//! The fields are those of a `ReplicaSet`, plus status.selector for the scale subresource. The API server validates a
//! `ReplicaSet` in code; here the schema has CEL rules for it: the selector is not empty, matches the template, and
//! does not change. The pod template is only validated when a pod is created. `kubectl explain` shows the doc comments.
#![expect(clippy::doc_markdown, reason = "kubectl explain shows the text as it is")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde_json::Value;
use steersman_manager::object::Resource;

use super::crd::{Column, CustomKind};
use super::{GROUP, VERSION};

/// The `appreplicasets` resource.
pub const APP_REPLICA_SETS: Resource =
    Resource::namespaced(GROUP, VERSION, "appreplicasets", "AppReplicaSet");

/// AppReplicaSetSpec is the desired state of an AppReplicaSet.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.selector.matchLabels) || self.selector.matchLabels.all(key, \
                 has(self.template.metadata) && has(self.template.metadata.labels) && \
                 key in self.template.metadata.labels && \
                 self.template.metadata.labels[key] == self.selector.matchLabels[key])",
        "message": "selector does not match template.metadata.labels: the template must have all matchLabels",
    },
    {
        "rule": "!has(self.selector.matchExpressions) || self.selector.matchExpressions.all(requirement, \
                 has(self.template.metadata) && has(self.template.metadata.labels) && \
                 requirement.key in self.template.metadata.labels ? \
                 (requirement.operator == 'Exists' || requirement.operator in ['In', 'NotIn'] && has(requirement.values) && \
                 (self.template.metadata.labels[requirement.key] in requirement.values) == (requirement.operator == 'In')) : \
                 requirement.operator in ['NotIn', 'DoesNotExist'])",
        "message": "selector does not match template.metadata.labels: the template must satisfy all matchExpressions",
    },
]))]
pub struct Spec {
    /// replicas is the desired number of pods. Defaults to 1.
    #[schemars(default = "one", range(min = 0))]
    pub replicas: i32,
    /// minReadySeconds is the number of seconds that a pod must be ready before it counts as available. Defaults to 0.
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
    /// selector is the label query over the pods of the AppReplicaSet. Pods without a controller that match it are
    /// adopted. It must match the labels of the template, and is immutable.
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "selector cannot be changed: the field is immutable"},
    ]))]
    pub selector: Selector,
    /// template is the template of the pods. It is validated when a pod is created; the ReplicaFailure condition
    /// reports an invalid template.
    pub template: PodTemplateSpec,
}

/// Selector is a label query over pods. It must have at least one requirement.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic", "x-kubernetes-validations" = [
    {
        "rule": "has(self.matchLabels) && size(self.matchLabels) > 0 || \
                 has(self.matchExpressions) && size(self.matchExpressions) > 0",
        "message": "selector must require at least one label",
    },
]))]
pub struct Selector {
    /// matchLabels is a map of labels that a pod must have with these values.
    #[schemars(extend("maxProperties" = 100))]
    pub match_labels: Option<BTreeMap<String, LabelValue>>,
    /// matchExpressions is a list of label requirements. A pod must satisfy all of them.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Option<Vec<Requirement>>,
}

/// Requirement is a condition on the value of one label.
#[derive(Debug, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
        "message": "In and NotIn need values, Exists and DoesNotExist take none",
    },
]))]
pub struct Requirement {
    /// key is the label key.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// operator is the relation of the label to the values: In, NotIn, Exists or DoesNotExist.
    pub operator: Operator,
    /// values is a list of label values. Required if the operator is In or NotIn, and empty otherwise.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Option<Vec<LabelValue>>,
}

/// Operator is the relation of a label to a list of values.
#[derive(Debug, JsonSchema)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label has none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
}

/// LabelValue is a label value.
#[derive(Debug, JsonSchema)]
#[schemars(extend("maxLength" = 63))]
pub struct LabelValue(pub String);

/// AppReplicaSetStatus is the observed state of an AppReplicaSet.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Status {
    /// replicas is the number of active pods: pods that have not finished and are not terminating.
    #[schemars(default)]
    pub replicas: i32,
    /// fullyLabeledReplicas is the number of active pods that have all labels of the template.
    pub fully_labeled_replicas: Option<i32>,
    /// readyReplicas is the number of ready pods.
    #[schemars(default)]
    pub ready_replicas: i32,
    /// availableReplicas is the number of available pods: pods that have been ready for minReadySeconds.
    pub available_replicas: Option<i32>,
    /// terminatingReplicas is the number of terminating pods that have not finished.
    pub terminating_replicas: Option<i32>,
    /// selector is the label selector of the pods in string form, as the scale subresource needs it.
    pub selector: Option<String>,
    /// observedGeneration is the generation that the status describes.
    pub observed_generation: Option<i64>,
    /// conditions are the latest observations. ReplicaFailure is True when pods cannot be created or deleted.
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Option<Vec<Condition>>,
}

/// Condition is one observation of the state.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Condition {
    /// type is the type of the condition.
    #[schemars(rename = "type")]
    pub type_: String,
    /// status is True, False or Unknown.
    pub status: String,
    /// observedGeneration is the generation that the condition describes.
    pub observed_generation: Option<i64>,
    /// lastTransitionTime is the last time the status of the condition changed.
    #[schemars(extend("nullable" = true))]
    pub last_transition_time: Option<Time>,
    /// reason is a CamelCase identifier of the cause of the last transition.
    pub reason: Option<String>,
    /// message describes the last transition for users.
    pub message: Option<String>,
}

fn one() -> i32 {
    1
}

/// The printer columns of a ReplicaSet. A CRD column shows one value, so only the image of the first container is
/// shown.
const COLUMNS: &[Column] = &[
    Column {
        name: "Desired",
        type_: "integer",
        json_path: ".spec.replicas",
        description: "Desired number of pods.",
        wide: false,
    },
    Column {
        name: "Current",
        type_: "integer",
        json_path: ".status.replicas",
        description: "Number of active pods.",
        wide: false,
    },
    Column {
        name: "Ready",
        type_: "integer",
        json_path: ".status.readyReplicas",
        description: "Number of ready pods.",
        wide: false,
    },
    Column {
        name: "Age",
        type_: "date",
        json_path: ".metadata.creationTimestamp",
        description: "Time since the AppReplicaSet was created.",
        wide: false,
    },
    Column {
        name: "Image",
        type_: "string",
        json_path: ".spec.template.spec.containers[0].image",
        description: "Image of the first container.",
        wide: true,
    },
    Column {
        name: "Selector",
        type_: "string",
        json_path: ".status.selector",
        description: "Label selector of the pods.",
        wide: true,
    },
];

/// Returns the CRD.
#[must_use]
pub fn crd() -> Value {
    let kind = CustomKind {
        resource: APP_REPLICA_SETS,
        short_names: &["ars"],
        description: "AppReplicaSet maintains a number of replicas of a pod, as a ReplicaSet does.",
        has_scale: true,
        columns: COLUMNS,
        rules: &[],
    };
    kind.crd::<Spec, Status>()
}
