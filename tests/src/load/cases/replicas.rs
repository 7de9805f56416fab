//! One large `ReplicaSet`.

use std::time::Duration;

use super::super::Load;
use super::super::cluster::{PODS, Policy, REPLICA_SETS, replica_set};
use super::super::requests::Verb;
use serde_json::json;

/// Bound on the heap bytes of a pod in the caches of all controllers, in the graph, and in requests.
const BYTES: u64 = 8192;

pub(super) async fn run(load: &mut Load) {
    let count = load.scaled(5_000);
    let half = count / 2;
    let cluster = load.cluster.clone();
    let path = format!("{REPLICA_SETS}/web");
    load.report.objects = count;
    load.start("*,hollow-kubelet", "nodes", 10).await;
    cluster.create(REPLICA_SETS, || replica_set("web", count)).await;
    ready(load, count).await;
    load.settle("creation").await;
    cluster.patch(&path, &json!({"spec": {"replicas": half}})).await;
    ready(load, half).await;
    load.settle("scaling to half").await;
    cluster.delete(&path, Policy::Background).await;
    load.until("all pods are deleted", async |load| {
        load.cluster.count(PODS).await == 0
    })
    .await;
    load.settle("deletion").await;
    let by = |sender: &'static str, verb: Verb, of: &'static str| {
        load.requests()
            .sum(|it, its, resource| it == sender && its == verb && resource == of)
    };
    let posts = by("replicaset-controller", Verb::Post, "pods");
    let deletes = by("replicaset-controller", Verb::Delete, "pods");
    let collected = by("generic-garbage-collector", Verb::Delete, "pods");
    load.bound("pods created", posts, count);
    load.bound("pods deleted by scaling", deletes, count - half);
    load.bound("pods collected", collected, half);
    // The pod and its binding by hollow-kubelet; the nodes.
    load.limit(Verb::Post, 2 * count + 10);
    // A second request confirms the end of each pod.
    load.limit(Verb::Delete, 2 * count);
    // The status of each pod and node, and of the ReplicaSet.
    load.limit(Verb::Patch, count + 10 + status_writes(load));
    load.limit(Verb::Put, status_writes(load));
    load.limit(Verb::Event, 200 + count / 10);
    load.limit(Verb::List, 20);
    load.memory_limit = count * BYTES;
    // hollow-kubelet has five workers, and sends two requests for each pod.
    load.time_limit = Duration::from_secs(10 + count / 100);
}

/// Bound on the number of writes of the status of the `ReplicaSet`: while it changes, it is written every 100 ms.
fn status_writes(load: &Load) -> u64 {
    10 + 10 * load.report.virtual_time.as_secs()
}

async fn ready(load: &mut Load, count: u64) {
    load.until("all pods are ready", async |load| {
        let set = load.cluster.get(&format!("{REPLICA_SETS}/web")).await;
        let of = |field: &str| set["status"][field].as_u64().unwrap_or(0);
        of("replicas") == count && of("readyReplicas") == count && load.cluster.count(PODS).await == count
    })
    .await;
}
