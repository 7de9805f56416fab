//! Objects of the tests, and assertions about objects, watches and state that a server reaches with a delay.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_harness::{Cluster, Reply, Watch, time};

pub use steersman_harness::fixtures::{JSON_PATCH, MERGE, core, group as of, named as object, pod, with};

/// A finalizer that no controller removes.
pub const HOLD: &str = "example.com/hold";

pub fn config_map(name: &str) -> Value {
    object("v1", "ConfigMap", name)
}

/// Adds a finalizer, so that a deletion only sets the deletionTimestamp.
pub fn held(object: Value) -> Value {
    with(object, json!({"metadata": {"finalizers": [HOLD]}}))
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    texts(&object["metadata"]["finalizers"])
}

/// The strings of a list. Empty if the list is missing.
pub fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The resourceVersion as a number. Tests compare versions of one server.
#[track_caller]
pub fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    let parsed = text.and_then(|text| text.parse().ok());
    parsed.unwrap_or_else(|| panic!("no resourceVersion: {object:#}"))
}

/// The names of the items of a list, in order.
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

/// Returns all events until the server ends the stream.
pub async fn until_end(watch: &mut Watch) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(event) = watch.next(time::ANSWER).await {
        events.push(event);
    }
    assert!(watch.has_ended(), "the stream did not end");
    events
}

/// The limit of [`soon`]. Controllers of a real server can pause for half a minute after a group is deleted.
pub const SOON: Duration = Duration::from_mins(2);

/// Polls until `ask` returns a value.
#[track_caller]
pub fn soon<T, F: AsyncFnMut() -> Option<T>>(what: &str, ask: F) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let answer = time::eventually(SOON, ask).await;
        answer.unwrap_or_else(|| panic!("{what}: not in time, at {caller}"))
    }
}

/// Asserts a 403 with this message.
#[track_caller]
pub fn forbidden(reply: &Reply, message: &str) {
    reply.expect_error(403, "Forbidden");
    reply.check(reply.message() == message, &format!("expected {message}"));
}

/// Asserts that the object at `path` is still exactly `before`.
pub async fn unchanged(c: &Cluster, path: &str, before: &Value) {
    assert_eq!(&c.read(path).await, before, "{path}");
}
