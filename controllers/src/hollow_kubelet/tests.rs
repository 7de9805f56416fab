//! Tests of the plan.

mod nodes;
mod status;
mod steps;

use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::{self, NO_NODE_RETRY, NodeStep, PodStep};
use super::{FAIL, LABEL, Node, Nodes, Options, Pod};

const NOW: i64 = 1_800_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).expect("a time")
}

fn ago(seconds: i64) -> String {
    steersman_manager::time::rfc3339(Timestamp::from_second(NOW - seconds).expect("a time"))
}

fn at_once() -> Options {
    Options {
        delay: Duration::ZERO,
        ..Options::default()
    }
}

fn node(value: Value) -> Node {
    serde_json::from_value(value).expect("a node")
}

fn hollow(name: &str) -> Node {
    node(json!({
        "metadata": {"name": name, "uid": "n", "resourceVersion": "2", "labels": {LABEL: "true"}},
        "status": {"addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "10.0.0.9"}]},
    }))
}

fn foreign(name: &str) -> Node {
    node(json!({"metadata": {"name": name, "labels": {LABEL: "false"}}}))
}

fn cluster_nodes() -> Nodes {
    Nodes::of([&hollow("ours")])
}

/// A pod on the node `ours`, with `more` merged into it.
fn pod(more: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": "u", "resourceVersion": "300",
            "creationTimestamp": ago(60)},
        "spec": {"nodeName": "ours", "containers": [{"name": "main", "image": "app:1"}]},
        "status": {"phase": "Pending"},
    });
    merge(&mut pod, more);
    serde_json::from_value(pod).expect("a pod")
}

fn merge(into: &mut Value, more: &Value) {
    match (into.as_object_mut(), more) {
        (Some(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        _ => *into = more.clone(),
    }
}

fn planned(pod: &Pod) -> PodStep {
    plan::pod(pod, &cluster_nodes(), |_| false, &at_once(), now())
}

/// The planned status.
fn status(pod: &Pod) -> Value {
    match planned(pod) {
        PodStep::Status(patch) => patch["status"].clone(),
        other => panic!("no status but {other:?}"),
    }
}

/// The conditions as `type: status (reason)`.
fn conditions(status: &Value) -> Vec<String> {
    let list = status["conditions"].as_array().expect("conditions");
    let one = |it: &Value| {
        let text = |field: &str| it[field].as_str().unwrap_or("-").to_owned();
        format!("{}: {} ({})", text("type"), text("status"), text("reason"))
    };
    list.iter().map(one).collect()
}

/// The containers as `name: state`.
fn containers(status: &Value, field: &str) -> Vec<String> {
    let one = |it: &Value| {
        let (kind, state) = it["state"]
            .as_object()
            .and_then(|it| it.iter().next())
            .expect("a state");
        let reason = state["reason"]
            .as_str()
            .map(|it| format!(" {it}"))
            .unwrap_or_default();
        let ready = if it["ready"] == true { ", ready" } else { "" };
        format!("{}: {kind}{reason}{ready}", it["name"].as_str().expect("a name"))
    };
    status[field].as_array().into_iter().flatten().map(one).collect()
}
