//! Server-side apply, and the managers of fields that every write leaves behind.
//!
//! Since 1.22 the managers of a subresource are told apart from those of the object; before, servers name no subresource.

mod basics;
mod conflicts;
mod created;
mod custom;
mod invalid;
mod kubectl;
mod last_applied;
mod lists;
mod managers;
mod subresources;
mod yaml;

use coxswain_tests::{Cluster, Reply, Test};
use serde_json::{Value, json};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        basics::tests(),
        conflicts::tests(),
        created::tests(),
        custom::tests(),
        invalid::tests(),
        kubectl::tests(),
        last_applied::tests(),
        lists::tests(),
        managers::tests(),
        subresources::tests(),
        yaml::tests(),
    ]
    .concat()
}

const APPLY: &str = "application/apply-patch+yaml";

/// Applies a configuration as a manager; `options` are more parameters, such as `&force=true`.
async fn apply(c: &Cluster, path: &str, manager: &str, options: &str, config: &Value) -> Reply {
    let path = format!("{path}?fieldManager={manager}{options}");
    c.api().patch(&path, APPLY, config).await
}

/// A config map to apply, with this data.
fn map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

/// The fields of a manager, by its name, operation and subresource (`Update status`); null if it has none.
fn fields(object: &Value, manager: &str, how: &str) -> Value {
    let (operation, subresource) = how.split_once(' ').unwrap_or((how, ""));
    let entries = object["metadata"]["managedFields"].as_array();
    let entry = entries.into_iter().flatten().find(|entry| {
        entry["manager"] == manager
            && entry["operation"] == operation
            && entry["subresource"].as_str().unwrap_or_default() == subresource
    });
    entry.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

/// The names of the managers, in their order.
fn managers(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    entries.filter_map(|entry| entry["manager"].as_str()).collect()
}
