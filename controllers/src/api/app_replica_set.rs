//! The fields of an `AppReplicaSet`: those of a `ReplicaSet`, and the selector as a text, for whoever scales it.
//!
//! The comments are what `kubectl explain` shows.
#![expect(clippy::doc_markdown, reason = "they are shown as they are")]

use std::collections::BTreeMap;

use coxswain_manager::object::Resource;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde_json::Value;

use super::crd::{Column, Custom};
use super::{GROUP, VERSION};

/// The resource.
pub const APP_REPLICA_SETS: Resource =
    Resource::namespaced(GROUP, VERSION, "appreplicasets", "AppReplicaSet");

/// How many pods there are to be, and what they are made from.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.selector.matchLabels) || self.selector.matchLabels.all(key, \
                 has(self.template.metadata) && has(self.template.metadata.labels) && \
                 key in self.template.metadata.labels && \
                 self.template.metadata.labels[key] == self.selector.matchLabels[key])",
        "message": "selector does not match template.metadata.labels: all of matchLabels must be there",
    },
    {
        "rule": "!has(self.selector.matchExpressions) || self.selector.matchExpressions.all(demand, \
                 has(self.template.metadata) && has(self.template.metadata.labels) && \
                 demand.key in self.template.metadata.labels ? \
                 (demand.operator == 'Exists' || demand.operator in ['In', 'NotIn'] && has(demand.values) && \
                 (self.template.metadata.labels[demand.key] in demand.values) == (demand.operator == 'In')) : \
                 demand.operator in ['NotIn', 'DoesNotExist'])",
        "message": "selector does not match template.metadata.labels: all of matchExpressions must hold for them",
    },
]))]
pub struct Spec {
    /// How many pods there are to be.
    #[schemars(default = "one", range(min = 0))]
    pub replicas: i32,
    /// For how many seconds a new pod has to be ready to count as available.
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
    /// Which pods are meant: those that it makes, and those that are nobody's. It must match the labels of the template, and
    /// cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "selector cannot be changed"},
    ]))]
    pub selector: Selector,
    /// What the pods are made from. It is looked into only when a pod is made: what is wrong with it is told by the condition
    /// ReplicaFailure.
    pub template: PodTemplateSpec,
}

/// Labels that a pod has to have. One that asks for nothing is refused.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic", "x-kubernetes-validations" = [
    {
        "rule": "has(self.matchLabels) && size(self.matchLabels) > 0 || \
                 has(self.matchExpressions) && size(self.matchExpressions) > 0",
        "message": "selector must ask for at least one label",
    },
]))]
pub struct Selector {
    /// Labels with exactly these values.
    #[schemars(extend("maxProperties" = 100))]
    pub match_labels: Option<BTreeMap<String, LabelValue>>,
    /// What else must hold for the labels, all of it.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Option<Vec<Demand>>,
}

/// What must hold for one label.
#[derive(Debug, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
        "message": "In and NotIn need values, Exists and DoesNotExist take none",
    },
]))]
pub struct Demand {
    /// The label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// Whether it must have one of the values, none of them, any value, or not be there.
    pub operator: Operator,
    /// The values, for In and NotIn.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Option<Vec<LabelValue>>,
}

/// What is asked of a label.
#[derive(Debug, JsonSchema)]
pub enum Operator {
    /// It has one of the values.
    In,
    /// It has none of the values.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

/// The value of a label.
#[derive(Debug, JsonSchema)]
#[schemars(extend("maxLength" = 63))]
pub struct LabelValue(pub String);

/// What was last observed.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Status {
    /// How many pods there are, without those that have ended or are on their way out.
    #[schemars(default)]
    pub replicas: i32,
    /// How many of them have all labels of the template.
    pub fully_labeled_replicas: Option<i32>,
    /// How many of them are ready.
    #[schemars(default)]
    pub ready_replicas: i32,
    /// How many of them have been ready for minReadySeconds.
    pub available_replicas: Option<i32>,
    /// How many pods are on their way out.
    pub terminating_replicas: Option<i32>,
    /// The selector as a text, for what scales by it.
    pub selector: Option<String>,
    /// The generation that this was observed for.
    pub observed_generation: Option<i64>,
    /// What stands in the way: ReplicaFailure, if pods cannot be made or deleted.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
}

/// One thing that was observed.
#[derive(Debug, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[schemars(rename = "type")]
    pub type_: String,
    /// Whether it holds: True, False or Unknown.
    pub status: String,
    /// The generation that it was observed for.
    pub observed_generation: Option<i64>,
    /// When its status changed last.
    #[schemars(extend("nullable" = true))]
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Why, for people.
    pub message: Option<String>,
}

fn one() -> i32 {
    1
}

/// The columns of a `ReplicaSet`. It shows all containers and images, but a definition can show one value only.
const COLUMNS: &[Column] = &[
    Column {
        name: "Desired",
        kind: "integer",
        path: ".spec.replicas",
        about: "How many pods are asked for.",
        wide: false,
    },
    Column {
        name: "Current",
        kind: "integer",
        path: ".status.replicas",
        about: "How many pods there are.",
        wide: false,
    },
    Column {
        name: "Ready",
        kind: "integer",
        path: ".status.readyReplicas",
        about: "How many of them are ready.",
        wide: false,
    },
    Column {
        name: "Age",
        kind: "date",
        path: ".metadata.creationTimestamp",
        about: "How long it has been there.",
        wide: false,
    },
    Column {
        name: "Image",
        kind: "string",
        path: ".spec.template.spec.containers[0].image",
        about: "The image of the first container.",
        wide: true,
    },
    Column {
        name: "Selector",
        kind: "string",
        path: ".status.selector",
        about: "Which pods are meant.",
        wide: true,
    },
];

/// Returns the CRD.
#[must_use]
pub fn crd() -> Value {
    let custom = Custom {
        resource: APP_REPLICA_SETS,
        short_names: &["ars"],
        about: "AppReplicaSet keeps a number of pods alive, as a ReplicaSet does, by a controller of Coxswain.",
        scales: true,
        columns: COLUMNS,
        rules: &[],
    };
    custom.definition::<Spec, Status>()
}
