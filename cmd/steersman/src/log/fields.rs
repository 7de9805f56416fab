//! The fields of an event or a span, in the order in which they were recorded.
//!
//! The field `object` is a [`LoggedObject`]. As in klog, its key is the kind in lower camel case: `replicaSet`.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Debug;

use steersman_manager::object::LoggedObject;
use tracing::field::{Field, Visit};

/// The message, and fields with unique names.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) fields: Vec<(Cow<'static, str>, Value)>,
}

#[derive(Clone)]
pub(super) enum Value {
    /// Written in quotes.
    Text(String),
    /// A number or a boolean, written without quotes.
    Bare(String),
    /// A displayed [`LoggedObject`].
    Object(String),
}

/// The name of the field of an object, and its key if the kind is unknown or the key of another field.
const OBJECT: &str = "object";

impl Fields {
    /// Adds the fields of an enclosing span whose names are not set yet.
    pub(super) fn add_missing(&mut self, outer: &Self) {
        for (name, value) in &outer.fields {
            if !self.fields.iter().any(|(known, _)| known == name) {
                self.fields.push((name.clone(), value.clone()));
            }
        }
    }

    /// Replaces an earlier value of the same name.
    fn set(&mut self, field: &Field, value: Value) {
        let name = field.name();
        let name = name.strip_prefix("r#").unwrap_or(name);
        match (name, value) {
            ("message", Value::Text(text) | Value::Bare(text) | Value::Object(text)) => self.message = text,
            (OBJECT, Value::Text(text)) => self.set_object(text),
            (name, value) => match self.fields.iter_mut().find(|(known, _)| known == name) {
                Some((known, Value::Object(_))) => {
                    *known = OBJECT.into();
                    self.fields.push((name.into(), value));
                }
                Some((_, old)) => *old = value,
                None => self.fields.push((name.into(), value)),
            },
        }
    }

    fn set_object(&mut self, text: String) {
        let Some(object) = LoggedObject::parse(&text) else {
            return self.fields.push((OBJECT.into(), Value::Text(text)));
        };
        let key = key_of(object.kind());
        let is_other =
            |(known, value): &(Cow<'_, str>, Value)| *known == key && !matches!(value, Value::Object(_));
        let key = if self.fields.iter().any(is_other) {
            OBJECT.into()
        } else {
            key
        };
        self.fields.retain(|(known, _)| *known != key);
        self.fields.push((key, Value::Object(text)));
    }
}

/// Returns a kind in lower camel case: `pod`, `apiService`. The kind of a custom resource is chosen by its author, and a key
/// of the text format is not quoted.
fn key_of(kind: &str) -> Cow<'static, str> {
    if kind.is_empty() || !kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return OBJECT.into();
    }
    let capitals = kind.bytes().take_while(u8::is_ascii_uppercase).count();
    // Of several capitals the last one starts a word.
    let lower = if capitals > 1 && capitals < kind.len() {
        capitals - 1
    } else {
        capitals
    };
    format!("{}{}", kind[..lower].to_ascii_lowercase(), &kind[lower..]).into()
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no NaN and no infinity.
        let text = value.to_string();
        self.set(
            field,
            if value.is_finite() {
                Value::Bare(text)
            } else {
                Value::Text(text)
            },
        );
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::Bare(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Value::Bare(value.to_string()));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.set(field, Value::Bare(value.to_string()));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.set(field, Value::Bare(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Value::Bare(value.to_string()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, Value::Text(value.to_owned()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.set(field, Value::Text(value.to_string()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, Value::Text(format!("{value:?}")));
    }
}
