//! Strategies of roles and role bindings.

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{default_text, empty, list, text};
use crate::registry::{Rules, names};
use crate::schema::Path;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) const ROLE: Rules = Rules {
    validate: |role, errors| {
        for (i, rule) in list(&role["rules"]).iter().enumerate() {
            let urls = &rule["nonResourceURLs"];
            if !empty(urls) {
                let why = "namespaced rules cannot apply to non-resource URLs";
                errors.invalid(format!("rules[{i}].nonResourceURLs"), urls.clone(), why);
            }
        }
    },
    ..CLUSTER_ROLE
};

pub(crate) const CLUSTER_ROLE: Rules = Rules {
    name: names::segment_name,
    create_on_update: true,
    ..Rules::GENERIC
};

pub(crate) const ROLE_BINDING: Rules = Rules {
    validate_update: |old, new, errors| {
        if old["roleRef"] != new["roleRef"] {
            errors.invalid("roleRef", new["roleRef"].clone(), "cannot change roleRef");
        }
    },
    ..CLUSTER_ROLE
};

pub(crate) const CLUSTER_ROLE_BINDING: Rules = Rules {
    validate: |binding, errors| {
        if binding["roleRef"]["kind"] == "Role" {
            errors.not_supported("roleRef.kind", "Role", &["ClusterRole"]);
        }
        for (i, subject) in list(&binding["subjects"]).iter().enumerate() {
            if subject["kind"] == "ServiceAccount" && empty(&subject["namespace"]) {
                errors.required(format!("subjects[{i}].namespace"), "");
            }
        }
    },
    ..ROLE_BINDING
};

/// Sets the group of users and groups.
pub(crate) fn default_subject(subject: &mut Value) {
    if matches!(text(&subject["kind"]), "User" | "Group") {
        default_text(subject, "apiGroup", GROUP);
    }
}

/// Validates a rule, which is about resources or about URLs.
pub(crate) fn validate_rule(rule: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let urls = &rule["nonResourceURLs"];
    for (key, noun) in [("apiGroups", "api group"), ("resources", "resource")] {
        if empty(urls) && empty(&rule[key]) {
            let why = format!("resource rules must supply at least one {noun}");
            errors.required(&path.key(key), why);
        }
    }
    let of_resources = ["apiGroups", "resources", "resourceNames"];
    if !empty(urls) && of_resources.iter().any(|key| !empty(&rule[*key])) {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        errors.invalid(&path.key("nonResourceURLs"), urls.clone(), why);
    }
}

/// Validates the name and group of a subject, which depend on its kind.
pub(crate) fn validate_subject(subject: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let [kind, name, group] = ["kind", "name", "apiGroup"].map(|key| text(&subject[key]));
    let expected = match kind {
        "ServiceAccount" => "",
        "User" | "Group" => GROUP,
        _ => return,
    };
    if group != expected {
        errors.not_supported(&path.key("apiGroup"), group, &[expected]);
    }
    if kind == "ServiceAccount" && !name.is_empty() {
        errors.format(&path.key("name"), name, names::dns_subdomain);
    }
}
