//! The table printers of built-in kinds, with the columns of the API server's printers.

mod cells;
mod event;
mod pod;

use jiff::Timestamp;
use serde_json::Value;

use crate::printers::column::Cell::{
    At, Count, Flag, Int, Joined, Labels, Number, Of, ScalarOr, Selector, Since, Text, TextOr,
};
use crate::printers::column::{AGE, Column, NAME, column, integer, wide};
use crate::printers::custom;

/// The columns of a resource.
pub enum Printer {
    /// The columns of a CRD.
    Custom(custom::Columns),
    /// The columns of a built-in kind.
    BuiltIn(&'static [Column]),
}

/// The columns of kinds without a printer. The API server sends the creation timestamp here, not the age.
static PLAIN: &[Column] = &[NAME, CREATED];
const CREATED: Column = column(
    "Created At",
    TextOr("/metadata/creationTimestamp", "0001-01-01T00:00:00Z"),
)
.with_type("date");

const CONTAINERS: Column = wide("Containers", Joined("/spec/template/spec/containers", "/name"));
const IMAGES: Column = wide("Images", Joined("/spec/template/spec/containers", "/image"));
const SELECTOR: Column = wide("Selector", Selector("/spec/selector"));
const LABELS: Column = wide("Selector", Labels("/spec/selector"));
const DESIRED: Column = integer("Desired", "/spec/replicas");
const CURRENT: Column = integer("Current", "/status/replicas");
const READY: Column = integer("Ready", "/status/readyReplicas");

/// Group, kind and columns.
#[rustfmt::skip]
static KINDS: &[(&str, &str, &[Column])] = &[
    ("", "ConfigMap", &[NAME, column("Data", Number(cells::entries)), AGE]),
    ("", "Event", event::EVENT),
    ("events.k8s.io", "Event", event::EVENT),
    ("", "Namespace", &[NAME, column("Status", Text("/status/phase")), AGE]),
    ("", "Node", &[
        NAME, column("Status", Of(cells::node_status)), column("Roles", Of(cells::node_roles)), AGE,
        column("Version", Text("/status/nodeInfo/kubeletVersion")),
        wide("Internal-IP", Of(|node| cells::node_address(node, "InternalIP"))),
        wide("External-IP", Of(|node| cells::node_address(node, "ExternalIP"))),
        wide("OS-Image", TextOr("/status/nodeInfo/osImage", "<unknown>")),
        wide("Kernel-Version", Of(cells::node_kernel)),
        wide("Container-Runtime", TextOr("/status/nodeInfo/containerRuntimeVersion", "<unknown>")),
    ]),
    ("", "PersistentVolumeClaim", &[
        NAME, column("Status", Of(cells::claim_status)), column("Volume", Text("/spec/volumeName")),
        column("Capacity", Of(cells::claim_capacity)), column("Access Modes", Of(cells::claim_access_modes)),
        column("StorageClass", Of(cells::claim_class)),
        column("VolumeAttributesClass", TextOr("/spec/volumeAttributesClassName", "<unset>")), AGE,
        wide("VolumeMode", TextOr("/spec/volumeMode", "<unset>")),
    ]),
    ("", "Pod", pod::POD),
    ("", "ReplicationController", &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, LABELS]),
    ("", "ResourceQuota", &[
        NAME, column("Request", Of(|quota| cells::quota(quota, false))), column("Limit", Of(|quota| cells::quota(quota, true))), AGE,
    ]),
    ("", "Secret", &[NAME, column("Type", Text("/type")), column("Data", Count("/data")), AGE]),
    ("", "Service", &[
        NAME, column("Type", Text("/spec/type")), column("Cluster-IP", TextOr("/spec/clusterIPs/0", "<none>")),
        column("External-IP", Of(cells::service_external)), column("Port(s)", Of(cells::service_ports)), AGE, LABELS,
    ]),
    ("", "ServiceAccount", &[NAME, AGE]),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", WEBHOOKS),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", WEBHOOKS),
    ("apps", "ControllerRevision", &[
        NAME, column("Controller", Of(cells::controller)), column("Revision", Int("/revision")), AGE,
    ]),
    ("apps", "DaemonSet", &[
        NAME, integer("Desired", "/status/desiredNumberScheduled"), integer("Current", "/status/currentNumberScheduled"),
        integer("Ready", "/status/numberReady"), integer("Up-to-date", "/status/updatedNumberScheduled"),
        integer("Available", "/status/numberAvailable"), column("Node Selector", Labels("/spec/template/spec/nodeSelector")),
        AGE, CONTAINERS, IMAGES, SELECTOR,
    ]),
    ("apps", "Deployment", &[
        NAME, column("Ready", Of(cells::ready_of_desired)), column("Up-to-date", Int("/status/updatedReplicas")),
        column("Available", Int("/status/availableReplicas")), AGE, CONTAINERS, IMAGES,
        wide("Selector", Of(cells::plain_selector)),
    ]),
    ("apps", "ReplicaSet", &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR]),
    ("apps", "StatefulSet", &[NAME, column("Ready", Of(cells::ready_of_desired)), AGE, CONTAINERS, IMAGES]),
    ("autoscaling", "Scale", &[NAME, DESIRED, integer("Available", "/status/replicas"), AGE]),
    ("batch", "CronJob", &[
        NAME, column("Schedule", Text("/spec/schedule")), column("Timezone", TextOr("/spec/timeZone", "<none>")),
        // The column type is boolean, but the cell is a string.
        column("Suspend", Of(cells::suspend)).with_type("boolean"), column("Active", Count("/status/active")).with_type("integer"),
        column("Last Schedule", Since("/status/lastScheduleTime")), AGE,
        wide("Containers", Joined("/spec/jobTemplate/spec/template/spec/containers", "/name")),
        wide("Images", Joined("/spec/jobTemplate/spec/template/spec/containers", "/image")),
        wide("Selector", Selector("/spec/jobTemplate/spec/selector")),
    ]),
    ("batch", "Job", &[
        NAME, column("Status", Of(cells::job_status)), column("Completions", Of(cells::job_completions)),
        column("Duration", At(cells::job_duration)), AGE, CONTAINERS, IMAGES, SELECTOR,
    ]),
    ("coordination.k8s.io", "Lease", &[NAME, column("Holder", Text("/spec/holderIdentity")), AGE]),
    ("networking.k8s.io", "NetworkPolicy", &[NAME, column("Pod-Selector", Selector("/spec/podSelector")), AGE]),
    ("node.k8s.io", "RuntimeClass", &[NAME, column("Handler", Text("/handler")), AGE]),
    ("policy", "PodDisruptionBudget", &[
        NAME, column("Min Available", ScalarOr("/spec/minAvailable", "N/A")),
        column("Max Unavailable", ScalarOr("/spec/maxUnavailable", "N/A")),
        integer("Allowed Disruptions", "/status/disruptionsAllowed"), AGE,
    ]),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", ROLE_BINDING),
    ("rbac.authorization.k8s.io", "RoleBinding", ROLE_BINDING),
    ("scheduling.k8s.io", "PriorityClass", &[
        NAME, integer("Value", "/value"), column("Global-Default", Flag("/globalDefault")).with_type("boolean"), AGE,
        column("PreemptionPolicy", Text("/preemptionPolicy")),
    ]),
];
#[rustfmt::skip]
static ROLE_BINDING: &[Column] = &[
    NAME, column("Role", Of(cells::role)), AGE,
    wide("Users", Of(|binding| cells::subjects(binding, "User"))),
    wide("Groups", Of(|binding| cells::subjects(binding, "Group"))),
    wide("ServiceAccounts", Of(|binding| cells::subjects(binding, "ServiceAccount"))),
];
static WEBHOOKS: &[Column] = &[
    NAME,
    column("Webhooks", Count("/webhooks")).with_type("integer"),
    AGE,
];

impl Printer {
    /// Returns the printer of a built-in kind.
    pub fn of(group: &str, kind: &str) -> Self {
        let found = KINDS.iter().find(|row| (row.0, row.1) == (group, kind));
        Self::BuiltIn(found.map_or(PLAIN, |row| row.2))
    }

    /// Returns the `columnDefinitions` of a table.
    pub fn definitions(&self) -> Value {
        match self {
            Self::Custom(columns) => columns.definitions().into(),
            Self::BuiltIn(columns) => columns.iter().map(Column::definition).collect(),
        }
    }

    /// Returns the cells of one object, one for each column.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Self::Custom(columns) => columns.cells(object, now),
            Self::BuiltIn(columns) => columns.iter().map(|column| column.cell(object, now)).collect(),
        }
    }

    /// Returns the conditions of a row: `Completed` for a pod that succeeded or failed.
    pub fn conditions(&self, object: &Value) -> Option<Value> {
        match self {
            Self::BuiltIn(columns) if std::ptr::eq(*columns, pod::POD) => pod::conditions(object),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
