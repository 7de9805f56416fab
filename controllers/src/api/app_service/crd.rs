//! What a cluster is told of the kind.

use serde_json::Value;

use super::APP_SERVICES;
use super::schema::{AppServiceSpec, AppServiceStatus};
use crate::api::crd::{Column, Custom, Rule};

const COLUMNS: &[Column] = &[
    Column {
        name: "Ready",
        kind: "string",
        path: ".status.conditions[?(@.type==\"Ready\")].status",
        about: "Whether all that is asked for is there and serves.",
        wide: false,
    },
    Column {
        name: "Desired",
        kind: "integer",
        path: ".spec.replicas",
        about: "How many pods are asked for.",
        wide: false,
    },
    Column {
        name: "Available",
        kind: "integer",
        path: ".status.availableReplicas",
        about: "How many pods serve.",
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
        name: "Deployment",
        kind: "string",
        path: ".spec.deploymentName",
        about: "The Deployment that runs it.",
        wide: true,
    },
    Column {
        name: "Image",
        kind: "string",
        path: ".spec.image",
        about: "What runs.",
        wide: true,
    },
    Column {
        name: "Reason",
        kind: "string",
        path: ".status.conditions[?(@.type==\"Ready\")].reason",
        about: "Why it is ready or not.",
        wide: true,
    },
];

const RULES: &[Rule] = &[
    Rule {
        rule: "size(self.metadata.name) <= 63",
        message: "the name must be no longer than 63 characters: it is the value of a label",
    },
    Rule {
        rule: "!has(self.spec.ports) || size(self.spec.ports) == 0 || \
               self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        message: "the name must be that of a Service, because there are ports: lower-case letters, digits and -, the first a \
                  letter, the last not -",
    },
];

/// The definition.
#[must_use]
pub fn crd() -> Value {
    let custom = Custom {
        resource: APP_SERVICES,
        short_names: &["aps"],
        about: "AppService is an application of one container, kept running by a Deployment, and found by a Service if it \
                has ports.",
        scales: true,
        columns: COLUMNS,
        rules: RULES,
    };
    custom.definition::<AppServiceSpec, AppServiceStatus>()
}
