//! The strategy of custom resources. Mirrors `apiextensions-apiserver/pkg/registry/customresource`.

use crate::field::{FieldError, Report, json_type};
use crate::json::Value;
use crate::registry::Rules;
use crate::registry::json::{keep, keep_meta, set, text};
use crate::resource::Resource;

/// The rules of custom resources: updates need a resourceVersion.
pub(crate) const RULES: Rules = Rules {
    generation: Some(changed),
    unconditional_update: false,
    ..Rules::GENERIC
};

/// Drops the status of a new object, if there is a status subresource.
pub(crate) fn prepare_create(res: &Resource, obj: &mut Value) {
    if res.status {
        crate::registry::json::remove(obj, "status");
    }
}

pub(crate) fn validate_create(res: &Resource, obj: &Value, errors: &mut Vec<FieldError>) {
    if let Some(custom) = &res.custom {
        validate_scale(res, obj, errors);
        custom.schema.validate_create(obj, errors);
    }
}

pub(crate) fn validate_update(res: &Resource, old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    if let Some(custom) = res.custom.as_ref().filter(|_| has_version(res, new, errors)) {
        validate_scale(res, new, errors);
        custom.schema.validate_update(old, new, errors);
    }
}

pub(crate) fn validate_status(res: &Resource, old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    if let Some(custom) = res.custom.as_ref().filter(|_| has_version(res, new, errors)) {
        validate_scale_status(res, new, errors);
        custom.schema.validate_status(old, new, errors);
    }
}

/// Replicas of the scale subresource must be valid for a Scale.
fn validate_scale(res: &Resource, obj: &Value, errors: &mut Vec<FieldError>) {
    if let Some(scale) = &res.scale {
        validate_number(&scale.spec_replicas, obj, errors);
    }
    validate_scale_status(res, obj, errors);
}

fn validate_scale_status(res: &Resource, obj: &Value, errors: &mut Vec<FieldError>) {
    let Some(scale) = &res.scale else {
        return;
    };
    validate_number(&scale.status_replicas, obj, errors);
    if let Some(path) = &scale.selector {
        let wrong = match found(path, obj) {
            Ok(Some(value)) if !value.is_string() => not_a(path, value, "string"),
            Ok(_) => return,
            Err(wrong) => wrong,
        };
        errors.invalid(format!(".{path}"), "", wrong);
    }
}

fn validate_number(path: &str, obj: &Value, errors: &mut Vec<FieldError>) {
    let (number, wrong) = match found(path, obj) {
        Ok(None) => return,
        Ok(Some(value)) => match value.as_i64() {
            None => (0, not_a(path, value, "integer")),
            Some(number) if number < 0 => (number, "should be a non-negative integer".to_owned()),
            Some(number) if number > i64::from(i32::MAX) => {
                (number, format!("should be less than or equal to {}", i32::MAX))
            }
            Some(_) => return,
        },
        Err(wrong) => (0, wrong),
    };
    errors.invalid(format!(".{path}"), number, wrong);
}

/// Returns the value of a dotted path if it exists, or the error of a parent that is not an object.
fn found<'v>(path: &str, obj: &'v Value) -> std::result::Result<Option<&'v Value>, String> {
    let mut here = obj;
    let mut end = 0;
    for part in path.split('.') {
        end += part.len();
        here = match here {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(part) {
                Some(value) => value,
                None => return Ok(None),
            },
            other => return Err(not_a(&path[..end], other, "object")),
        };
        end += 1;
    }
    Ok(Some(here))
}

fn not_a(path: &str, value: &Value, wanted: &str) -> String {
    format!(".{path}: expected {wanted}, found {}", json_type(value))
}

/// Whether the apiVersion is the resource's; reports another one.
fn has_version(res: &Resource, obj: &Value, errors: &mut Vec<FieldError>) -> bool {
    let (version, expected) = (text(&obj["apiVersion"]), res.api_version());
    let fits = version.is_empty() || version == expected;
    if !fits {
        errors.invalid("apiVersion", version, format!("must be {expected}"));
    }
    fits
}

/// Whether the change counts for the generation: any change outside of the metadata. With a status subresource, the update
/// has restored the status before.
fn changed(old: &Value, new: &Value) -> bool {
    let relevant = |obj: &Value| {
        let mut obj = obj.clone();
        crate::registry::json::remove(&mut obj, "metadata");
        obj
    };
    relevant(old) != relevant(new)
}

/// Keeps everything but the status.
pub(crate) fn prepare_status(old: &Value, new: &mut Value) {
    let sent = new.clone();
    *new = old.clone();
    keep(&sent, new, "status");
    keep_meta(&sent, new, "managedFields");
    // The version of the client, which may differ from the stored one.
    for key in ["apiVersion", "kind"] {
        if !sent[key].is_null() {
            set(new, key, sent[key].clone());
        }
    }
}
