//! Validation of pod affinity and anti-affinity.

use serde_json::Value;

use crate::field::{FieldError, Report as _};
use crate::registry::json::{list, text};
use crate::registry::names;

/// Validates the `topologyKey` of every affinity term.
pub(crate) fn validate(affinity: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in list(&affinity[kind][required]).iter().enumerate() {
            topology(term, &format!("{path}.{kind}.{required}[{i}]"), errors);
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (i, weighed) in list(&affinity[kind][preferred]).iter().enumerate() {
            let path = format!("{path}.{kind}.{preferred}[{i}].podAffinityTerm");
            topology(&weighed["podAffinityTerm"], &path, errors);
        }
    }
}

fn topology(term: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let key = text(&term["topologyKey"]);
    let path = format!("{path}.topologyKey");
    if key.is_empty() {
        errors.required(path.as_str(), "can not be empty");
    }
    for wrong in names::qualified(key) {
        errors.invalid(path.as_str(), key, wrong);
    }
}
