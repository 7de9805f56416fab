//! `ReplicaSets` whose pods fail, are rejected, or are in a terminating namespace.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::super::checker::Rules;
use super::super::fault::Class;
use super::super::network::{self, Covers, Effect};
use super::super::schedule::Schedule;
use super::super::user::{Policy, User};
use super::workloads::{PODS, SETS, workload};

/// More than a new owner may replace at once if its pods did not run.
const EVICTED: usize = 20;

/// Returns the names of the pods under a path.
fn names(user: &mut User, resource: &str) -> Vec<String> {
    let pods = user.list(resource);
    let names = pods.iter().filter_map(|it| it["metadata"]["name"].as_str());
    names.map(ToOwned::to_owned).collect()
}

/// Pods that have run for some time fail at once, such as by the shutdown of a node.
pub(super) async fn evict(user: &mut User) {
    user.create(SETS, &workload("ReplicaSet", "a", EVICTED));
    user.wait(Duration::from_secs(30)).await;
    for name in names(user, PODS) {
        let path = format!("{PODS}/{name}/status");
        user.patch(
            &path,
            &json!({"status": {"phase": "Failed", "reason": "Terminated"}}),
        );
    }
    user.wait(Duration::from_secs(30)).await;
}

pub(super) fn rules_of_eviction(schedule: &Schedule, rules: &mut Rules) {
    rules.follows_within = within(schedule, Duration::from_secs(8));
}

/// Creates are rejected by a quota, and the readiness of a pod changes meanwhile.
pub(super) async fn quota(user: &mut User) {
    user.create(SETS, &workload("ReplicaSet", "a", 2));
    user.wait(Duration::from_secs(10)).await;
    user.begin_outage(
        Some(Class::F29),
        Covers::Creates,
        Effect::Refuse(403),
        Duration::from_secs(250),
    );
    user.patch(&format!("{SETS}/a"), &json!({"spec": {"replicas": 4}}));
    user.wait(Duration::from_mins(1)).await;
    for status in ["False", "True"] {
        for name in names(user, PODS).into_iter().take(1) {
            let conditions = json!([{"type": "Ready", "status": status}]);
            let path = format!("{PODS}/{name}/status");
            user.patch(&path, &json!({"status": {"conditions": conditions}}));
        }
        user.wait(Duration::from_mins(1)).await;
    }
}

pub(super) fn rules_of_quota(schedule: &Schedule, rules: &mut Rules) {
    rules.follows_within = within(schedule, Duration::from_secs(10));
}

/// Returns a bound that holds only if no message is delayed.
fn within(schedule: &Schedule, time: Duration) -> Option<Duration> {
    (schedule.faults.is_empty() && schedule.processes == 1 && !network::has_latency(schedule.seed))
        .then_some(time)
}

/// A namespace terminates: its pods are deleted one by one before their `ReplicaSet`.
pub(super) async fn terminating_namespace(user: &mut User) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    user.create("/api/v1/namespaces", &namespace);
    let resource = "/apis/apps/v1/namespaces/other/replicasets";
    user.create(resource, &workload("ReplicaSet", "a", 6));
    user.wait(Duration::from_secs(10)).await;
    user.request(Method::DELETE, "/api/v1/namespaces/other", &Value::Null);
    let pods = "/api/v1/namespaces/other/pods";
    for name in names(user, pods) {
        user.delete(&format!("{pods}/{name}"), Policy::Background);
        user.pause(15).await;
    }
    user.pause(30).await;
}
