//! Which optional fields keep their zero value.
//!
//! A typed server drops `paused: false` and keeps `suspend: false`: the first field cannot tell "no" from "not said", the
//! second can. The published schema does not say which is which, so the second sort is listed here. A wrong guess shows
//! as a write that should have changed nothing and did.

/// Whether the zero value of an optional field means something, by the short name of the type.
pub(super) fn is_kept(short_name: &str, field: &str) -> bool {
    KEPT.binary_search_by_key(&short_name, |(name, _)| name)
        .ok()
        .and_then(|at| KEPT.get(at))
        .is_some_and(|(_, fields)| fields.split(' ').any(|name| name == field))
}

/// Type, and its fields with spaces between; sorted by type.
#[rustfmt::skip]
pub(super) const KEPT: &[(&str, &str)] = &[
    (
        "admissionregistration.v1.MutatingWebhook",
        "failurePolicy matchPolicy reinvocationPolicy timeoutSeconds",
    ),
    ("admissionregistration.v1.RuleWithOperations", "scope"),
    ("admissionregistration.v1.ServiceReference", "path port"),
    ("admissionregistration.v1.ValidatingWebhook", "failurePolicy matchPolicy timeoutSeconds"),
    ("admissionregistration.v1.WebhookClientConfig", "url"),
    ("apiextensions.v1.CustomResourceDefinitionVersion", "deprecationWarning"),
    ("apiextensions.v1.CustomResourceSubresourceScale", "labelSelectorPath"),
    (
        "apiextensions.v1.JSONSchemaProps",
        "$ref maxItems maxLength maxProperties maximum minItems minLength minProperties minimum \
         multipleOf x-kubernetes-list-type x-kubernetes-map-type x-kubernetes-preserve-unknown-fields",
    ),
    ("apiextensions.v1.ServiceReference", "path port"),
    ("apiextensions.v1.ValidationRule", "optionalOldSelf reason"),
    ("apiextensions.v1.WebhookClientConfig", "url"),
    ("apps.v1.DaemonSetSpec", "revisionHistoryLimit"),
    ("apps.v1.DaemonSetStatus", "collisionCount"),
    ("apps.v1.DeploymentSpec", "progressDeadlineSeconds replicas revisionHistoryLimit"),
    ("apps.v1.DeploymentStatus", "collisionCount terminatingReplicas"),
    ("apps.v1.ReplicaSetSpec", "replicas"),
    ("apps.v1.ReplicaSetStatus", "terminatingReplicas"),
    ("apps.v1.RollingUpdateStatefulSetStrategy", "partition"),
    ("apps.v1.StatefulSetOrdinals", "start"),
    ("apps.v1.StatefulSetSpec", "replicas revisionHistoryLimit serviceName"),
    ("apps.v1.StatefulSetStatus", "availableReplicas collisionCount"),
    ("autoscaling.v1.HorizontalPodAutoscalerSpec", "minReplicas targetCPUUtilizationPercentage"),
    ("autoscaling.v1.HorizontalPodAutoscalerStatus", "currentCPUUtilizationPercentage observedGeneration"),
    ("autoscaling.v2.HPAScalingRules", "selectPolicy stabilizationWindowSeconds"),
    ("autoscaling.v2.HorizontalPodAutoscalerSpec", "minReplicas"),
    ("autoscaling.v2.HorizontalPodAutoscalerStatus", "observedGeneration"),
    ("autoscaling.v2.MetricTarget", "averageUtilization"),
    ("autoscaling.v2.MetricValueStatus", "averageUtilization"),
    (
        "batch.v1.CronJobSpec",
        "failedJobsHistoryLimit startingDeadlineSeconds successfulJobsHistoryLimit suspend timeZone",
    ),
    (
        "batch.v1.JobSpec",
        "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy \
         manualSelector maxFailedIndexes parallelism podReplacementPolicy suspend \
         ttlSecondsAfterFinished",
    ),
    ("batch.v1.JobStatus", "failedIndexes ready terminating"),
    ("batch.v1.PodFailurePolicyOnExitCodesRequirement", "containerName"),
    ("batch.v1.PodFailurePolicyOnPodConditionsPattern", "status"),
    ("batch.v1.SuccessPolicyRule", "succeededCount succeededIndexes"),
    (
        "coordination.v1.LeaseSpec",
        "holderIdentity leaseDurationSeconds leaseTransitions preferredHolder strategy",
    ),
    ("core.v1.AppArmorProfile", "localhostProfile"),
    ("core.v1.AzureDiskVolumeSource", "cachingMode fsType kind readOnly"),
    ("core.v1.CSIVolumeSource", "fsType readOnly"),
    ("core.v1.ClientIPConfig", "timeoutSeconds"),
    ("core.v1.ClusterTrustBundleProjection", "name optional signerName"),
    ("core.v1.ConfigMap", "immutable"),
    ("core.v1.ConfigMapEnvSource", "optional"),
    ("core.v1.ConfigMapKeySelector", "optional"),
    ("core.v1.ConfigMapProjection", "optional"),
    ("core.v1.ConfigMapVolumeSource", "defaultMode optional"),
    ("core.v1.Container", "restartPolicy"),
    ("core.v1.ContainerStatus", "started stopSignal"),
    ("core.v1.DownwardAPIVolumeFile", "mode"),
    ("core.v1.DownwardAPIVolumeSource", "defaultMode"),
    ("core.v1.EphemeralContainer", "restartPolicy"),
    ("core.v1.Event", "reportingComponent reportingInstance"),
    ("core.v1.FCVolumeSource", "lun"),
    ("core.v1.FileKeySelector", "optional"),
    ("core.v1.GRPCAction", "service"),
    ("core.v1.HostPathVolumeSource", "type"),
    ("core.v1.ISCSIVolumeSource", "initiatorName"),
    ("core.v1.KeyToPath", "mode"),
    ("core.v1.Lifecycle", "stopSignal"),
    ("core.v1.LoadBalancerIngress", "ipMode"),
    ("core.v1.NodeFeatures", "supplementalGroupsPolicy"),
    ("core.v1.NodeRuntimeHandler", "name"),
    ("core.v1.NodeRuntimeHandlerFeatures", "recursiveReadOnlyMounts userNamespaces"),
    ("core.v1.NodeSwapStatus", "capacity"),
    ("core.v1.PersistentVolumeClaimSpec", "storageClassName volumeAttributesClassName volumeMode"),
    ("core.v1.PersistentVolumeClaimStatus", "currentVolumeAttributesClassName"),
    ("core.v1.PodCertificateProjection", "maxExpirationSeconds"),
    ("core.v1.PodDNSConfigOption", "value"),
    ("core.v1.PodResourceClaim", "resourceClaimName resourceClaimTemplateName"),
    ("core.v1.PodResourceClaimStatus", "resourceClaimName"),
    ("core.v1.PodSchedulingGroup", "podGroupName"),
    (
        "core.v1.PodSecurityContext",
        "fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy \
         supplementalGroupsPolicy",
    ),
    (
        "core.v1.PodSpec",
        "activeDeadlineSeconds automountServiceAccountToken enableServiceLinks hostUsers \
         hostnameOverride preemptionPolicy priority runtimeClassName setHostnameAsFQDN \
         shareProcessNamespace terminationGracePeriodSeconds",
    ),
    ("core.v1.PortStatus", "error"),
    ("core.v1.Probe", "terminationGracePeriodSeconds"),
    ("core.v1.ProjectedVolumeSource", "defaultMode"),
    ("core.v1.ReplicationControllerSpec", "replicas"),
    ("core.v1.ResourceHealth", "message"),
    ("core.v1.SeccompProfile", "localhostProfile"),
    ("core.v1.Secret", "immutable"),
    ("core.v1.SecretEnvSource", "optional"),
    ("core.v1.SecretKeySelector", "optional"),
    ("core.v1.SecretProjection", "optional"),
    ("core.v1.SecretVolumeSource", "defaultMode optional"),
    (
        "core.v1.SecurityContext",
        "allowPrivilegeEscalation privileged procMount readOnlyRootFilesystem runAsGroup runAsNonRoot \
         runAsUser",
    ),
    ("core.v1.ServiceAccount", "automountServiceAccountToken"),
    ("core.v1.ServiceAccountTokenProjection", "expirationSeconds"),
    ("core.v1.ServicePort", "appProtocol"),
    (
        "core.v1.ServiceSpec",
        "allocateLoadBalancerNodePorts internalTrafficPolicy ipFamilyPolicy loadBalancerClass \
         trafficDistribution",
    ),
    ("core.v1.Toleration", "tolerationSeconds"),
    ("core.v1.TopologySpreadConstraint", "minDomains nodeAffinityPolicy nodeTaintsPolicy"),
    ("core.v1.TypedLocalObjectReference", "apiGroup"),
    ("core.v1.TypedObjectReference", "apiGroup namespace"),
    ("core.v1.VolumeMount", "mountPropagation recursiveReadOnly"),
    ("core.v1.VolumeMountStatus", "recursiveReadOnly"),
    (
        "core.v1.WindowsSecurityContextOptions",
        "gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName",
    ),
    ("flowcontrol.v1.ExemptPriorityLevelConfiguration", "lendablePercent nominalConcurrencyShares"),
    ("flowcontrol.v1.FlowSchemaSpec", "matchingPrecedence"),
    (
        "flowcontrol.v1.LimitedPriorityLevelConfiguration",
        "borrowingLimitPercent lendablePercent nominalConcurrencyShares",
    ),
    ("flowcontrol.v1.QueuingConfiguration", "handSize queueLengthLimit queues"),
    (
        "meta.v1.DeleteOptions",
        "gracePeriodSeconds ignoreStoreReadErrorWithClusterBreakingPotential orphanDependents \
         propagationPolicy",
    ),
    ("meta.v1.ObjectMeta", "deletionGracePeriodSeconds"),
    ("meta.v1.OwnerReference", "blockOwnerDeletion controller"),
    ("meta.v1.Preconditions", "resourceVersion uid"),
    ("networking.v1.NetworkPolicyPort", "endPort protocol"),
    ("policy.v1.PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy"),
    ("policy.v1.PodDisruptionBudgetStatus", "currentHealthy desiredHealthy disruptionsAllowed expectedPods"),
    ("rbac.v1.RoleRef", "apiGroup"),
    ("scheduling.v1.PriorityClass", "preemptionPolicy value"),
];
