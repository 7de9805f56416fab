//! Strategies of the webhook configurations.

pub(crate) mod client;
mod conditions;
mod rule;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::field::{FieldError, Report as _};
use crate::registry::json::{each, list, number, set_default, text, with};
use crate::registry::{Rules, labels, names};

const PLAIN: Rules = Rules {
    name_on_update: names::subdomain_name,
    generation: Some(|old, new| old["webhooks"] != new["webhooks"]),
    validate,
    validate_update: |_, new| validate(new),
    unconditional_update: false,
    ..Rules::GENERIC
};

pub(crate) const VALIDATING: Rules = Rules {
    default: |config| each(config, "webhooks", default_webhook),
    ..PLAIN
};

pub(crate) const MUTATING: Rules = Rules {
    default: |config| {
        each(config, "webhooks", |webhook| {
            set_default(webhook, "reinvocationPolicy", "Never");
            default_webhook(webhook);
        });
    },
    ..PLAIN
};

fn default_webhook(webhook: &mut Value) {
    set_default(webhook, "failurePolicy", "Fail");
    set_default(webhook, "matchPolicy", "Equivalent");
    set_default(webhook, "namespaceSelector", json!({}));
    set_default(webhook, "objectSelector", json!({}));
    set_default(webhook, "timeoutSeconds", 10);
    with(webhook, "clientConfig", |client| {
        with(client, "service", |service| set_default(service, "port", 443));
    });
    each(webhook, "rules", |rule| set_default(rule, "scope", "*"));
}

fn validate(config: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (i, webhook) in list(&config["webhooks"]).iter().enumerate() {
        let path = format!("webhooks[{i}]");
        let name = text(&webhook["name"]);
        validate_name(name, &path, &mut errors);
        for (j, rule) in list(&webhook["rules"]).iter().enumerate() {
            rule::validate(rule, &format!("{path}.rules[{j}]"), &mut errors);
        }
        validate_choices(webhook, &path, &mut errors);
        for selector in ["namespaceSelector", "objectSelector"] {
            errors.extend(labels::validate_selector(
                &webhook[selector],
                &format!("{path}.{selector}"),
            ));
        }
        client::validate(
            &webhook["clientConfig"],
            &format!("{path}.clientConfig"),
            &mut errors,
        );
        conditions::validate(
            &webhook["matchConditions"],
            &format!("{path}.matchConditions"),
            &mut errors,
        );
        validate_versions(
            &webhook["admissionReviewVersions"],
            &format!("{path}.admissionReviewVersions"),
            &mut errors,
        );
        if !name.is_empty() && !seen.insert(name) {
            errors.duplicate(format!("webhooks[{i}].name"), name);
        }
    }
    errors
}

fn validate_versions(versions: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if list(versions).is_empty() {
        errors.required(path, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, version) in list(versions).iter().map(text).enumerate() {
        let path = format!("{path}[{i}]");
        if !seen.insert(version) {
            errors.invalid(path, version, "duplicate version");
            continue;
        }
        for wrong in names::dns_1035_label(version) {
            errors.invalid(path.as_str(), version, wrong);
        }
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        let why = "must include at least one of v1, v1beta1";
        errors.invalid(path, versions.clone(), why);
    }
}

fn validate_name(name: &str, path: &str, errors: &mut Vec<FieldError>) {
    let path = format!("{path}.name");
    let wrong = names::dns_subdomain(name);
    if name.is_empty() {
        errors.required(path, "");
    } else if !wrong.is_empty() {
        errors.invalid(path, name, wrong.join(","));
    } else if name.split('.').count() < 3 {
        errors.invalid(
            path,
            name,
            "should be a domain with at least three segments separated by dots",
        );
    }
}

fn validate_choices(webhook: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (key, allowed) in [
        ("failurePolicy", &["Fail", "Ignore"] as &'static [_]),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("sideEffects", &["None", "NoneOnDryRun"]),
        ("reinvocationPolicy", &["IfNeeded", "Never"]),
    ] {
        match webhook[key].as_str() {
            None if key == "sideEffects" => {
                errors.required(format!("{path}.{key}"), "must specify one of None, NoneOnDryRun");
            }
            Some(value) if !allowed.contains(&value) => {
                errors.not_supported(format!("{path}.{key}"), value, allowed);
            }
            _ => {}
        }
    }
    let timeout = number(&webhook["timeoutSeconds"]);
    if !(1..=30).contains(&timeout) {
        errors.invalid(
            format!("{path}.timeoutSeconds"),
            timeout,
            "the timeout value must be between 1 and 30 seconds",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::registry::testing::{create_errors, created, updated};

    const KIND: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";

    fn webhook() -> Value {
        json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "a", "namespace": "b"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]})
    }

    #[test]
    fn defaults() {
        let config = created(KIND, json!({"webhooks": [webhook()]}));
        assert_eq!(
            config["webhooks"][0],
            json!({"admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": "a", "namespace": "b", "port": 443}}, "failurePolicy": "Fail",
                "matchPolicy": "Equivalent", "name": "a.b.c", "namespaceSelector": {}, "objectSelector": {},
                "reinvocationPolicy": "Never", "rules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}], "sideEffects": "None",
                "timeoutSeconds": 10})
        );
        let (same, _) = updated(
            KIND,
            json!({"webhooks": [webhook()]}),
            json!({"webhooks": [webhook()]}),
        );
        assert_eq!(same["metadata"]["generation"], 1);
        let (changed, _) = updated(KIND, json!({"webhooks": [webhook()]}), json!({"webhooks": []}));
        assert_eq!(changed["metadata"]["generation"], 2);
    }

    #[test]
    fn missing_fields_are_required() {
        assert_eq!(
            create_errors(
                KIND,
                json!({"webhooks": [{"name": "a", "clientConfig": {}, "timeoutSeconds": 31}]})
            ),
            [
                "webhooks[0].name: Invalid value: \"a\": should be a domain with at least three segments separated \
                 by dots",
                "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
                "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
            ]
        );
    }
}
