//! Strategy of `ControllerRevision`, whose data is immutable.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::set_default;
use crate::registry::meta::immutable;
use crate::registry::workload::validate_counts;
use crate::registry::{Rules, names};

pub(crate) const RULES: Rules = Rules {
    name_on_update: names::subdomain_name,
    default: |revision| set_default(revision, "revision", 0),
    validate,
    validate_update: |old, new| {
        let mut errors = revision_number(new);
        errors.extend(immutable(&old["data"], &new["data"], "data"));
        errors
    },
    ..Rules::GENERIC
};

fn revision_number(revision: &Value) -> Vec<FieldError> {
    validate_counts(revision, "", &["revision"])
        .into_iter()
        .map(|error| FieldError {
            field: "revision".to_owned(),
            ..error
        })
        .collect()
}

fn validate(revision: &Value) -> Vec<FieldError> {
    let mut errors = revision_number(revision);
    match &revision["data"] {
        Value::Object(_) => {}
        Value::Null => errors.required("data", "data is mandatory"),
        _ => errors.required("data", "data must be a valid JSON object"),
    }
    errors
}
