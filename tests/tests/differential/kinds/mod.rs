//! The kinds of the sequences: a minimal object of each, and its fields with the values that steps write.
//!
//! The server accepts the good values in most states of an object. The bad ones are unusual or invalid, and rarer.

/// Lists fields: `pointer: [good values] / [bad values],`.
macro_rules! places {
    ($($at:literal: [$($good:tt)*] / [$($bad:tt)*],)*) => {
        vec![$($crate::kinds::Place {
            at: $at,
            good: $crate::kinds::values(serde_json::json!([$($good)*])),
            bad: $crate::kinds::values(serde_json::json!([$($bad)*])),
        }),*]
    };
}
pub(crate) use places;

mod config_map;
mod deployment;
mod metadata;
mod pod;
mod service;
pub mod widget;

use serde_json::{Value, json};

/// A field and the values that steps write to it.
pub struct Place {
    pub at: &'static str,
    pub good: Vec<Value>,
    pub bad: Vec<Value>,
}

/// A kind.
pub struct Kind {
    /// `/api/v1` or `/apis/<group>/<version>`.
    root: &'static str,
    plural: &'static str,
    api_version: &'static str,
    title: &'static str,
    /// The required fields besides the name.
    rest: Value,
    pub places: Vec<Place>,
    /// Bodies of strategic merge patches with directives. Empty for a kind without such patches.
    pub directives: Vec<Place>,
    /// The fields of the status subresource.
    pub status: Vec<Place>,
    pub has_scale: bool,
}

/// All kinds, each with its weight.
pub fn all() -> Vec<(usize, Kind)> {
    vec![
        (3, config_map::kind()),
        (4, deployment::kind()),
        (4, pod::kind()),
        (3, service::kind()),
        (6, widget::kind()),
    ]
}

impl Kind {
    pub fn name(&self) -> &'static str {
        self.title
    }

    /// The path of the collection in a namespace.
    pub fn path(&self, ns: &str) -> String {
        format!("{}/namespaces/{ns}/{}", self.root, self.plural)
    }

    /// A minimal valid object.
    pub fn base(&self, name: &str) -> Value {
        let mut object = self.named(name);
        for (field, value) in self.rest.as_object().into_iter().flatten() {
            object[field.as_str()] = value.clone();
        }
        object
    }

    /// Type and name only.
    pub fn named(&self, name: &str) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.title, "metadata": {"name": name}})
    }

    /// Whether its objects allocate from a small range, so that a sequence deletes them.
    pub fn is_scarce(&self) -> bool {
        self.title == "Service"
    }
}

/// The elements of a JSON list.
pub fn values(list: Value) -> Vec<Value> {
    match list {
        Value::Array(values) => values,
        one => vec![one],
    }
}

/// The fields of every object, then those of a kind.
fn with_metadata(places: Vec<Place>) -> Vec<Place> {
    let mut all = metadata::places();
    all.extend(places);
    all
}
