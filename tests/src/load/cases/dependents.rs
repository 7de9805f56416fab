//! Many dependents of one owner.

use std::time::Duration;

use super::super::Load;
use super::super::cluster::{MAPS, Policy, map, reference};
use super::super::requests::Verb;
use serde_json::Value;

/// Bound on the heap bytes of a dependent in cache, graph, queue and live list.
const BYTES: u64 = 2200;
/// The number of objects on a page of a list.
pub(super) const PAGE: u64 = 500;

pub(super) async fn run(load: &mut Load, policy: Policy) {
    let count = load.scaled(100_000);
    let cluster = load.cluster.clone();
    let uid = cluster.create(MAPS, || map("owner", &Value::Null)).await;
    let owner = reference("v1", "ConfigMap", "owner", &uid);
    for index in 0..count {
        cluster
            .create(MAPS, || map(&format!("dependent-{index}"), &owner))
            .await;
    }
    load.report.objects = count;
    load.start("*", "configmaps", count + 1).await;
    cluster.delete(&format!("{MAPS}/owner"), policy).await;
    let left = if policy == Policy::Orphan { count } else { 0 };
    load.until("the owner and its dependents are deleted", async |load| {
        load.cluster.count(MAPS).await == left
    })
    .await;
    load.settle("deletion").await;
    load.memory_limit = count * BYTES;
    load.time_limit = time_limit(count);
    limit_requests(load, policy, 1, count);
}

/// Bound on the time of one write for each of these objects: the garbage collector sends 20 at a time, each of which takes 5 ms.
pub(super) const fn time_limit(objects: u64) -> Duration {
    Duration::from_secs(10 + objects / 2000)
}

/// Limits the requests to one write per dependent, and one per owner that has a finalizer.
pub(super) fn limit_requests(load: &mut Load, policy: Policy, owners: u64, dependents: u64) {
    let pages = (owners + dependents).div_ceil(PAGE);
    load.limit(Verb::List, pages);
    match policy {
        Policy::Background => load.limit(Verb::Delete, dependents),
        Policy::Foreground => {
            load.limit(Verb::Delete, dependents);
            load.limit(Verb::Patch, owners);
            // Each owner is read before its dependents are deleted, and again after a second.
            load.limit(Verb::Get, owners + load.time_limit.as_secs());
            load.limit_proof();
        }
        Policy::Orphan => {
            load.limit(Verb::Patch, dependents + owners);
            // Live lists: those of the first owner, and of the owners that were deleted meanwhile.
            let kinds = load.requests().cached();
            load.limit(Verb::List, 2 * (kinds + pages));
        }
    }
}
