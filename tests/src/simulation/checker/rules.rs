//! The facts about a scenario that a run does not show.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

/// The rules of one scenario.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Rules {
    /// None without leader election.
    pub lease: Option<LeaseRules>,
    /// The largest ratio between a time on the clock of a process and the same time of the run, in both directions. 1 if the
    /// clocks are right.
    pub clock_rate: f64,
    /// The built-in kinds. Custom kinds are learned from the commits of their definitions.
    pub kinds: Cow<'static, [Kind]>,
    /// The finalizers that no client removes (F30).
    pub blocked_finalizers: BTreeSet<String>,
    /// Resource and key of objects that stay terminating: pods whose node does not confirm the termination (F30).
    pub blocked_objects: BTreeSet<(String, String)>,
    /// Resource and key of objects whose desired state cannot be reached: creates are rejected, pods fail, a spec is invalid.
    pub unreachable: BTreeSet<(String, String)>,
    /// Whether a garbage collector runs.
    pub collects: bool,
    /// Whether admission changes the templates of `ReplicaSets`.
    pub changes_templates: bool,
    /// The number of writes until convergence without faults, without Leases and Events (B1).
    pub write_floor: Option<usize>,
    /// The number of writes that one fault may cost in addition (B1).
    pub writes_per_fault: usize,
    /// The time after the end of the faults in which the desired state is reached (L1).
    pub converges_within: Duration,
    /// The time without a write after which a run is at rest (L1).
    pub rest: Duration,
    /// The part of the bound on queue lengths that does not depend on the number of objects (S10).
    pub queue_slack: usize,
    /// One resource fails or is slow, and the collector must not be delayed (L2, L3).
    pub isolation: Option<Isolation>,
    /// Whether no fault hides the deletion of the last objects of a kind that is no longer served (L2).
    pub collects_removed_kinds: bool,
    /// Whether a process has only one cache of a resource and no message takes time, so that it lists an unchanged resource once
    /// (B2).
    pub has_one_cache: bool,
    /// The time in which a pod that ran is replaced, and in which a status follows the pods (L1).
    pub follows_within: Option<Duration>,
    /// Whether a standby takes over at once after an orderly release: no message takes time (L4).
    pub takes_over_at_once: bool,
    /// Whether kube-controller-manager may run, so that no process may act (S7).
    pub yields: bool,
}

/// The parameters of leader election.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as in the flags")]
pub struct LeaseRules {
    pub namespace: String,
    pub name: String,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

/// The bound on the delay of the garbage collector while one resource fails, or is slow.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// The resources (`pods`) and objects (`pods default/a`) that fail: neither they nor their dependents are bound.
    pub broken: BTreeSet<String>,
    /// The time from the removal of the last owner to the deletion of the dependent, and that in which the finalizer of a
    /// foreground or orphan deletion is removed.
    pub within: Duration,
}

/// A kind that the API serves from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in the API")]
pub struct Kind {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// The resource and its group: `deployments.apps`.
    pub collection: &'static str,
    pub namespaced: bool,
}

impl Default for LeaseRules {
    fn default() -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            name: "steersman".to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            lease: Some(LeaseRules::default()),
            clock_rate: 1.0,
            kinds: Cow::Borrowed(BUILT_IN),
            blocked_finalizers: BTreeSet::new(),
            blocked_objects: BTreeSet::new(),
            unreachable: BTreeSet::new(),
            collects: true,
            changes_templates: false,
            write_floor: None,
            writes_per_fault: 2,
            converges_within: Duration::from_mins(2),
            rest: Duration::from_secs(10),
            queue_slack: 256,
            isolation: None,
            collects_removed_kinds: false,
            has_one_cache: false,
            follows_within: None,
            takes_over_at_once: true,
            yields: false,
        }
    }
}

impl Rules {
    /// Returns the longest time of the run in which a clock of a process advances by `time`.
    pub(super) fn longest(&self, time: Duration) -> Duration {
        time.mul_f64(self.clock_rate)
    }

    /// Returns the shortest time of the run in which a clock of a process advances by `time`.
    pub(super) fn shortest(&self, time: Duration) -> Duration {
        time.div_f64(self.clock_rate)
    }
}

const fn namespaced(api_version: &'static str, kind: &'static str, collection: &'static str) -> Kind {
    Kind {
        api_version,
        kind,
        collection,
        namespaced: true,
    }
}

const fn cluster(api_version: &'static str, kind: &'static str, collection: &'static str) -> Kind {
    Kind {
        api_version,
        kind,
        collection,
        namespaced: false,
    }
}

