//! The fields of an event or a span, in the order in which they were recorded.

use std::error::Error;
use std::fmt::Debug;

use tracing::field::{Field, Visit};

/// The message, and fields with unique names.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) fields: Vec<(&'static str, Value)>,
}

#[derive(Clone)]
pub(super) enum Value {
    /// Written in quotes.
    Text(String),
    /// A number or a boolean, written without quotes.
    Bare(String),
}

impl Fields {
    /// Adds the fields of an enclosing span whose names are not set yet.
    pub(super) fn add_missing(&mut self, outer: &Self) {
        for (name, value) in &outer.fields {
            if !self.fields.iter().any(|(known, _)| known == name) {
                self.fields.push((name, value.clone()));
            }
        }
    }

    /// Replaces an earlier value of the same name.
    fn set(&mut self, field: &Field, value: Value) {
        let name = field.name();
        let name = name.strip_prefix("r#").unwrap_or(name);
        match (name, value) {
            ("message", Value::Text(text) | Value::Bare(text)) => self.message = text,
            (name, value) => match self.fields.iter_mut().find(|(known, _)| *known == name) {
                Some((_, old)) => *old = value,
                None => self.fields.push((name, value)),
            },
        }
    }
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
