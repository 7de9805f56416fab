//! The CRD of `AppService`.

use serde_json::Value;

use super::APP_SERVICES;
use super::schema::{AppServiceSpec, AppServiceStatus};
use crate::api::crd::{Column, CustomKind, Rule};

/// The maximum number of resource claims.
const CLAIMS_MAX: u64 = 100;

const COLUMNS: &[Column] = &[
    Column {
        name: "Ready",
        type_: "string",
        json_path: ".status.conditions[?(@.type==\"Ready\")].status",
        description: "Ready is True when all replicas are up to date and available.",
        wide: false,
    },
    Column {
        name: "Desired",
        type_: "integer",
        json_path: ".spec.replicas",
        description: "Desired number of pods.",
        wide: false,
    },
    Column {
        name: "Available",
        type_: "integer",
        json_path: ".status.availableReplicas",
        description: "Number of available pods.",
        wide: false,
    },
    Column {
        name: "Age",
        type_: "date",
        json_path: ".metadata.creationTimestamp",
        description: "Time since the AppService was created.",
        wide: false,
    },
    Column {
        name: "Deployment",
        type_: "string",
        json_path: ".spec.deploymentName",
        description: "Name of the Deployment.",
        wide: true,
    },
    Column {
        name: "Image",
        type_: "string",
        json_path: ".spec.image",
        description: "Container image.",
        wide: true,
    },
    Column {
        name: "Reason",
        type_: "string",
        json_path: ".status.conditions[?(@.type==\"Ready\")].reason",
        description: "Reason of the Ready condition.",
        wide: true,
    },
];

const RULES: &[Rule] = &[
    Rule {
        rule: "size(self.metadata.name) <= 63",
        message: "metadata.name must be no more than 63 characters: it is used as a label value",
    },
    Rule {
        rule: "!has(self.spec.ports) || size(self.spec.ports) == 0 || \
               self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        message: "metadata.name must be a valid Service name if there are ports: lowercase letters, digits and '-', starting with \
                  a letter and ending with a letter or digit",
    },
];

/// Returns the CRD.
#[must_use]
pub fn crd() -> Value {
    let kind = CustomKind {
        resource: APP_SERVICES,
        short_names: &["aps"],
        description: "AppService is an application with one container. A Deployment runs it; if it has ports, a Service exposes \
                it.",
        has_scale: true,
        columns: COLUMNS,
        rules: RULES,
    };
    let mut crd = kind.crd::<AppServiceSpec, AppServiceStatus>();
    // The type of Kubernetes has no limit: a pod template is validated in code.
    let spec = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["resources"]["properties"]["claims"]["maxItems"] = CLAIMS_MAX.into();
    crd
}
