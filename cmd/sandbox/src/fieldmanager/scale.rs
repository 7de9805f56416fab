//! Managers of the replica count, converted for the scale subresource.
//!
//! The field manager tracks a Scale like any other object. The managers that own the replica count of the scaled object
//! become managers of the Scale, and the managers of the written Scale are converted back.

use crate::fieldmanager::entries::Entry;
use crate::fieldmanager::{entries, fields};
use crate::json::Value;
use crate::resource::{Resource, Scale};

const VERSION: &str = "autoscaling/v1";
const REPLICAS: [&str; 2] = ["f:spec", "f:replicas"];

fn path(paths: &Scale) -> Vec<String> {
    let parts = paths.spec_replicas.split('.');
    parts.map(|part| format!("f:{part}")).collect()
}

/// Returns the managers of the Scale of an object.
#[must_use]
pub fn to_scale(paths: &Scale, managed: &Value) -> Value {
    let path = path(paths);
    let mut of_scale = entries::read(managed).unwrap_or_default();
    of_scale.retain(|entry| fields::contains(&entry.fields, &path));
    for entry in &mut of_scale {
        entry.api_version = VERSION.into();
        entry.fields = fields::one(&REPLICAS);
    }
    entries::write(of_scale)
}

/// Returns the managers of an object after a write to its Scale.
#[must_use]
pub fn from_scale(res: &Resource, paths: &Scale, managed: &Value, scale: &Value) -> Value {
    let path = path(paths);
    let borrowed: Vec<&str> = path.iter().map(String::as_str).collect();
    let replicas = fields::one(&borrowed);
    let mut of_scale = entries::read(scale).unwrap_or_default();
    let mut all: Vec<Entry> = Vec::new();
    for mut entry in entries::read(managed).unwrap_or_default() {
        if fields::contains(&entry.fields, &path) {
            let before = of_scale.len();
            of_scale.retain(|other| !other.is_of(&entry));
            if of_scale.len() == before {
                fields::subtract(&mut entry.fields, &replicas);
            }
        }
        if !entry.fields.is_empty() {
            all.push(entry);
        }
    }
    of_scale.retain(|entry| fields::contains(&entry.fields, &REPLICAS));
    // Like the API server, these entries have no timestamp.
    all.extend(of_scale.into_iter().map(|entry| Entry {
        api_version: res.api_version().into(),
        time: None,
        fields: replicas.clone(),
        ..entry
    }));
    entries::write(all)
}
