//! How the lists and maps of the built-in kinds merge when they are applied.
//!
//! A list that is not here is one value, and whoever sets it has all of it. It is not the table of strategic merge: that
//! one knows only one key for each list, and no sets.

/// How the items of a list are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topology {
    /// Not at all.
    Atomic,
    /// By what they are.
    Set,
    /// By these fields, in the order of their names.
    Keyed(&'static [&'static str]),
}

/// The topology of a list, by the short name of the type that has it.
pub(super) fn of(short_name: &str, field: &str) -> Topology {
    let found = LISTS.binary_search_by_key(&(short_name, field), |(name, field, _)| (name, field));
    match found.ok().and_then(|at| LISTS.get(at)) {
        Some((_, _, [])) => Topology::Set,
        Some((_, _, keys)) => Topology::Keyed(keys),
        None => Topology::Atomic,
    }
}

/// Whether a type, or a map that is one of its fields, is one value.
pub(super) fn is_atomic_type(short_name: &str) -> bool {
    ATOMIC_TYPES.binary_search(&short_name).is_ok()
}

/// Whether a map is one value, by the type that has it.
pub(super) fn is_atomic_map(short_name: &str, field: &str) -> bool {
    matches!(
        (short_name, field),
        ("core.v1.PodSpec", "nodeSelector")
            | (
                "core.v1.ReplicationControllerSpec" | "core.v1.ServiceSpec",
                "selector"
            )
    )
}

/// What a key is when an item does not say it and the type gives it a default that is not its zero value.
pub(super) fn key_default(short_name: &str, field: &str) -> Option<&'static str> {
    matches!(
        (short_name, field),
        ("core.v1.ContainerPort" | "core.v1.ServicePort", "protocol")
    )
    .then_some("TCP")
}

