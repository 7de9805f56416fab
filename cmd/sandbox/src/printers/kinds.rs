//! Which kind is shown by which columns.

mod batch;
mod core;
mod event;
mod node;
mod pod;
mod policy;
mod service;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::printers::column::{Column, NAME, column};
use crate::printers::custom;
use crate::printers::read::{text, text_or};

/// The columns of a built-in kind, and how its cells come about.
struct Kind {
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// How the objects of a resource are shown.
pub enum Printer {
    /// By the columns of a CRD.
    Custom(custom::Columns),
    /// By the columns of a built-in kind.
    BuiltIn(BuiltIn),
}

/// The columns of a built-in kind.
pub struct BuiltIn(&'static Kind);

/// For kinds without columns of their own. The real server sends the timestamp here, not the age.
static PLAIN: Kind = Kind {
    columns: &[NAME, column("Created At", "date", "When the object was created.")],
    cells: |object, _| {
        let created = text_or(object, "/metadata/creationTimestamp", "0001-01-01T00:00:00Z");
        vec![json!(text(object, "/metadata/name")), json!(created)]
    },
};

impl Printer {
    /// The printer of a built-in kind.
    pub fn of(group: &str, kind: &str) -> Self {
        Self::BuiltIn(BuiltIn(match (group, kind) {
            ("", "Pod") => &pod::POD,
            ("", "Node") => &node::NODE,
            ("", "Service") => &service::SERVICE,
            ("" | "events.k8s.io", "Event") => &event::EVENT,
            ("", "Namespace") => &core::NAMESPACE,
            ("", "ConfigMap") => &core::CONFIG_MAP,
            ("", "Secret") => &core::SECRET,
            ("", "ServiceAccount") => &core::SERVICE_ACCOUNT,
            ("", "PersistentVolumeClaim") => &core::CLAIM,
            ("", "ResourceQuota") => &core::QUOTA,
            ("", "ReplicationController") => &workload::REPLICATION_CONTROLLER,
            ("apps", "ReplicaSet") => &workload::REPLICA_SET,
            ("apps", "Deployment") => &workload::DEPLOYMENT,
            ("apps", "StatefulSet") => &workload::STATEFUL_SET,
            ("apps", "DaemonSet") => &workload::DAEMON_SET,
            ("apps", "ControllerRevision") => &workload::CONTROLLER_REVISION,
            ("batch", "Job") => &batch::JOB,
            ("batch", "CronJob") => &batch::CRON_JOB,
            ("autoscaling", "Scale") => &workload::SCALE,
            ("coordination.k8s.io", "Lease") => &policy::LEASE,
            ("policy", "PodDisruptionBudget") => &policy::DISRUPTION_BUDGET,
            ("networking.k8s.io", "NetworkPolicy") => &policy::NETWORK_POLICY,
            ("scheduling.k8s.io", "PriorityClass") => &policy::PRIORITY_CLASS,
            ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => &policy::ROLE_BINDING,
            (
                "admissionregistration.k8s.io",
                "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
            ) => &policy::WEBHOOKS,
            _ => &PLAIN,
        }))
    }

    /// `columnDefinitions`.
    pub fn definitions(&self) -> Value {
        match self {
            Self::Custom(columns) => columns.definitions().into(),
            Self::BuiltIn(BuiltIn(kind)) => kind.columns.iter().map(Column::definition).collect(),
        }
    }

    /// The cells of one object, one for each column.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Self::Custom(columns) => columns.cells(object, now),
            Self::BuiltIn(BuiltIn(kind)) => (kind.cells)(object, now),
        }
    }

    /// What clients may know of a row at a glance: that a pod is done.
    pub fn conditions(&self, object: &Value) -> Option<Value> {
        match self {
            Self::BuiltIn(BuiltIn(kind)) if std::ptr::eq(*kind, &raw const pod::POD) => {
                pod::conditions(object)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
