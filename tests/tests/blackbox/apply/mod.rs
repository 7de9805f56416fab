//! Server-side apply with kubectl, and managers that a server merges by time.

mod kubectl;

use coxswain_tests::{Cluster, Test, fixtures::core, test};
use serde_json::{Value, json};

/// The tests of this folder.
pub fn tests() -> Vec<Test> {
    [
        kubectl::tests(),
        vec![test!(managers_over_10_are_merged).since(1, 36)],
    ]
    .concat()
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

async fn managers_over_10_are_merged(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    c.create(&core(&ns, "configmaps?fieldManager=m0"), map(&json!({"k0": "1"})))
        .await;
    for n in 1..12 {
        let body = json!({"data": {format!("k{n}"): "1"}});
        c.merge(&format!("{path}?fieldManager=m{n}"), body).await;
    }
    let all = c.read(&path).await;
    assert_eq!(managers(&all).len(), 10);
    let ancient = fields(&all, "ancient-changes", "Update");
    assert_eq!(ancient["f:data"]["f:k0"], json!({}), "{all:#}");
    assert_eq!(fields(&all, "m11", "Update"), json!({"f:data": {"f:k11": {}}}));
}
