//! Strategies of the webhook configurations.

pub(crate) mod client;
pub(crate) mod conditions;
pub(crate) mod rule;

use std::collections::BTreeSet;

use crate::field::{FieldError, Report as _};
use crate::json::Value;
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
