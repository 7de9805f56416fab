//! The built-in resources: names, scope and subresources, as a server of 1.36 lists them in discovery.

use crate::resource::{Resource, Scale};

/// One line of the table; everything else about a built-in resource follows from it.
struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    status: bool,
    scale: bool,
}

/// A row with the facts that most kinds share; the methods below add what is special.
const fn row(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Row {
    Row {
        group,
        version,
        kind,
        plural,
        short: &[],
        categories: &[],
        namespaced: true,
        status: false,
        scale: false,
    }
}

impl Row {
    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short = names;
        self
    }

    /// Shown by `kubectl get all`.
    const fn in_all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    const fn api_extension(mut self) -> Self {
        self.categories = &["api-extensions"];
        self
    }

    const fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    const fn status(mut self) -> Self {
        self.status = true;
        self
    }

    const fn scale(mut self) -> Self {
        self.scale = true;
        self
    }

    fn resource(&self) -> Resource {
        // Both groups of events share one collection, which stores core/v1.
        let (collection, stored_as) = match (self.group, self.plural) {
            ("events.k8s.io", "events") => ("events".to_owned(), "v1".to_owned()),
            ("", plural) => (plural.to_owned(), self.version.to_owned()),
            (group, plural) => (format!("{plural}.{group}"), format!("{group}/{}", self.version)),
        };
        Resource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            plural: self.plural.to_owned(),
            singular: self.kind.to_ascii_lowercase(),
            short_names: self.short.iter().map(|&s| s.to_owned()).collect(),
            categories: self.categories.iter().map(|&s| s.to_owned()).collect(),
            namespaced: self.namespaced,
            status: self.status,
            scale: self.scale.then(|| Scale {
                spec_replicas: "spec.replicas".to_owned(),
                status_replicas: "status.replicas".to_owned(),
                selector: None,
            }),
            collection,
            stored_as,
            custom: None,
        }
    }
}

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

const TABLE: &[Row] = &[
    row("", "v1", "ConfigMap", "configmaps").short(&["cm"]),
    row("", "v1", "Event", "events").short(&["ev"]),
    row("", "v1", "Namespace", "namespaces")
        .short(&["ns"])
        .cluster()
        .status(),
    row("", "v1", "Node", "nodes").short(&["no"]).cluster().status(),
    row("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
        .short(&["pvc"])
        .status(),
    row("", "v1", "Pod", "pods").short(&["po"]).in_all().status(),
    row("", "v1", "ReplicationController", "replicationcontrollers")
        .short(&["rc"])
        .in_all()
        .status()
        .scale(),
    row("", "v1", "ResourceQuota", "resourcequotas")
        .short(&["quota"])
        .status(),
    row("", "v1", "Secret", "secrets"),
    row("", "v1", "Service", "services")
        .short(&["svc"])
        .in_all()
        .status(),
    row("", "v1", "ServiceAccount", "serviceaccounts").short(&["sa"]),
    row(AUTHENTICATION, "v1", "SelfSubjectReview", "selfsubjectreviews").cluster(),
    row(AUTHENTICATION, "v1", "TokenReview", "tokenreviews").cluster(),
    row(
        AUTHORIZATION,
        "v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
    ),
    row(
        AUTHORIZATION,
        "v1",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
    )
    .cluster(),
    row(
        AUTHORIZATION,
        "v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
    )
    .cluster(),
    row(AUTHORIZATION, "v1", "SubjectAccessReview", "subjectaccessreviews").cluster(),
    row("apps", "v1", "ControllerRevision", "controllerrevisions"),
    row("apps", "v1", "DaemonSet", "daemonsets")
        .short(&["ds"])
        .in_all()
        .status(),
    row("apps", "v1", "Deployment", "deployments")
        .short(&["deploy"])
        .in_all()
        .status()
        .scale(),
    row("apps", "v1", "ReplicaSet", "replicasets")
        .short(&["rs"])
        .in_all()
        .status()
        .scale(),
    row("apps", "v1", "StatefulSet", "statefulsets")
        .short(&["sts"])
        .in_all()
        .status()
        .scale(),
    row("batch", "v1", "CronJob", "cronjobs")
        .short(&["cj"])
        .in_all()
        .status(),
    row("batch", "v1", "Job", "jobs").in_all().status(),
    row("coordination.k8s.io", "v1", "Lease", "leases"),
    row("events.k8s.io", "v1", "Event", "events").short(&["ev"]),
    row("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
        .short(&["pdb"])
        .status(),
    row(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings").cluster(),
    row(RBAC, "v1", "ClusterRole", "clusterroles").cluster(),
    row(RBAC, "v1", "RoleBinding", "rolebindings"),
    row(RBAC, "v1", "Role", "roles"),
    row("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies").short(&["netpol"]),
    row("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses")
        .short(&["pc"])
        .cluster(),
    row(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
    )
    .short(&["hpa"])
    .in_all()
    .status(),
    row(FLOW, "v1", "FlowSchema", "flowschemas").cluster().status(),
    row(
        FLOW,
        "v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
    )
    .cluster()
    .status(),
    row(
        ADMISSION,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    )
    .cluster()
    .api_extension(),
    row(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    )
    .cluster()
    .api_extension(),
    row(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )
    .short(&["crd", "crds"])
    .cluster()
    .status()
    .api_extension(),
];

/// Every built-in resource, in the order in which discovery lists them.
#[must_use]
pub fn all() -> Vec<Resource> {
    TABLE.iter().map(Row::resource).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::all;

    #[test]
    fn paths_are_unique_and_events_share_a_collection() {
        let resources = all();
        let paths: BTreeSet<_> = resources
            .iter()
            .map(|r| (r.api_version(), r.plural.clone()))
            .collect();
        assert_eq!(paths.len(), resources.len());
        let events: Vec<_> = resources.iter().filter(|r| r.kind == "Event").collect();
        assert_eq!(events.len(), 2);
        for event in events {
            assert_eq!(
                (event.collection.as_str(), event.stored_as.as_str()),
                ("events", "v1")
            );
        }
    }

    #[test]
    fn names_follow_discovery() {
        let resources = all();
        let find = |qualified: &str| resources.iter().find(|r| r.qualified() == qualified);
        let deployment = find("deployments.apps").expect("listed");
        assert_eq!(deployment.singular, "deployment");
        assert_eq!(deployment.short_names, ["deploy"]);
        assert_eq!(deployment.categories, ["all"]);
        assert_eq!(deployment.collection, "deployments.apps");
        assert_eq!(deployment.stored_as, "apps/v1");
        assert!(deployment.namespaced && deployment.status && deployment.scale.is_some());
        let policy = find("networkpolicies.networking.k8s.io").expect("listed");
        assert_eq!(
            (policy.singular.as_str(), policy.list_kind.as_str()),
            ("networkpolicy", "NetworkPolicyList")
        );
        assert!(!policy.status);
    }
}
