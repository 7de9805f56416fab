//! An outage of ten minutes with pending work.

use std::time::Duration;

use super::super::Load;
use super::super::cluster::{MAPS, PODS, Policy, REPLICA_SETS, replica_set};
use super::super::connection::Outage;
use super::super::requests::{CACHES, Verb};
use super::dependents::PAGE;
use super::owners::{DEPENDENTS, create_owners};
use serde_json::json;

const OUTAGE: Duration = Duration::from_mins(10);
/// Bound on the requests of each sender during the outage.
const REQUESTS_MAX: u64 = 600;
/// Bound on the requests of the caches during the outage, for each kind.
const CACHE_REQUESTS_MAX: u64 = 25;
/// Bound on the time from the end of the outage to the last write.
const CONVERGES_WITHIN: Duration = Duration::from_mins(2);
const REPLICAS: u64 = 20;
/// Bound on the heap bytes of an object.
const BYTES: u64 = 4096;

pub(super) async fn run(load: &mut Load, outage: Outage) {
    let each = load.scaled(300);
    let (owners, sets) = (3 * each, load.scaled(50));
    let cluster = load.cluster.clone();
    create_owners(&cluster, owners).await;
    for set in 0..sets {
        cluster
            .create(REPLICA_SETS, || replica_set(&format!("web-{set}"), 0))
            .await;
    }
    let maps = owners * (DEPENDENTS + 1);
    load.report.objects = maps + sets * REPLICAS;
    load.start("*,hollow-kubelet", "configmaps", maps).await;
    load.requests().reset();
    load.product().connection.set_outage(Some(outage));
    for owner in 0..owners {
        let policy = Policy::ALL[usize::try_from(owner % 3).unwrap_or_default()];
        cluster.delete(&format!("{MAPS}/owner-{owner}"), policy).await;
    }
    for set in 0..sets {
        let scale = json!({"spec": {"replicas": REPLICAS}});
        cluster.patch(&format!("{REPLICA_SETS}/web-{set}"), &scale).await;
    }
    load.sleep(OUTAGE).await;
    let sent = load.requests().by_sender();
    let kinds = load.requests().cached();
    load.progress(&format!("requests during the outage: {sent:?}, of {kinds} kinds"));
    for (sender, count) in sent {
        let limit = if sender == CACHES {
            CACHE_REQUESTS_MAX * kinds
        } else {
            REQUESTS_MAX
        };
        load.bound(format!("requests of {sender} during the outage"), count, limit);
    }
    load.requests().reset();
    load.product().connection.set_outage(None);
    (load.begun, load.started) = (load.now(), load.now());
    load.until("the pending work is done", async |load| {
        let ready = load.cluster.count(PODS).await == sets * REPLICAS;
        ready && load.cluster.count(MAPS).await == each * DEPENDENTS
    })
    .await;
    load.settle("recovery").await;
    load.time_limit = CONVERGES_WITHIN;
    let (dependents, pods) = (each * DEPENDENTS, sets * REPLICAS);
    load.limit(Verb::Delete, 2 * dependents);
    load.limit(Verb::Patch, dependents + 2 * each + pods + 4 * sets);
    load.limit(Verb::Post, 2 * pods);
    load.limit(Verb::Put, 4 * sets);
    load.limit(Verb::Event, 4 * sets + pods);
    // The version of each cache before its watch is reopened, a relist if the API has forgotten that version, and live lists.
    let kinds = load.requests().cached();
    load.limit(Verb::List, 4 * (kinds + maps.div_ceil(PAGE)));
    // Each owner is read before its dependents are deleted, and again after a second.
    load.limit(Verb::Get, 2 * each);
    load.limit_proof();
    load.memory_limit = load.report.objects * BYTES;
}
