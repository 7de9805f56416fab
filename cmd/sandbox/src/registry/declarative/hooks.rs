//! The rules that relate several fields of one type.

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{list, text};
use crate::registry::{pod, policy, rbac, service, webhooks, workload};
use crate::schema::Path;

/// Sets defaults that depend on other fields, after the defaults of single fields.
pub(super) type Default = fn(&mut Value);
/// Validates the relation between fields, after the fields themselves.
pub(super) type Validate = fn(&Value, &Path<'_>, &mut Vec<FieldError>);

/// Returns the function that sets further defaults of a type.
pub(super) fn default_of(short_name: &str) -> Option<Default> {
    Some(match short_name {
        "apps.v1.DaemonSetUpdateStrategy" => workload::default_daemon_set_strategy,
        "apps.v1.DeploymentStrategy" => workload::default_deployment_strategy,
        "core.v1.Container" | "core.v1.EphemeralContainer" => pod::defaults::container,
        "core.v1.ImageVolumeSource" => pod::defaults::image_volume,
        "core.v1.Pod" => pod::defaults::pod,
        "core.v1.PodSpec" => pod::defaults::service_account,
        "core.v1.PodStatus" => pod::defaults::pod_ips,
        "core.v1.ServicePort" => service::default_port,
        "core.v1.Volume" => pod::defaults::volume,
        "rbac.v1.Subject" => rbac::default_subject,
        _ => return None,
    })
}

/// Returns the function that validates the relations between fields of a type.
pub(super) fn validate_of(short_name: &str) -> Option<Validate> {
    Some(match short_name {
        "admissionregistration.v1.MatchCondition" => webhooks::conditions::validate,
        "admissionregistration.v1.MutatingWebhook" | "admissionregistration.v1.ValidatingWebhook" => {
            webhooks::validate
        }
        "admissionregistration.v1.RuleWithOperations" => webhooks::rule::validate,
        "admissionregistration.v1.WebhookClientConfig" => webhooks::client::validate,
        "core.v1.Container" | "core.v1.EphemeralContainer" => pod::container::container,
        "core.v1.EnvFromSource" => pod::container::variables,
        "core.v1.EnvVar" => pod::container::variable,
        "core.v1.LifecycleHandler" | "core.v1.Probe" => pod::container::handler,
        "core.v1.LoadBalancerIngress" => service::traffic::ingress,
        "core.v1.PodSpec" => pod::spec::spec,
        "core.v1.PodTemplateSpec" => pod::spec::template,
        "core.v1.ResourceRequirements" => pod::resources::validate,
        "core.v1.SeccompProfile" => pod::container::seccomp_profile,
        "core.v1.SecurityContext" => pod::container::security_context,
        "core.v1.Toleration" => pod::spec::toleration,
        "core.v1.Volume" => pod::container::volume,
        "core.v1.NodeSelectorRequirement" => node_requirement,
        "meta.v1.LabelSelectorRequirement" => label_requirement,
        "policy.v1.PodDisruptionBudgetSpec" => policy::validate_budget,
        "policy.v1.PodDisruptionBudgetStatus" => policy::validate_budget_status,
        "rbac.v1.PolicyRule" => rbac::validate_rule,
        "rbac.v1.Subject" => rbac::validate_subject,
        _ => return None,
    })
}

/// Validates the operator of a label selector requirement against its values.
fn label_requirement(requirement: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let has_values = !list(&requirement["values"]).is_empty();
    match text(&requirement["operator"]) {
        "In" | "NotIn" if !has_values => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.required(&path.key("values"), why);
        }
        "Exists" | "DoesNotExist" if has_values => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.key("values"), why);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&path.key("operator"), other, "not a valid selector operator"),
    }
}

fn node_requirement(requirement: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match text(&requirement["operator"]) {
        "Gt" | "Lt" if list(&requirement["values"]).len() == 1 => {}
        "Gt" | "Lt" => errors.required(&path.key("values"), "must have one element"),
        _ => label_requirement(requirement, path, errors),
    }
}
