//! Field errors: what is wrong with one field of an object, in the words that clients match on.
//!
//! A list of these becomes the `causes` and the message of a 422 `Invalid` status.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Wrong {
    /// A required field is missing or empty.
    Required,
    /// The value breaks a rule.
    Invalid(Value),
    /// The value is of another type.
    TypeInvalid(Value),
    /// The value breaks a rule, and would say less than the detail does.
    InvalidHidden,
    /// The value must be unique in its list, and is not.
    Duplicate(Value),
    /// The same, of a value that would say less than its place does.
    DuplicateHidden,
    /// The value is none of those that are allowed.
    NotSupported(Value, Vec<Cow<'static, str>>),
    /// The field may not be set (or changed) here.
    Forbidden,
    /// The value is too long; the limit in bytes or characters.
    TooLong(usize),
    /// The list has too many items: how many there are, and how many may be.
    TooMany(usize, usize),
    /// Something else refers to this value, and it was not found.
    NotFound(Value),
}

/// One wrong field: where, what, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The path, such as `spec.template.spec.containers[0].name`.
    pub field: String,
    /// What is wrong.
    pub wrong: Wrong,
    /// Why, in a few words; may be empty.
    pub detail: String,
}

/// The same thing is only said once; the rest keeps its order.
#[must_use]
pub fn distinct(mut errors: Vec<FieldError>) -> Vec<FieldError> {
    if errors.len() > 1 {
        let mut seen = BTreeSet::new();
        errors.retain(|error| seen.insert(format!("{error:?}")));
    }
    errors
}

/// `FieldError::invalid` and friends, so that rules read as one line.
impl FieldError {
    /// A required field is missing.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, Wrong::Required, detail)
    }

    /// The value breaks a rule.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(field, Wrong::Invalid(value.into()), detail)
    }

    /// The value stands twice in its list.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, Wrong::Duplicate(value.into()), "")
    }

    /// The value is none of `allowed`.
    pub fn not_supported(
        field: impl Into<String>,
        value: impl Into<Value>,
        allowed: &[&'static str],
    ) -> Self {
        Self::new(
            field,
            Wrong::NotSupported(
                value.into(),
                allowed.iter().map(|one| Cow::Borrowed(*one)).collect(),
            ),
            "",
        )
    }

    /// The field may not be set or changed.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, Wrong::Forbidden, detail)
    }

    /// The value is longer than `limit`.
    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        Self::new(field, Wrong::TooLong(limit), "")
    }

    /// Any other combination.
    pub fn new(field: impl Into<String>, wrong: Wrong, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            wrong,
            detail: detail.into(),
        }
    }

    /// The machine-readable reason of the cause.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.wrong {
            Wrong::Required => "FieldValueRequired",
            Wrong::Invalid(_) | Wrong::InvalidHidden => "FieldValueInvalid",
            Wrong::TypeInvalid(_) => "FieldValueTypeInvalid",
            Wrong::Duplicate(_) | Wrong::DuplicateHidden => "FieldValueDuplicate",
            Wrong::NotSupported(..) => "FieldValueNotSupported",
            Wrong::Forbidden => "FieldValueForbidden",
            Wrong::TooLong(_) => "FieldValueTooLong",
            Wrong::TooMany(..) => "FieldValueTooMany",
            Wrong::NotFound(_) => "FieldValueNotFound",
        }
    }

    /// The message without the field's path, as it stands in a cause.
    #[must_use]
    pub fn body(&self) -> String {
        let head = match &self.wrong {
            Wrong::Required => "Required value".to_owned(),
            Wrong::Forbidden => "Forbidden".to_owned(),
            Wrong::InvalidHidden => "Invalid value".to_owned(),
            Wrong::DuplicateHidden => "Duplicate value".to_owned(),
            Wrong::Invalid(value) | Wrong::TypeInvalid(value) => format!("Invalid value: {}", shown(value)),
            Wrong::Duplicate(value) => format!("Duplicate value: {}", shown(value)),
            Wrong::NotFound(value) => format!("Not found: {}", shown(value)),
            Wrong::NotSupported(value, allowed) => {
                let allowed: Vec<String> = allowed.iter().map(|a| format!("{a:?}")).collect();
                format!(
                    "Unsupported value: {}: supported values: {}",
                    shown(value),
                    allowed.join(", ")
                )
            }
            Wrong::TooLong(limit) => {
                format!(
                    "Too long: may not be more than {limit} {}",
                    plural(*limit, "byte")
                )
            }
            Wrong::TooMany(actual, limit) => {
                format!(
                    "Too many: {actual}: must have at most {limit} {}",
                    plural(*limit, "item")
                )
            }
        };
        if self.detail.is_empty() {
            head
        } else {
            format!("{head}: {}", self.detail)
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// `1 byte`, `2 bytes`.
fn plural(count: usize, noun: &str) -> String {
    if count == 1 {
        noun.to_owned()
    } else {
        format!("{noun}s")
    }
}

/// Strings in quotes, everything else as compact JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(s) => format!("{s:?}"),
        other => other.to_string(),
    }
}
/// The JSON type of a value, as messages name it.
#[must_use]
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
