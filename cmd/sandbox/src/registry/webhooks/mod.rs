//! Strategies of the webhook configurations.

pub(crate) mod client;
pub(crate) mod conditions;
pub(crate) mod rule;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{list, text};
use crate::registry::{Rules, names};
use crate::schema::Path;

pub(crate) const RULES: Rules = Rules {
    name_on_update: names::subdomain_name,
    generation: Some(|old, new| old["webhooks"] != new["webhooks"]),
    unconditional_update: false,
    ..Rules::GENERIC
};

/// Validates the name, match conditions and review versions of a webhook.
pub(crate) fn validate(webhook: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let name = text(&webhook["name"]);
    if names::dns_subdomain(name).is_empty() && name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.invalid(&path.key("name"), name, why);
    }
    conditions::validate_number(&webhook["matchConditions"], path, errors);
    let (versions, path) = (
        &webhook["admissionReviewVersions"],
        path.key("admissionReviewVersions"),
    );
    let mut seen = BTreeSet::new();
    for (i, version) in list(versions).iter().map(text).enumerate() {
        if !seen.insert(version) {
            errors.invalid(&path.index(i), version, "duplicate version");
        }
    }
    if !seen.is_empty() && !seen.contains("v1") && !seen.contains("v1beta1") {
        let why = "must include at least one of v1, v1beta1";
        errors.invalid(&path, versions.clone(), why);
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
