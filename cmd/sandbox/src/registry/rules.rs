//! The strategy of a kind, as upstream's `rest.RESTCreateStrategy` and `RESTUpdateStrategy`, and the table of strategies.

use crate::apiextensions::{custom, definition};
use crate::field::FieldError;
use crate::json::Value;
use crate::registry::names::NameRule;
use crate::registry::{
    config, event, generic, names, namespace, node, pod, policy, rbac, service, webhooks, workload,
};
use crate::resource::Resource;

/// The strategy of one kind. A kind names the rules that differ from [`Rules::GENERIC`].
pub(crate) struct Rules {
    /// The form of names.
    pub(crate) name: NameRule,
    /// The form that updates of the main endpoint ask for: a name cannot change, so that most ask for hardly any.
    pub(crate) name_on_update: NameRule,
    /// Sets defaults while decoding, after the declarative ones.
    pub(crate) default: fn(&mut Value),
    /// Changes an object on create, after status was emptied.
    pub(crate) create: fn(&mut Value),
    /// Changes an object on an update of the main endpoint, after status was restored.
    pub(crate) update: fn(&Value, &mut Value),
    /// Changes an object on an update of the status endpoint, after spec was restored.
    pub(crate) status: fn(&Value, &mut Value),
    /// Whether the generation counts this update (old, new); none if the kind has no generation.
    pub(crate) generation: Option<fn(&Value, &Value) -> bool>,
    /// Whether a create may bring its own status.
    pub(crate) status_on_create: bool,
    /// Validates an object that is created or updated, after the declarative rules.
    pub(crate) validate: fn(&Value, &mut Vec<FieldError>),
    /// Validates an object on create only.
    pub(crate) validate_create: fn(&Value, &mut Vec<FieldError>),
    /// Validates an update of the main endpoint (old, new).
    pub(crate) validate_update: fn(&Value, &Value, &mut Vec<FieldError>),
    /// Validates an update of the status endpoint (old, new).
    pub(crate) validate_status: fn(&Value, &Value, &mut Vec<FieldError>),
    /// Whether PUT may create.
    pub(crate) create_on_update: bool,
    /// Whether PUT needs no resourceVersion.
    pub(crate) unconditional_update: bool,
}

impl Rules {
    /// The rules that every strategy starts from: types, metadata, and a status apart from spec.
    pub(crate) const GENERIC: Self = Self {
        name: names::subdomain_name,
        name_on_update: names::segment_name,
        default: |_| {},
        create: |_| {},
        update: |_, _| {},
        status: |_, _| {},
        generation: None,
        status_on_create: false,
        validate: |_, _| {},
        validate_create: |_, _| {},
        validate_update: |_, _, _| {},
        validate_status: |_, _, _| {},
        create_on_update: false,
        unconditional_update: true,
    };

    /// The most common answer to [`Rules::generation`].
    pub(crate) fn spec_changed(old: &Value, new: &Value) -> bool {
        old["spec"] != new["spec"]
    }
}

/// The rules of a resource.
pub(crate) fn rules_of(res: &Resource) -> &'static Rules {
    if res.custom.is_some() {
        return &custom::RULES;
    }
    match (res.group.as_str(), res.kind.as_str()) {
        ("", "ConfigMap") => &config::CONFIG_MAP,
        ("", "Event") => &event::CORE,
        ("events.k8s.io", "Event") => &event::MODERN,
        ("", "Namespace") => &namespace::RULES,
        ("", "Node") => &node::RULES,
        ("", "Pod") => &pod::RULES,
        ("", "ReplicationController") => &workload::REPLICATION_CONTROLLER,
        ("", "Secret") => &config::SECRET,
        ("", "Service") => &service::RULES,
        ("", "ServiceAccount") => &config::SERVICE_ACCOUNT,
        (_, "ControllerRevision") => &workload::CONTROLLER_REVISION,
        (_, "DaemonSet") => &workload::DAEMON_SET,
        (_, "Deployment") => &workload::DEPLOYMENT,
        (_, "ReplicaSet") => &workload::REPLICA_SET,
        (_, "Lease") => &generic::LEASE,
        (_, "PodDisruptionBudget") => &policy::DISRUPTION_BUDGET,
        (_, "Role") => &rbac::ROLE,
        (_, "ClusterRole") => &rbac::CLUSTER_ROLE,
        (_, "RoleBinding") => &rbac::ROLE_BINDING,
        (_, "ClusterRoleBinding") => &rbac::CLUSTER_ROLE_BINDING,
        (_, "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => &webhooks::RULES,
        (_, "CustomResourceDefinition") => &definition::RULES,
        (_, kind) => generic::rules_of(kind),
    }
}
