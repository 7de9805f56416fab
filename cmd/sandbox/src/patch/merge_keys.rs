//! Which fields merge in a strategic merge patch, and by what.
//!
//! A list that is not here is replaced as a whole, an object that is not here merges field by field.

/// How a field merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    /// The strategies as the API publishes them, with commas between. `retainKeys` is advice to clients: the directive it
    /// makes them send is obeyed wherever it stands.
    pub strategies: &'static str,
    /// The field that tells items of a list apart; empty for lists of scalars.
    pub key: &'static str,
}

impl Rule {
    /// Items of the patch merge into the list.
    pub(super) fn merges(self) -> bool {
        self.strategies.split(',').any(|strategy| strategy == "merge")
    }

    /// The object of the patch takes the place of the old one.
    pub(super) fn replaces(self) -> bool {
        self.strategies == "replace"
    }
}

/// The rule of a field, by the short name of its type.
pub(super) fn rule(short_name: &str, field: &str) -> Rule {
    let found = RULES.binary_search_by_key(&(short_name, field), |(name, field, ..)| (name, field));
    match found.ok().and_then(|at| RULES.get(at)) {
        Some((_, _, strategies, key)) => Rule { strategies, key },
        None => Rule {
            strategies: "",
            key: "",
        },
    }
}

/// Type, field, strategies, merge key; sorted.
#[rustfmt::skip]
pub(super) const RULES: &[(&str, &str, &str, &str)] = &[
    ("admissionregistration.v1.MutatingWebhook", "matchConditions", "merge", "name"),
    ("admissionregistration.v1.MutatingWebhookConfiguration", "webhooks", "merge", "name"),
    ("admissionregistration.v1.ValidatingWebhook", "matchConditions", "merge", "name"),
    ("admissionregistration.v1.ValidatingWebhookConfiguration", "webhooks", "merge", "name"),
    ("apiextensions.v1.JSONSchemaProps", "x-kubernetes-validations", "merge", "rule"),
    ("apps.v1.DaemonSetStatus", "conditions", "merge", "type"),
    ("apps.v1.DeploymentSpec", "strategy", "retainKeys", ""),
    ("apps.v1.DeploymentStatus", "conditions", "merge", "type"),
    ("apps.v1.ReplicaSetStatus", "conditions", "merge", "type"),
    ("apps.v1.StatefulSetStatus", "conditions", "merge", "type"),
    ("autoscaling.v2.HorizontalPodAutoscalerStatus", "conditions", "merge", "type"),
    ("batch.v1.JobStatus", "conditions", "merge", "type"),
    ("core.v1.Container", "env", "merge", "name"),
    ("core.v1.Container", "ports", "merge", "containerPort"),
    ("core.v1.Container", "volumeDevices", "merge", "devicePath"),
    ("core.v1.Container", "volumeMounts", "merge", "mountPath"),
    ("core.v1.ContainerStatus", "allocatedResourcesStatus", "merge", "name"),
    ("core.v1.ContainerStatus", "volumeMounts", "merge", "mountPath"),
    ("core.v1.EphemeralContainer", "env", "merge", "name"),
    ("core.v1.EphemeralContainer", "ports", "merge", "containerPort"),
    ("core.v1.EphemeralContainer", "volumeDevices", "merge", "devicePath"),
    ("core.v1.EphemeralContainer", "volumeMounts", "merge", "mountPath"),
    ("core.v1.NamespaceStatus", "conditions", "merge", "type"),
    ("core.v1.NodeSpec", "podCIDRs", "merge", ""),
    ("core.v1.NodeStatus", "addresses", "merge", "type"),
    ("core.v1.NodeStatus", "conditions", "merge", "type"),
    ("core.v1.PersistentVolumeClaimStatus", "conditions", "merge", "type"),
    ("core.v1.PodSpec", "containers", "merge", "name"),
    ("core.v1.PodSpec", "ephemeralContainers", "merge", "name"),
    ("core.v1.PodSpec", "hostAliases", "merge", "ip"),
    ("core.v1.PodSpec", "imagePullSecrets", "merge", "name"),
    ("core.v1.PodSpec", "initContainers", "merge", "name"),
    ("core.v1.PodSpec", "resourceClaims", "merge,retainKeys", "name"),
    ("core.v1.PodSpec", "schedulingGates", "merge", "name"),
    ("core.v1.PodSpec", "topologySpreadConstraints", "merge", "topologyKey"),
    ("core.v1.PodSpec", "volumes", "merge,retainKeys", "name"),
    ("core.v1.PodStatus", "conditions", "merge", "type"),
    ("core.v1.PodStatus", "hostIPs", "merge", "ip"),
    ("core.v1.PodStatus", "podIPs", "merge", "ip"),
    ("core.v1.PodStatus", "resourceClaimStatuses", "merge,retainKeys", "name"),
    ("core.v1.ReplicationControllerStatus", "conditions", "merge", "type"),
    ("core.v1.ServiceAccount", "secrets", "merge", "name"),
    ("core.v1.ServiceSpec", "ports", "merge", "port"),
    ("core.v1.ServiceStatus", "conditions", "merge", "type"),
    ("flowcontrol.v1.FlowSchemaStatus", "conditions", "merge", "type"),
    ("flowcontrol.v1.PriorityLevelConfigurationStatus", "conditions", "merge", "type"),
    ("meta.v1.ObjectMeta", "finalizers", "merge", ""),
    ("meta.v1.ObjectMeta", "ownerReferences", "merge", "uid"),
    ("policy.v1.PodDisruptionBudgetSpec", "selector", "replace", ""),
    ("policy.v1.PodDisruptionBudgetStatus", "conditions", "merge", "type"),
];
