//! Which number is which field: part of the API, fixed for ever.
//!
//! Only the types are here that `kubectl` makes up itself.

/// The JSON name of a field, by the short name of its type.
pub(super) fn name(short_name: &str, number: u32) -> Option<&'static str> {
    let (_, fields) = FIELDS.iter().find(|(name, _)| *name == short_name)?;
    fields.split(' ').find_map(|field| {
        let (n, name) = field.split_once(':')?;
        (n.parse() == Ok(number)).then_some(name)
    })
}

/// Type, and its fields as `number:name` with spaces between.
#[rustfmt::skip]
const FIELDS: &[(&str, &str)] = &[
    ("meta.v1.ObjectMeta", "1:name 2:generateName 3:namespace 4:selfLink 5:uid 6:resourceVersion 7:generation 8:creationTimestamp 9:deletionTimestamp 10:deletionGracePeriodSeconds 11:labels 12:annotations 13:ownerReferences 14:finalizers"),
    ("meta.v1.OwnerReference", "1:kind 3:name 4:uid 5:apiVersion 6:controller 7:blockOwnerDeletion"),
    ("meta.v1.LabelSelector", "1:matchLabels 2:matchExpressions"),
    ("meta.v1.LabelSelectorRequirement", "1:key 2:operator 3:values"),
    ("meta.v1.DeleteOptions", "1:gracePeriodSeconds 2:preconditions 3:orphanDependents 4:propagationPolicy 5:dryRun"),
    ("meta.v1.Preconditions", "1:uid 2:resourceVersion"),

    ("core.v1.Namespace", "1:metadata 2:spec 3:status"),
    ("core.v1.NamespaceSpec", "1:finalizers"),
    ("core.v1.ConfigMap", "1:metadata 2:data 3:binaryData 4:immutable"),
    ("core.v1.Secret", "1:metadata 2:data 3:type 4:stringData 5:immutable"),
    ("core.v1.ServiceAccount", "1:metadata 2:secrets 3:imagePullSecrets 4:automountServiceAccountToken"),
    ("core.v1.LocalObjectReference", "1:name"),
    ("core.v1.ResourceQuota", "1:metadata 2:spec 3:status"),
    ("core.v1.ResourceQuotaSpec", "1:hard 2:scopes"),
    ("core.v1.Service", "1:metadata 2:spec 3:status"),
    ("core.v1.ServiceSpec", "1:ports 2:selector 3:clusterIP 4:type 5:externalIPs 7:sessionAffinity 8:loadBalancerIP 9:loadBalancerSourceRanges 10:externalName 11:externalTrafficPolicy 12:healthCheckNodePort 13:publishNotReadyAddresses 17:ipFamilyPolicy 18:clusterIPs 19:ipFamilies 20:allocateLoadBalancerNodePorts 21:loadBalancerClass 22:internalTrafficPolicy 23:trafficDistribution"),
    ("core.v1.ServicePort", "1:name 2:protocol 3:port 4:targetPort 5:nodePort 6:appProtocol"),
    ("core.v1.Pod", "1:metadata 2:spec 3:status"),
    ("core.v1.PodTemplateSpec", "1:metadata 2:spec"),
    ("core.v1.PodSpec", "2:containers 3:restartPolicy 4:terminationGracePeriodSeconds 5:activeDeadlineSeconds 6:dnsPolicy 7:nodeSelector 8:serviceAccountName 9:serviceAccount 10:nodeName 11:hostNetwork 12:hostPID 13:hostIPC 14:securityContext 15:imagePullSecrets 16:hostname 17:subdomain 19:schedulerName 21:automountServiceAccountToken 22:tolerations 24:priorityClassName 25:priority 27:shareProcessNamespace 29:runtimeClassName 30:enableServiceLinks 31:preemptionPolicy"),
    ("core.v1.PodSecurityContext", "2:runAsUser 3:runAsNonRoot 4:supplementalGroups 5:fsGroup 6:runAsGroup"),
    ("core.v1.Toleration", "1:key 2:operator 3:value 4:effect 5:tolerationSeconds"),
    ("core.v1.Container", "1:name 2:image 3:command 4:args 5:workingDir 6:ports 7:env 8:resources 9:volumeMounts 13:terminationMessagePath 14:imagePullPolicy 15:securityContext 16:stdin 17:stdinOnce 18:tty 19:envFrom 20:terminationMessagePolicy"),
    ("core.v1.ContainerPort", "1:name 2:hostPort 3:containerPort 4:protocol 5:hostIP"),
    ("core.v1.EnvVar", "1:name 2:value 3:valueFrom"),
    ("core.v1.EnvVarSource", "1:fieldRef 3:configMapKeyRef 4:secretKeyRef"),
    ("core.v1.ObjectFieldSelector", "1:apiVersion 2:fieldPath"),
    ("core.v1.ConfigMapKeySelector", "1:localObjectReference 2:key 3:optional"),
    ("core.v1.SecretKeySelector", "1:localObjectReference 2:key 3:optional"),
    ("core.v1.EnvFromSource", "1:prefix 2:configMapRef 3:secretRef"),
    ("core.v1.ConfigMapEnvSource", "1:localObjectReference 2:optional"),
    ("core.v1.SecretEnvSource", "1:localObjectReference 2:optional"),
    ("core.v1.ResourceRequirements", "1:limits 2:requests"),
    ("core.v1.SecurityContext", "1:capabilities 2:privileged 4:runAsUser 5:runAsNonRoot 6:readOnlyRootFilesystem 7:allowPrivilegeEscalation 8:runAsGroup"),
    ("core.v1.Capabilities", "1:add 2:drop"),
    ("core.v1.VolumeMount", "1:name 2:readOnly 3:mountPath 4:subPath 5:mountPropagation 6:subPathExpr"),
    ("core.v1.ObjectReference", "1:kind 2:namespace 3:name 4:uid 5:apiVersion 6:resourceVersion 7:fieldPath"),

    ("apps.v1.Deployment", "1:metadata 2:spec 3:status"),
    ("apps.v1.DeploymentSpec", "1:replicas 2:selector 3:template 4:strategy 5:minReadySeconds 6:revisionHistoryLimit 7:paused 9:progressDeadlineSeconds"),
    ("apps.v1.DeploymentStrategy", "1:type 2:rollingUpdate"),
    ("apps.v1.RollingUpdateDeployment", "1:maxUnavailable 2:maxSurge"),

    ("batch.v1.Job", "1:metadata 2:spec 3:status"),
    ("batch.v1.JobSpec", "1:parallelism 2:completions 3:activeDeadlineSeconds 4:selector 5:manualSelector 6:template 7:backoffLimit 8:ttlSecondsAfterFinished 9:completionMode 10:suspend"),
    ("batch.v1.JobTemplateSpec", "1:metadata 2:spec"),
    ("batch.v1.CronJob", "1:metadata 2:spec 3:status"),
    ("batch.v1.CronJobSpec", "1:schedule 2:startingDeadlineSeconds 3:concurrencyPolicy 4:suspend 5:jobTemplate 6:successfulJobsHistoryLimit 7:failedJobsHistoryLimit 8:timeZone"),

    ("policy.v1.Eviction", "1:metadata 2:deleteOptions"),
    ("policy.v1.PodDisruptionBudget", "1:metadata 2:spec 3:status"),
    ("policy.v1.PodDisruptionBudgetSpec", "1:minAvailable 2:selector 3:maxUnavailable 4:unhealthyPodEvictionPolicy"),
    ("scheduling.v1.PriorityClass", "1:metadata 2:value 3:globalDefault 4:description 5:preemptionPolicy"),

    ("authentication.v1.SelfSubjectReview", "1:metadata 2:status"),
    ("authentication.v1.SelfSubjectReviewStatus", "1:userInfo"),
    ("authentication.v1.UserInfo", "1:username 2:uid 3:groups"),
    ("authentication.v1.TokenRequest", "1:metadata 2:spec 3:status"),
    ("authentication.v1.TokenRequestSpec", "1:audiences 3:boundObjectRef 4:expirationSeconds"),
    ("authentication.v1.TokenRequestStatus", "1:token 2:expirationTimestamp"),
    ("authentication.v1.BoundObjectReference", "1:kind 2:apiVersion 3:name 4:uid"),
    ("authentication.v1.TokenReview", "1:metadata 2:spec 3:status"),
    ("authentication.v1.TokenReviewSpec", "1:token 2:audiences"),
    ("authentication.v1.TokenReviewStatus", "1:authenticated 2:user 3:error 4:audiences"),
    ("authorization.v1.SelfSubjectAccessReview", "1:metadata 2:spec 3:status"),
    ("authorization.v1.SelfSubjectAccessReviewSpec", "1:resourceAttributes 2:nonResourceAttributes"),
    ("authorization.v1.SubjectAccessReview", "1:metadata 2:spec 3:status"),
    ("authorization.v1.LocalSubjectAccessReview", "1:metadata 2:spec 3:status"),
    ("authorization.v1.SubjectAccessReviewSpec", "1:resourceAttributes 2:nonResourceAttributes 3:user 4:groups 6:uid"),
    ("authorization.v1.SubjectAccessReviewStatus", "1:allowed 2:reason 3:evaluationError 4:denied"),
    ("authorization.v1.ResourceAttributes", "1:namespace 2:verb 3:group 4:version 5:resource 6:subresource 7:name"),
    ("authorization.v1.NonResourceAttributes", "1:path 2:verb"),
    ("authorization.v1.SelfSubjectRulesReview", "1:metadata 2:spec 3:status"),
    ("authorization.v1.SelfSubjectRulesReviewSpec", "1:namespace"),
    ("authorization.v1.SubjectRulesReviewStatus", "1:resourceRules 2:nonResourceRules 3:incomplete 4:evaluationError"),

    ("rbac.v1.Role", "1:metadata 2:rules"),
    ("rbac.v1.ClusterRole", "1:metadata 2:rules 3:aggregationRule"),
    ("rbac.v1.AggregationRule", "1:clusterRoleSelectors"),
    ("rbac.v1.PolicyRule", "1:verbs 2:apiGroups 3:resources 4:resourceNames 5:nonResourceURLs"),
    ("rbac.v1.RoleBinding", "1:metadata 2:subjects 3:roleRef"),
    ("rbac.v1.ClusterRoleBinding", "1:metadata 2:subjects 3:roleRef"),
    ("rbac.v1.RoleRef", "1:apiGroup 2:kind 3:name"),
    ("rbac.v1.Subject", "1:kind 2:apiGroup 3:name 4:namespace"),
];
