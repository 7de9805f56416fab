//! Objects to send, paths to send them to, and what the surfaces about deletion, lists, watches and CRDs ask of an answer.

use std::time::Duration;

use coxswain_tests::{Cluster, Watch, time};
use serde_json::{Value, json};

/// Content types of patches.
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";

/// A finalizer that nobody handles.
pub const HOLD: &str = "example.com/hold";

/// The path of a core resource in a namespace.
pub fn core(ns: &str, resource: &str) -> String {
    format!("/api/v1/namespaces/{ns}/{resource}")
}

/// The path of a resource of another group in a namespace: `of("apps/v1", ns, "deployments")`.
pub fn of(group_version: &str, ns: &str, resource: &str) -> String {
    format!("/apis/{group_version}/namespaces/{ns}/{resource}")
}

/// An object that has a name and nothing else.
pub fn object(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

/// The object with the field at a JSON pointer set; what is missing on the way is created.
pub fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let mut place = &mut object;
    for step in pointer.split('/').skip(1) {
        place = match step.parse::<usize>() {
            Ok(index) if place.is_array() => &mut place[index],
            _ => &mut place[step],
        };
    }
    *place = value;
    object
}

pub fn config_map(name: &str) -> Value {
    object("v1", "ConfigMap", name)
}

/// With a finalizer, so that a deletion only marks it.
pub fn held(object: Value) -> Value {
    with(object, "/metadata/finalizers", json!([HOLD]))
}

pub fn labelled(object: Value, labels: Value) -> Value {
    with(object, "/metadata/labels", labels)
}

/// Bound to no node.
pub fn pod(name: &str) -> Value {
    with(object("v1", "Pod", name), "/spec", pod_spec())
}

fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}]})
}

/// A pod template whose labels are `a=b`.
pub fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": pod_spec()})
}

pub fn deployment(name: &str) -> Value {
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template()});
    with(object("apps/v1", "Deployment", name), "/spec", spec)
}

/// Creates an object and returns it as the server has it.
pub async fn create(c: &Cluster, path: &str, object: &Value) -> Value {
    c.api().post(path, object).await.expect(201)
}

/// Asserts that there is no such object.
pub async fn assert_gone(c: &Cluster, path: &str) {
    c.api().get(path).await.expect_error(404, "NotFound");
}

/// The finalizers, or an empty list.
pub fn finalizers(object: &Value) -> Vec<&str> {
    texts(&object["metadata"]["finalizers"])
}

/// A list of texts, or an empty list where there is none.
pub fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The resource version as a number; the tests compare them as the server makes them.
#[track_caller]
pub fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    let parsed = text.and_then(|text| text.parse().ok());
    parsed.unwrap_or_else(|| panic!("no resourceVersion: {object:#}"))
}

/// The names of a list's items, in its order.
#[track_caller]
pub fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array();
    let items = items.unwrap_or_else(|| panic!("no items: {list:#}"));
    items.iter().map(name).collect()
}

pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// `TYPE name` of the next events, in their order.
pub async fn lines(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..count {
        let event = watch.event().await;
        let kind = event["type"].as_str().unwrap_or_default();
        lines.push(format!("{kind} {}", name(&event["object"])));
    }
    lines
}

/// All events until the server ends the stream.
pub async fn until_end(watch: &mut Watch) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(event) = watch.next(time::ANSWER).await {
        events.push(event);
    }
    assert!(watch.has_ended(), "the stream did not end");
    events
}

/// How long [`soon`] waits. A real server's controllers may rest for half a minute while they look for kinds that have gone.
pub const SOON: Duration = Duration::from_mins(2);

/// Waits until `ask` has an answer.
#[track_caller]
pub fn soon<T, F: AsyncFnMut() -> Option<T>>(what: &str, ask: F) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let answer = time::eventually(SOON, ask).await;
        answer.unwrap_or_else(|| panic!("{what}: not in time, at {caller}"))
    }
}
