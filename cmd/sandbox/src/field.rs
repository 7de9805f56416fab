//! Field errors of validation. Mirrors `field.Error` of apimachinery.
//!
//! They become the `causes` and the message of a 422 `Invalid` status.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use crate::json::Value;

/// The type of a field error.
#[derive(Debug, Clone, PartialEq)]
pub enum Wrong {
    /// A required field is missing or empty.
    Required,
    Invalid(Value),
    /// The value has another type.
    TypeInvalid(Value),
    /// The value violates a rule, and the message leaves it out.
    InvalidHidden,
    /// The value is a duplicate in its list.
    Duplicate(Value),
    /// A duplicate whose message leaves out the value.
    DuplicateHidden,
    /// The value is not one of the supported values.
    NotSupported(Value, Vec<Cow<'static, str>>),
    Forbidden,
    /// The value is too long; the limit in bytes or characters.
    TooLong(usize),
    /// The list has too many items: their number and the limit.
    TooMany(usize, usize),
    /// A referenced value was not found.
    NotFound(Value),
}

/// A field error.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The path, such as `spec.template.spec.containers[0].name`.
    pub field: String,
    pub wrong: Wrong,
    /// The detail; may be empty.
    pub detail: String,
}

/// Adds errors to a list.
pub(crate) trait Report {
    /// Adds an error of any type.
    fn report(&mut self, field: impl Into<String>, wrong: Wrong, detail: impl Into<String>);

    fn required(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.report(field, Wrong::Required, detail);
    }

    fn invalid(&mut self, field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) {
        self.report(field, Wrong::Invalid(value.into()), detail);
    }

    fn duplicate(&mut self, field: impl Into<String>, value: impl Into<Value>) {
        self.report(field, Wrong::Duplicate(value.into()), "");
    }

    fn not_found(&mut self, field: impl Into<String>, value: impl Into<Value>) {
        self.report(field, Wrong::NotFound(value.into()), "");
    }

    fn not_supported(&mut self, field: impl Into<String>, value: impl Into<Value>, known: &[&'static str]) {
        let known = known.iter().map(|one| Cow::Borrowed(*one)).collect();
        self.report(field, Wrong::NotSupported(value.into(), known), "");
    }

    fn forbidden(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.report(field, Wrong::Forbidden, detail);
    }

    /// Adds an error for each violation of a format.
    fn format(&mut self, field: impl Into<String> + Copy, value: &str, format: fn(&str) -> Vec<String>) {
        for violation in format(value) {
            self.invalid(field, value, violation);
        }
    }
}

impl Report for Vec<FieldError> {
    fn report(&mut self, field: impl Into<String>, wrong: Wrong, detail: impl Into<String>) {
        self.push(FieldError::new(field, wrong, detail));
    }
}

/// Removes duplicate errors, and keeps the order.
pub fn distinct(mut errors: Vec<FieldError>) -> Vec<FieldError> {
    if errors.len() > 1 {
        let mut seen = BTreeSet::new();
        errors.retain(|error| seen.insert(format!("{error:?}")));
    }
    errors
}

/// Constructors of the common errors.
impl FieldError {
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, Wrong::Required, detail)
    }

    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(field, Wrong::Invalid(value.into()), detail)
    }

    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, Wrong::Duplicate(value.into()), "")
    }

    /// The value is not one of `allowed`.
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

    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, Wrong::Forbidden, detail)
    }

    /// The value is longer than `limit`.
    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        Self::new(field, Wrong::TooLong(limit), "")
    }

    /// An error of any type.
    pub fn new(field: impl Into<String>, wrong: Wrong, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            wrong,
            detail: detail.into(),
        }
    }

    /// Returns the reason of the cause.
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

    /// Returns the message without the path, as in a cause.
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

/// Strings in quotes, other values as compact JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(s) => format!("{s:?}"),
        other => other.to_string(),
    }
}
/// Returns the JSON type of a value, as messages name it.
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
