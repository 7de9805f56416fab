//! The kinds that sequences are about: the least object of each, and the places in it with what may be written there.
//!
//! Good values are taken by the server in most states of an object; bad ones are odd or wrong, and are written more rarely.

mod config_map;
mod deployment;
mod metadata;
mod pod;
mod service;
pub mod widget;

use serde_json::{Value, json};

/// A place in an object, and what may be written there.
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
    /// What an object needs besides its name.
    rest: Value,
    pub places: Vec<Place>,
    /// Bodies of strategic patches that use its directives; none where there are no such patches.
    pub directives: Vec<Place>,
    /// In the status, where it is written on its own.
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

    /// The least object that the server takes.
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

    /// Whether its objects take something that the server has little of.
    pub fn is_scarce(&self) -> bool {
        self.title == "Service"
    }
}

fn list(values: Value) -> Vec<Value> {
    match values {
        Value::Array(values) => values,
        one => vec![one],
    }
}

/// The values are two JSON lists.
fn place(at: &'static str, good: Value, bad: Value) -> Place {
    Place {
        at,
        good: list(good),
        bad: list(bad),
    }
}

/// The places of a pod's spec, below a pointer to it.
fn with_metadata(places: Vec<Place>) -> Vec<Place> {
    let mut all = metadata::places();
    all.extend(places);
    all
}