/// Type, field, keys; no keys make it a set. Sorted.
#[rustfmt::skip]
const LISTS: &[(&str, &str, &[&str])] = &[
    ("admissionregistration.v1.MutatingWebhook", "matchConditions", &["name"]),
    ("admissionregistration.v1.MutatingWebhookConfiguration", "webhooks", &["name"]),
    ("admissionregistration.v1.ValidatingWebhook", "matchConditions", &["name"]),
    ("admissionregistration.v1.ValidatingWebhookConfiguration", "webhooks", &["name"]),
    ("apiextensions.v1.CustomResourceDefinitionStatus", "conditions", &["type"]),
    ("apiextensions.v1.JSONSchemaProps", "x-kubernetes-validations", &["rule"]),
    ("apps.v1.DaemonSetStatus", "conditions", &["type"]),
    ("apps.v1.DeploymentStatus", "conditions", &["type"]),
    ("apps.v1.ReplicaSetStatus", "conditions", &["type"]),
    ("apps.v1.StatefulSetStatus", "conditions", &["type"]),
    ("autoscaling.v2.HorizontalPodAutoscalerStatus", "conditions", &["type"]),
    ("batch.v1.PodFailurePolicyOnExitCodesRequirement", "values", &[]),
    ("batch.v1.UncountedTerminatedPods", "failed", &[]),
    ("batch.v1.UncountedTerminatedPods", "succeeded", &[]),
    ("core.v1.Container", "env", &["name"]),
    ("core.v1.Container", "ports", &["containerPort", "protocol"]),
    ("core.v1.Container", "volumeDevices", &["devicePath"]),
    ("core.v1.Container", "volumeMounts", &["mountPath"]),
    ("core.v1.ContainerRestartRuleOnExitCodes", "values", &[]),
    ("core.v1.ContainerStatus", "allocatedResourcesStatus", &["name"]),
    ("core.v1.ContainerStatus", "volumeMounts", &["mountPath"]),
    ("core.v1.EphemeralContainer", "env", &["name"]),
    ("core.v1.EphemeralContainer", "ports", &["containerPort", "protocol"]),
    ("core.v1.EphemeralContainer", "volumeDevices", &["devicePath"]),
    ("core.v1.EphemeralContainer", "volumeMounts", &["mountPath"]),
    ("core.v1.NamespaceStatus", "conditions", &["type"]),
    ("core.v1.NodeAllocatableResourceClaimStatus", "containers", &[]),
    ("core.v1.NodeSpec", "podCIDRs", &[]),
    ("core.v1.NodeStatus", "addresses", &["type"]),
    ("core.v1.NodeStatus", "conditions", &["type"]),
    ("core.v1.PersistentVolumeClaimStatus", "conditions", &["type"]),
    ("core.v1.PodSpec", "containers", &["name"]),
    ("core.v1.PodSpec", "ephemeralContainers", &["name"]),
    ("core.v1.PodSpec", "hostAliases", &["ip"]),
    ("core.v1.PodSpec", "imagePullSecrets", &["name"]),
    ("core.v1.PodSpec", "initContainers", &["name"]),
    ("core.v1.PodSpec", "resourceClaims", &["name"]),
    ("core.v1.PodSpec", "schedulingGates", &["name"]),
    ("core.v1.PodSpec", "topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("core.v1.PodSpec", "volumes", &["name"]),
    ("core.v1.PodStatus", "conditions", &["type"]),
    ("core.v1.PodStatus", "podIPs", &["ip"]),
    ("core.v1.PodStatus", "resourceClaimStatuses", &["name"]),
    ("core.v1.ReplicationControllerStatus", "conditions", &["type"]),
    ("core.v1.ResourceRequirements", "claims", &["name"]),
    ("core.v1.ResourceStatus", "resources", &["resourceID"]),
    ("core.v1.ServiceAccount", "secrets", &["name"]),
    ("core.v1.ServiceSpec", "ports", &["port", "protocol"]),
    ("core.v1.ServiceStatus", "conditions", &["type"]),
    ("flowcontrol.v1.FlowSchemaStatus", "conditions", &["type"]),
    ("flowcontrol.v1.NonResourcePolicyRule", "nonResourceURLs", &[]),
    ("flowcontrol.v1.NonResourcePolicyRule", "verbs", &[]),
    ("flowcontrol.v1.PriorityLevelConfigurationStatus", "conditions", &["type"]),
    ("flowcontrol.v1.ResourcePolicyRule", "apiGroups", &[]),
    ("flowcontrol.v1.ResourcePolicyRule", "namespaces", &[]),
    ("flowcontrol.v1.ResourcePolicyRule", "resources", &[]),
    ("flowcontrol.v1.ResourcePolicyRule", "verbs", &[]),
    ("meta.v1.ObjectMeta", "finalizers", &[]),
    ("meta.v1.ObjectMeta", "ownerReferences", &["uid"]),
    ("policy.v1.PodDisruptionBudgetStatus", "conditions", &["type"]),
];

/// Types whose objects are one value; sorted.
const ATOMIC_TYPES: &[&str] = &[
    "autoscaling.v1.CrossVersionObjectReference",
    "core.v1.ConfigMapKeySelector",
    "core.v1.FileKeySelector",
    "core.v1.LocalObjectReference",
    "core.v1.NodeSelector",
    "core.v1.NodeSelectorTerm",
    "core.v1.ObjectFieldSelector",
    "core.v1.ObjectReference",
    "core.v1.ResourceFieldSelector",
    "core.v1.ScopeSelector",
    "core.v1.SecretKeySelector",
    "core.v1.TypedLocalObjectReference",
    "meta.v1.LabelSelector",
    "meta.v1.OwnerReference",
    "rbac.v1.RoleRef",
    "rbac.v1.Subject",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_name_what_there_is() {
        assert!(LISTS.is_sorted_by_key(|(name, field, _)| (*name, *field)));
        assert!(ATOMIC_TYPES.is_sorted());
        assert_eq!(
            of("core.v1.Container", "ports"),
            Topology::Keyed(&["containerPort", "protocol"])
        );
        assert_eq!(of("meta.v1.ObjectMeta", "finalizers"), Topology::Set);
        assert_eq!(of("core.v1.Container", "args"), Topology::Atomic);
    }
}
