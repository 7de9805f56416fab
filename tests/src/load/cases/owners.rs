//! Many owners with a few dependents each.

use super::super::Load;
use super::super::cluster::{Cluster, MAPS, Policy, map, reference};
use super::dependents::{limit_requests, time_limit};
use serde_json::Value;

/// The number of dependents of each owner.
pub(super) const DEPENDENTS: u64 = 10;
/// Bound on the heap bytes of an object in cache, graph and queue.
const BYTES: u64 = 2200;

pub(super) async fn run(load: &mut Load, policy: Policy) {
    let owners = load.scaled(10_000);
    let dependents = owners * DEPENDENTS;
    let cluster = load.cluster.clone();
    create_owners(&cluster, owners).await;
    load.report.objects = owners + dependents;
    load.start("*", "configmaps", owners + dependents).await;
    for owner in 0..owners {
        cluster.delete(&format!("{MAPS}/owner-{owner}"), policy).await;
    }
    let left = if policy == Policy::Orphan { dependents } else { 0 };
    load.until("the owners and their dependents are deleted", async |load| {
        load.cluster.count(MAPS).await == left
    })
    .await;
    load.settle("deletion").await;
    load.memory_limit = (owners + dependents) * BYTES;
    load.time_limit = time_limit(owners + dependents);
    limit_requests(load, policy, owners, dependents);
}

/// Creates `ConfigMaps` with [`DEPENDENTS`] dependents each.
pub(super) async fn create_owners(cluster: &Cluster, owners: u64) {
    for owner in 0..owners {
        let name = format!("owner-{owner}");
        let uid = cluster.create(MAPS, || map(&name, &Value::Null)).await;
        let reference = reference("v1", "ConfigMap", &name, &uid);
        for index in 0..DEPENDENTS {
            cluster
                .create(MAPS, || map(&format!("dependent-{owner}-{index}"), &reference))
                .await;
        }
    }
}