/// The kinds of Kubernetes 1.36 that can be deleted.
pub const BUILT_IN: &[Kind] = &[
    namespaced("v1", "ConfigMap", "configmaps"),
    namespaced("v1", "Endpoints", "endpoints"),
    namespaced("v1", "Event", "events"),
    namespaced("v1", "LimitRange", "limitranges"),
    cluster("v1", "Namespace", "namespaces"),
    cluster("v1", "Node", "nodes"),
    namespaced("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    cluster("v1", "PersistentVolume", "persistentvolumes"),
    namespaced("v1", "Pod", "pods"),
    namespaced("v1", "PodTemplate", "podtemplates"),
    namespaced("v1", "ReplicationController", "replicationcontrollers"),
    namespaced("v1", "ResourceQuota", "resourcequotas"),
    namespaced("v1", "Secret", "secrets"),
    namespaced("v1", "ServiceAccount", "serviceaccounts"),
    namespaced("v1", "Service", "services"),
    cluster(
        "apiregistration.k8s.io/v1",
        "APIService",
        "apiservices.apiregistration.k8s.io",
    ),
    namespaced("apps/v1", "ControllerRevision", "controllerrevisions.apps"),
    namespaced("apps/v1", "DaemonSet", "daemonsets.apps"),
    namespaced("apps/v1", "Deployment", "deployments.apps"),
    namespaced("apps/v1", "ReplicaSet", "replicasets.apps"),
    namespaced("apps/v1", "StatefulSet", "statefulsets.apps"),
    namespaced("events.k8s.io/v1", "Event", "events.events.k8s.io"),
    namespaced(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers.autoscaling",
    ),
    namespaced("batch/v1", "CronJob", "cronjobs.batch"),
    namespaced("batch/v1", "Job", "jobs.batch"),
    cluster(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        "certificatesigningrequests.certificates.k8s.io",
    ),
    cluster(
        "networking.k8s.io/v1",
        "IngressClass",
        "ingressclasses.networking.k8s.io",
    ),
    namespaced("networking.k8s.io/v1", "Ingress", "ingresses.networking.k8s.io"),
    cluster(
        "networking.k8s.io/v1",
        "IPAddress",
        "ipaddresses.networking.k8s.io",
    ),
    namespaced(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "networkpolicies.networking.k8s.io",
    ),
    cluster(
        "networking.k8s.io/v1",
        "ServiceCIDR",
        "servicecidrs.networking.k8s.io",
    ),
    namespaced("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets.policy"),
    cluster(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        "clusterrolebindings.rbac.authorization.k8s.io",
    ),
    cluster(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "clusterroles.rbac.authorization.k8s.io",
    ),
    namespaced(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "rolebindings.rbac.authorization.k8s.io",
    ),
    namespaced(
        "rbac.authorization.k8s.io/v1",
        "Role",
        "roles.rbac.authorization.k8s.io",
    ),
    cluster("storage.k8s.io/v1", "CSIDriver", "csidrivers.storage.k8s.io"),
    cluster("storage.k8s.io/v1", "CSINode", "csinodes.storage.k8s.io"),
    namespaced(
        "storage.k8s.io/v1",
        "CSIStorageCapacity",
        "csistoragecapacities.storage.k8s.io",
    ),
    cluster(
        "storage.k8s.io/v1",
        "StorageClass",
        "storageclasses.storage.k8s.io",
    ),
    cluster(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        "volumeattachments.storage.k8s.io",
    ),
    cluster(
        "storage.k8s.io/v1",
        "VolumeAttributesClass",
        "volumeattributesclasses.storage.k8s.io",
    ),
    cluster(
        "admissionregistration.k8s.io/v1",
        "MutatingAdmissionPolicy",
        "mutatingadmissionpolicies.admissionregistration.k8s.io",
    ),
    cluster(
        "admissionregistration.k8s.io/v1",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    ),
    cluster(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    ),
    cluster(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
    ),
    cluster(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    ),
    cluster(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    ),
    cluster(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions.apiextensions.k8s.io",
    ),
    cluster(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        "priorityclasses.scheduling.k8s.io",
    ),
    namespaced("coordination.k8s.io/v1", "Lease", "leases.coordination.k8s.io"),
    cluster("node.k8s.io/v1", "RuntimeClass", "runtimeclasses.node.k8s.io"),
    namespaced(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "endpointslices.discovery.k8s.io",
    ),
    cluster(
        "resource.k8s.io/v1",
        "DeviceClass",
        "deviceclasses.resource.k8s.io",
    ),
    namespaced(
        "resource.k8s.io/v1",
        "ResourceClaim",
        "resourceclaims.resource.k8s.io",
    ),
    namespaced(
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        "resourceclaimtemplates.resource.k8s.io",
    ),
    cluster(
        "resource.k8s.io/v1",
        "ResourceSlice",
        "resourceslices.resource.k8s.io",
    ),
    cluster(
        "flowcontrol.apiserver.k8s.io/v1",
        "FlowSchema",
        "flowschemas.flowcontrol.apiserver.k8s.io",
    ),
    cluster(
        "flowcontrol.apiserver.k8s.io/v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    ),
];
