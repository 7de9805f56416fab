//! The bootstrap policy: the default cluster roles and bindings of kube-apiserver 1.36.
//!
//! The roles of the control plane's components (scheduler, controllers, nodes) are left out: the sandbox does not run
//! them. Without RBAC the roles are not created.

use serde_json::{Value, json};

use crate::authn::Authorization;
use crate::authz::authorize::GROUP;
use crate::endpoints::{Api, decode};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const CREATE: &[&str] = &["create"];

/// Verbs, groups with spaces between (`core` for the empty one), resources with spaces between.
type Line = (&'static [&'static str], &'static str, &'static str);

const ADMIN: &[Line] = &[
    (CREATE, "authorization.k8s.io", "localsubjectaccessreviews"),
    (READ_WRITE, "rbac.authorization.k8s.io", "rolebindings roles"),
];

#[rustfmt::skip]
const EDIT: &[Line] = &[
    (READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    (&["impersonate"], "core", "serviceaccounts"),
    (WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    (CREATE, "core", "pods/eviction"),
    (WRITE, "core", "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy"),
    (CREATE, "core", "serviceaccounts/token"),
    (WRITE, "core events.k8s.io", "events"),
    (WRITE, "apps", "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale"),
    (WRITE, "autoscaling", "horizontalpodautoscalers"),
    (WRITE, "batch", "cronjobs jobs"),
    (WRITE, "extensions", "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale"),
    (WRITE, "policy", "poddisruptionbudgets"),
    (WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    (READ_WRITE, "coordination.k8s.io", "leases"),
    (WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
];

#[rustfmt::skip]
const VIEW: &[Line] = &[
    (READ, "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status"),
    (READ, "core", "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status"),
    (READ, "core", "namespaces"),
    (READ, "core events.k8s.io", "events"),
    (READ, "discovery.k8s.io", "endpointslices"),
    (READ, "apps", "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status"),
    (READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    (READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    (READ, "extensions", "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale"),
    (READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    (READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    (READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
];

const BASIC_USER: &[Line] = &[
    (
        CREATE,
        "authorization.k8s.io",
        "selfsubjectaccessreviews selfsubjectrulesreviews",
    ),
    (CREATE, "authentication.k8s.io", "selfsubjectreviews"),
];

const AUTH_DELEGATOR: &[Line] = &[
    (CREATE, "authentication.k8s.io", "tokenreviews"),
    (CREATE, "authorization.k8s.io", "subjectaccessreviews"),
];

const DISCOVERY: &str =
    "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/";
const PUBLIC_INFO: &str = "/healthz /livez /readyz /version /version/";
const MONITORING: &str =
    "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz";

/// Cluster role (of the same name), and the groups that it is bound to.
const BINDINGS: [(&str, &[&str]); 5] = [
    ("cluster-admin", &["system:masters"]),
    ("system:basic-user", &["system:authenticated"]),
    ("system:discovery", &["system:authenticated"]),
    ("system:monitoring", &["system:monitoring"]),
    (
        "system:public-info-viewer",
        &["system:authenticated", "system:unauthenticated"],
    ),
];

impl Api {
    /// Makes them.
    pub(crate) fn create_bootstrap_roles(&self) {
        if self.authorization != Authorization::Rbac {
            return;
        }
        for role in roles() {
            self.create_bootstrap("clusterroles", "", role);
        }
        self.create_bootstrap("roles", "kube-system", authentication_reader());
        for (name, groups) in BINDINGS {
            let subject = |group: &&str| json!({"kind": "Group", "apiGroup": GROUP, "name": group});
            let subjects: Vec<Value> = groups.iter().map(subject).collect();
            let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": name});
            let binding = json!({"metadata": metadata(name, None), "roleRef": role, "subjects": subjects});
            self.create_bootstrap("clusterrolebindings", "", binding);
        }
    }

    fn create_bootstrap(&self, plural: &str, namespace: &str, object: Value) {
        let Some(res) = self.registry().find(GROUP, "v1", plural) else {
            return;
        };
        let decoded = decode::object(
            &res,
            object,
            Vec::new(),
            decode::FieldValidation::Ignore,
            decode::Stage::Sent,
        );
        let made = decoded.and_then(|d| self.create_object(&res, namespace, d.value, false));
        if let Err(error) = made {
            tracing::error!(
                resource = plural,
                error = error.message,
                "Could not create an initial role"
            );
        }
    }
}

/// The role of servers that authenticate clients by the published CAs.
fn authentication_reader() -> Value {
    let name = "extension-apiserver-authentication";
    let mut metadata = metadata("extension-apiserver-authentication-reader", None);
    metadata["namespace"] = "kube-system".into();
    let rule =
        json!({"verbs": READ, "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name]});
    json!({"metadata": metadata, "rules": [rule]})
}

/// Those that are aggregated come last, so that each is put together once.
fn roles() -> Vec<Value> {
    let resources = |lines: &[Line]| -> Value { lines.iter().map(resource_rule).collect() };
    let urls = |paths: &str| json!({"verbs": ["get"], "nonResourceURLs": words(paths)});
    let plain = |name: &str, rules: Value| json!({"metadata": metadata(name, None), "rules": rules});
    let part = |to: &str, lines: &[Line]| {
        let name = format!("system:aggregate-to-{to}");
        json!({"metadata": metadata(&name, Some(to)), "rules": resources(lines)})
    };
    let whole = |name: &str, to: Option<&str>| {
        let selector = json!({"matchLabels": {aggregation_label(name): "true"}});
        json!({"metadata": metadata(name, to), "aggregationRule": {"clusterRoleSelectors": [selector]}})
    };
    let everything = json!([
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]);
    let node_metrics = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["nodes/metrics"]});
    vec![
        plain("cluster-admin", everything),
        plain("system:auth-delegator", resources(AUTH_DELEGATOR)),
        plain("system:basic-user", resources(BASIC_USER)),
        plain("system:discovery", json!([urls(DISCOVERY)])),
        plain("system:monitoring", json!([urls(MONITORING), node_metrics])),
        plain("system:public-info-viewer", json!([urls(PUBLIC_INFO)])),
        part("admin", ADMIN),
        part("edit", EDIT),
        part("view", VIEW),
        whole("view", Some("edit")),
        whole("edit", Some("admin")),
        whole("admin", None),
    ]
}

fn metadata(name: &str, aggregated_to: Option<&str>) -> Value {
    let mut labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    if let Some(role) = aggregated_to {
        labels[aggregation_label(role)] = "true".into();
    }
    let annotations = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
    json!({"name": name, "labels": labels, "annotations": annotations})
}

fn aggregation_label(role: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{role}")
}

fn resource_rule((verbs, groups, resources): &Line) -> Value {
    let groups: Vec<&str> = groups
        .split(' ')
        .map(|g| if g == "core" { "" } else { g })
        .collect();
    json!({"verbs": verbs, "apiGroups": groups, "resources": words(resources)})
}

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}
