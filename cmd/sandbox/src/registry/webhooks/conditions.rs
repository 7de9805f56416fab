//! Validation of the match conditions of a webhook.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::apiextensions::structural::check_condition;
use crate::field::{FieldError, Report as _, Wrong};
use crate::registry::json::{list, text};
use crate::registry::names;

const MOST: usize = 64;

pub(crate) fn validate(conditions: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let conditions = list(conditions);
    if conditions.len() > MOST {
        errors.push(FieldError::new(path, Wrong::TooMany(conditions.len(), MOST), ""));
    }
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let expression = text(&condition["expression"]).trim();
        let at = format!("{path}[{i}].expression");
        if expression.is_empty() {
            errors.required(at, "");
        } else if let Err(why) = check_condition(expression) {
            errors.invalid(at, expression, why);
        }
        let name = text(&condition["name"]);
        let at = format!("{path}[{i}].name");
        if name.is_empty() {
            errors.required(at, "");
            continue;
        }
        for wrong in names::qualified(name) {
            errors.invalid(at.as_str(), name, wrong);
        }
        if !seen.insert(name) {
            errors.duplicate(at, name);
        }
    }
}
