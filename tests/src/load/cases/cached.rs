//! Many cached objects, of which a few are collected.

use super::super::Load;
use super::super::cluster::{PODS, Policy, REPLICA_SETS, reference, replica_set, template};
use super::super::requests::Verb;
use super::dependents::{PAGE, time_limit};

/// The number of pods of an owner.
const PODS_PER_OWNER: u64 = 50;
/// Bound on the heap bytes of a pod in the metadata cache and in the graph, at the peak of the first list.
const BYTES: u64 = 800;

pub(super) async fn run(load: &mut Load) {
    let owners = load.scaled(20_000);
    let pods = owners * PODS_PER_OWNER;
    let cluster = load.cluster.clone();
    for owner in 0..owners {
        let name = format!("web-{owner}");
        let uid = cluster
            .create(REPLICA_SETS, || replica_set(&name, PODS_PER_OWNER))
            .await;
        let mut owner = reference("apps/v1", "ReplicaSet", &name, &uid);
        owner[0]["controller"] = true.into();
        for index in 0..PODS_PER_OWNER {
            cluster
                .create(PODS, || {
                    let mut pod = template(&name);
                    pod["apiVersion"] = "v1".into();
                    pod["kind"] = "Pod".into();
                    pod["metadata"]["name"] = format!("{name}-{index}").into();
                    pod["metadata"]["ownerReferences"] = owner.clone();
                    pod
                })
                .await;
        }
    }
    load.report.objects = owners + pods;
    load.start("garbagecollector", "pods", pods).await;
    cluster
        .delete(&format!("{REPLICA_SETS}/web-0"), Policy::Background)
        .await;
    load.until("the pods of the owner are deleted", async |load| {
        load.cluster.count(PODS).await == pods - PODS_PER_OWNER
    })
    .await;
    load.settle("deletion").await;
    load.limit(Verb::Delete, PODS_PER_OWNER);
    load.limit(Verb::List, (owners + pods).div_ceil(PAGE));
    load.memory_limit = (owners + pods) * BYTES;
    load.time_limit = time_limit(PODS_PER_OWNER);
}
