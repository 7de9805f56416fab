//! Strategies of roles and role bindings.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{default_text, each, list, section, text};
use crate::registry::{Rules, labels, names};

const GROUP: &str = "rbac.authorization.k8s.io";

const PLAIN: Rules = Rules {
    name: names::segment_name,
    create_on_update: true,
    ..Rules::GENERIC
};

pub(crate) const ROLE: Rules = Rules {
    validate: |role| validate_rules(role, true),
    validate_update: |_, new| validate_rules(new, true),
    ..PLAIN
};

pub(crate) const CLUSTER_ROLE: Rules = Rules {
    validate: validate_cluster_role,
    validate_update: |_, new| validate_cluster_role(new),
    ..PLAIN
};

pub(crate) const ROLE_BINDING: Rules = Rules {
    default: default_binding,
    validate: |binding| validate_binding(binding, true),
    validate_update: |old, new| validate_binding_update(old, new, true),
    ..PLAIN
};

pub(crate) const CLUSTER_ROLE_BINDING: Rules = Rules {
    default: default_binding,
    validate: |binding| validate_binding(binding, false),
    validate_update: |old, new| validate_binding_update(old, new, false),
    ..PLAIN
};

fn default_binding(binding: &mut Value) {
    if let Some(role) = section(binding, "roleRef") {
        default_text(role, "apiGroup", GROUP);
    }
    each(binding, "subjects", |subject| {
        if matches!(text(&subject["kind"]), "User" | "Group") {
            default_text(subject, "apiGroup", GROUP);
        }
    });
}

fn validate_rules(role: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, rule) in list(&role["rules"]).iter().enumerate() {
        let path = format!("rules[{i}]");
        let given = |key: &str| !list(&rule[key]).is_empty();
        if !given("verbs") {
            errors.required(format!("{path}.verbs"), "verbs must contain at least one value");
        }
        if given("nonResourceURLs") {
            let urls = || rule["nonResourceURLs"].clone();
            if namespaced {
                errors.invalid(
                    format!("{path}.nonResourceURLs"),
                    urls(),
                    "namespaced rules cannot apply to non-resource URLs",
                );
            }
            if given("apiGroups") || given("resources") || given("resourceNames") {
                errors.invalid(
                    format!("{path}.nonResourceURLs"),
                    urls(),
                    "rules cannot apply to both regular resources and non-resource URLs",
                );
            }
            continue;
        }
        for (key, thing) in [("apiGroups", "api group"), ("resources", "resource")] {
            if !given(key) {
                errors.required(
                    format!("{path}.{key}"),
                    format!("resource rules must supply at least one {thing}"),
                );
            }
        }
    }
    errors
}

fn validate_cluster_role(role: &Value) -> Vec<FieldError> {
    const PATH: &str = "aggregationRule.clusterRoleSelectors";
    let mut errors = validate_rules(role, false);
    if role["aggregationRule"].is_object() {
        let selectors = list(&role["aggregationRule"]["clusterRoleSelectors"]);
        if selectors.is_empty() {
            errors.required(
                PATH,
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            );
        }
        for (i, selector) in selectors.iter().enumerate() {
            errors.extend(labels::validate_selector(selector, &format!("{PATH}[{i}]")));
        }
    }
    errors
}

fn validate_binding(binding: &Value, namespaced: bool) -> Vec<FieldError> {
    let role = &binding["roleRef"];
    let mut errors = Vec::new();
    if text(&role["apiGroup"]) != GROUP {
        errors.not_supported("roleRef.apiGroup", text(&role["apiGroup"]), &[GROUP]);
    }
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&text(&role["kind"])) {
        errors.not_supported(
            "roleRef.kind",
            text(&role["kind"]),
            if namespaced {
                &["Role", "ClusterRole"]
            } else {
                &["ClusterRole"]
            },
        );
    }
    let name = text(&role["name"]);
    if name.is_empty() {
        errors.required("roleRef.name", "");
    }
    for wrong in names::path_segment(name) {
        errors.invalid("roleRef.name", name, wrong);
    }
    for (i, subject) in list(&binding["subjects"]).iter().enumerate() {
        errors.extend(validate_subject(subject, namespaced, &format!("subjects[{i}]")));
    }
    errors
}

fn validate_subject(subject: &Value, namespaced: bool, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let [kind, name, group] = ["kind", "name", "apiGroup"].map(|key| text(&subject[key]));
    if name.is_empty() {
        errors.required(format!("{path}.name"), "");
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                for wrong in names::dns_subdomain(name) {
                    errors.invalid(format!("{path}.name"), name, wrong);
                }
            }
            if !group.is_empty() {
                errors.not_supported(format!("{path}.apiGroup"), group, &[""]);
            }
            if !namespaced && text(&subject["namespace"]).is_empty() {
                errors.required(format!("{path}.namespace"), "");
            }
        }
        "User" | "Group" if group == GROUP => {}
        "User" | "Group" => {
            errors.not_supported(format!("{path}.apiGroup"), group, &[GROUP]);
        }
        _ => errors.not_supported(format!("{path}.kind"), kind, &["ServiceAccount", "User", "Group"]),
    }
    errors
}

fn validate_binding_update(old: &Value, new: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = validate_binding(new, namespaced);
    if old["roleRef"] != new["roleRef"] {
        errors.invalid("roleRef", new["roleRef"].clone(), "cannot change roleRef");
    }
    errors
}
