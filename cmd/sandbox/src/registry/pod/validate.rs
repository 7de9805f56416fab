//! Validation of pod specs, in pods and in pod templates.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{list, number, text};
use crate::registry::meta::validate_annotations;
use crate::registry::pod::container::Surroundings;
use crate::registry::pod::{affinity, container, security, volumes};
use crate::registry::{labels, names};

/// Validates a new pod.
pub(crate) fn create(pod: &Value) -> Vec<FieldError> {
    let mut errors = pod_only(pod);
    let spec = &pod["spec"];
    if !list(&spec["ephemeralContainers"]).is_empty() {
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if !text(&spec["nodeName"]).is_empty() && !list(&spec["schedulingGates"]).is_empty() {
        errors.forbidden(
            "spec.nodeName",
            "cannot be set until all schedulingGates have been cleared",
        );
    }
    errors
}

/// Validates the spec, with the rules that apply to pods but not to templates.
pub(crate) fn pod_only(pod: &Value) -> Vec<FieldError> {
    let mut errors = spec(&pod["spec"], "spec");
    for kind in ["containers", "initContainers"] {
        for (i, container) in list(&pod["spec"][kind]).iter().enumerate() {
            let image = text(&container["image"]);
            if image.trim() != image {
                errors.invalid(
                    format!("spec.{kind}[{i}].image"),
                    image,
                    "must not have leading or trailing whitespace",
                );
            }
        }
    }
    errors
}

/// Validates a pod template.
pub(crate) fn template(template: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = labels::validate(&template["metadata"]["labels"], &format!("{path}.labels"));
    errors.extend(validate_annotations(
        &template["metadata"]["annotations"],
        &format!("{path}.annotations"),
    ));
    errors.extend(spec(&template["spec"], &format!("{path}.spec")));
    if !list(&template["spec"]["ephemeralContainers"]).is_empty() {
        errors.forbidden(
            format!("{path}.spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
    errors
}

/// Validates a pod spec.
fn spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec["terminationGracePeriodSeconds"].is_null() {
        errors.required(format!("{path}.terminationGracePeriodSeconds"), "");
    }
    let around = Surroundings {
        volumes: volumes::validate(&spec["volumes"], &format!("{path}.volumes"), &mut errors),
        grace_period: number(&spec["terminationGracePeriodSeconds"]),
    };
    let seen = container::main(
        &spec["containers"],
        &around,
        &format!("{path}.containers"),
        &mut errors,
    );
    container::init(
        &spec["initContainers"],
        seen,
        &around,
        &format!("{path}.initContainers"),
        &mut errors,
    );
    choice(
        spec,
        path,
        "restartPolicy",
        &["Always", "OnFailure", "Never"],
        &mut errors,
    );
    choice(
        spec,
        path,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        &mut errors,
    );
    security::validate_pod(spec, path, &mut errors);
    affinity::validate(&spec["affinity"], &format!("{path}.affinity"), &mut errors);
    if text(&spec["dnsPolicy"]) == "None" {
        let config = &spec["dnsConfig"];
        if config.is_null() {
            let why = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.required(format!("{path}.dnsConfig"), why);
        } else if list(&config["nameservers"]).is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required(format!("{path}.dnsConfig.nameservers"), why);
        }
    }
    errors.extend(labels::validate(
        &spec["nodeSelector"],
        &format!("{path}.nodeSelector"),
    ));
    name(
        spec,
        path,
        "serviceAccountName",
        names::dns_subdomain,
        &mut errors,
    );
    name(spec, path, "nodeName", names::dns_subdomain, &mut errors);
    let deadline = &spec["activeDeadlineSeconds"];
    if deadline
        .as_i64()
        .is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds))
    {
        errors.invalid(
            format!("{path}.activeDeadlineSeconds"),
            deadline.clone(),
            names::between(1, i64::from(i32::MAX)),
        );
    }
    name(spec, path, "hostname", names::dns_label, &mut errors);
    name(spec, path, "subdomain", names::dns_label, &mut errors);
    tolerations(&spec["tolerations"], &format!("{path}.tolerations"), &mut errors);
    name(spec, path, "priorityClassName", names::dns_subdomain, &mut errors);
    name(spec, path, "runtimeClassName", names::dns_subdomain, &mut errors);
    if !spec["preemptionPolicy"].is_null() {
        choice(
            spec,
            path,
            "preemptionPolicy",
            &["PreemptLowerPriority", "Never"],
            &mut errors,
        );
    }
    gates(spec, path, &mut errors);
    errors
}

fn choice(
    spec: &Value,
    path: &str,
    key: &str,
    allowed: &'static [&'static str],
    errors: &mut Vec<FieldError>,
) {
    match text(&spec[key]) {
        "" => errors.required(format!("{path}.{key}"), ""),
        value if !allowed.contains(&value) => {
            errors.not_supported(format!("{path}.{key}"), value, allowed);
        }
        _ => {}
    }
}

fn name(spec: &Value, path: &str, key: &str, rule: fn(&str) -> Vec<String>, errors: &mut Vec<FieldError>) {
    let value = text(&spec[key]);
    if !value.is_empty() {
        errors.extend(
            rule(value)
                .into_iter()
                .map(|wrong| FieldError::invalid(format!("{path}.{key}"), value, wrong)),
        );
    }
}

fn gates(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut seen = std::collections::BTreeSet::new();
    for (i, gate) in list(&spec["schedulingGates"]).iter().enumerate() {
        let name = text(&gate["name"]);
        for wrong in names::qualified(name) {
            errors.invalid(format!("{path}.schedulingGates[{i}]"), name, wrong);
        }
        if !seen.insert(name) {
            errors.duplicate(format!("{path}.schedulingGates[{i}]"), name);
        }
    }
    for (i, gate) in list(&spec["readinessGates"]).iter().enumerate() {
        let name = text(&gate["conditionType"]);
        for wrong in names::qualified(name) {
            errors.invalid(format!("{path}.readinessGates[{i}].conditionType"), name, wrong);
        }
    }
}

/// Validates tolerations.
pub(crate) fn tolerations(tolerations: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (i, toleration) in list(tolerations).iter().enumerate() {
        let path = format!("{path}[{i}]");
        let [key, operator, value, effect] =
            ["key", "operator", "value", "effect"].map(|field| text(&toleration[field]));
        if key.is_empty() && operator != "Exists" {
            errors.invalid(
                format!("{path}.operator"),
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if !key.is_empty() {
            for wrong in names::qualified(key) {
                errors.invalid(format!("{path}.key"), key, wrong);
            }
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            errors.invalid(
                format!("{path}.effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "Equal" | "" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    errors.invalid(format!("{path}.operator"), value, wrong.join(";"));
                }
            }
            "Exists" if !value.is_empty() => errors.invalid(
                format!("{path}.operator"),
                value,
                "value must be empty when `operator` is 'Exists'",
            ),
            "Exists" => {}
            other => errors.not_supported(format!("{path}.operator"), other, &["Equal", "Exists"]),
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            errors.not_supported(
                format!("{path}.effect"),
                effect,
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            );
        }
    }
}
