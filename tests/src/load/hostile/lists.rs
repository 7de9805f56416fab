//! Lists whose pages do not arrive in time, or do not fit.

use std::time::Duration;

use serde_json::json;

use super::super::Load;
use super::super::cluster::map;
use super::{OBJECT_BYTES, OTHER, TENANT, path, replica_set};

/// The bandwidth in bytes per second. One object arrives in five seconds, and a page of ten not before the deadline of a read.
const BANDWIDTH: u64 = 2_000_000;
/// Bound on the heap bytes of an object: 300 MB for 95 objects.
const BYTES: u64 = 300_000_000 / 95;

pub(super) async fn run(load: &mut Load) {
    load.prepare_hostile().await;
    let count = load.scaled(95);
    let cluster = load.cluster.clone();
    let sets = path("replicasets", TENANT);
    for n in 0..count {
        let make = || replica_set(&format!("large-{n}"), &json!(["<".repeat(OBJECT_BYTES)]));
        cluster.create(&sets, make).await;
    }
    load.report.objects = count;
    load.memory_limit = count * BYTES;
    load.start_hostile();
    load.product().connection.limit_bandwidth(BANDWIDTH);
    // Other kinds do not wait for the list.
    load.sleep(Duration::from_secs(10)).await;
    let absent = json!([{"apiVersion": "v1", "kind": "Secret", "name": "a", "uid": "d6f6f0a2-93c5-4e44-8f4a-000000000001"}]);
    let maps = path("configmaps", OTHER);
    cluster.create(&maps, || map("garbage", &absent)).await;
    load.within(
        "garbage of another tenant is deleted",
        Duration::from_mins(1),
        async |load| !load.cluster.exists(&format!("{maps}/garbage")).await,
    )
    .await;
    // Three pages that do not arrive in time, and then five seconds for each object.
    let limit = Duration::from_secs(5 * 60 + 10 * count);
    load.cached_within("replicasets", count, limit).await;
    load.bound_poll("list");
    load.serve_other("web").await;
}
