//! Assertions on failures: their causes, and the unchanged object.

use coxswain_tests::{Cluster, Reply, reply::Cause};
use serde_json::Value;

/// Whether the messages of the server are those of 1.36. Behavior depends on the version in which it changed.
pub fn is_1_36(c: &Cluster) -> bool {
    c.version() >= (1, 36)
}

/// Asserts a 422 with exactly these causes, in this order, and that its message is made of them.
///
/// A cause is `Invalid spec.replicas: must be greater than or equal to 0`: the reason without its `FieldValue`, the
/// field, and how the message ends, as the value before it is printed differently by older servers. The server
/// validates metadata several times on updates and lists such causes as often; here each counts once.
#[track_caller]
pub fn invalid(reply: &Reply, expected: &[&str]) {
    reply.expect_error(422, "Invalid");
    let mut causes: Vec<Cause> = Vec::new();
    for cause in reply.causes() {
        if !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    let same = causes.len() == expected.len()
        && causes
            .iter()
            .zip(expected)
            .all(|(cause, expected)| matches(cause, expected));
    reply.check(same, &format!("expected the causes {expected:#?}"));

    let details = &reply.json()["details"];
    let text = |field: &str| details[field].as_str().unwrap_or_default();
    let kind = match text("group") {
        "" => text("kind").to_owned(),
        group => format!("{}.{group}", text("kind")),
    };
    let mut parts: Vec<String> = Vec::new();
    for cause in &causes {
        let part = format!("{}: {}", cause.field, cause.message);
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    let all = match &parts[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let message = format!("{kind} {:?} is invalid: {all}", text("name"));
    reply.check(
        reply.message() == message,
        &format!("expected the message {message}"),
    );
}

fn matches(cause: &Cause, expected: &str) -> bool {
    let (reason, rest) = expected.split_once(' ').unwrap_or((expected, ""));
    let (field, end) = rest.split_once(": ").unwrap_or((rest, ""));
    cause.reason == format!("FieldValue{reason}") && cause.field == field && cause.message.ends_with(end)
}

/// Asserts a 404 that names the object. `resource` is like `deployments.apps`.
#[track_caller]
pub fn not_found(reply: &Reply, resource: &str, name: &str) {
    reply.expect_error(404, "NotFound");
    let message = format!("{resource} {name:?} not found");
    reply.check(reply.message() == message, &format!("expected {message}"));
    reply.check(
        reply.json()["details"]["name"] == name,
        "expected the name in the details",
    );
}

/// Asserts a 400 whose message starts with `start`. The parser of the server writes the rest.
#[track_caller]
pub fn bad_request_starting(reply: &Reply, start: &str) {
    reply.expect_error(400, "BadRequest");
    reply.check(reply.message().starts_with(start), &format!("expected {start}"));
}

/// Asserts that the object at `path` is still exactly `before`.
pub async fn unchanged(c: &Cluster, path: &str, before: &Value) {
    assert_eq!(&c.read(path).await, before, "{path}");
}

/// Asserts that a JSON value contains another one: objects may have further fields, all other values are equal.
#[track_caller]
pub fn includes(actual: &Value, expected: &Value) {
    fn missing(actual: &Value, expected: &Value) -> bool {
        match (actual, expected) {
            (Value::Object(actual), Value::Object(expected)) => expected
                .iter()
                .any(|(key, value)| missing(actual.get(key).unwrap_or(&Value::Null), value)),
            _ => actual != expected,
        }
    }
    assert!(!missing(actual, expected), "expected {expected:#} in {actual:#}");
}
