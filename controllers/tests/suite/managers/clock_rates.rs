//! Clocks that run at half or twice the true rate.
//!
//! While both processes reach the API, there is one leader at any rates. A disconnected leader steps down before the standby
//! takes over if the rates differ by less than the ratio of lease duration to renew deadline (15 s to 10 s).

use super::*;

const RATES: [u32; 3] = [50, 100, 200];

async fn holder(cluster: &Cluster) -> (Value, Value) {
    let leases = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");
    let key = steersman_manager::object::Key::new("kube-system", "steersman");
    let lease: Value = cluster.admin.get(&leases, &key).await.expect("a lease");
    (
        lease["spec"]["holderIdentity"].clone(),
        lease["spec"]["leaseTransitions"].clone(),
    )
}

async fn run(leader: u32, standby: u32) {
    let rates = format!("leader at {leader} %, standby at {standby} %");
    let cluster = Cluster::new();
    let first = cluster.start("first", "steersman", leader);
    cluster.leads(&first).await;
    let second = cluster.start("second", "steersman", standby);
    let before = holder(&cluster).await;
    cluster.deploy("web", 3).await;
    cluster.complete("web").await;
    cluster.sleep(60 * SECOND).await;
    assert_eq!(holder(&cluster).await, before, "{rates}");
    assert!(first.leads() && !second.leads(), "{rates}");

    first.cut(true);
    cluster
        .patch(&DEPLOYMENTS, "web", &json!({"spec": {"replicas": 5}}))
        .await;
    let mut both = false;
    for _ in 0..1200 {
        both |= first.leads() && second.leads();
        cluster.sleep(SECOND / 20).await;
    }
    assert!(second.leads(), "{rates}");
    cluster.complete("web").await;
    let within_bound = standby * 10 < leader * 15;
    let writes = cluster.writes();
    if within_bound {
        assert!(!both, "both lead: {rates}");
        assert!(writes.iter().all(|it| it.leaders == 1), "{rates}: {writes:#?}");
    }
    first.cut(false);
    cluster.sleep(120 * SECOND).await;
    assert!(!first.leads() && second.leads(), "{rates}");
    cluster
        .patch(&DEPLOYMENTS, "web", &json!({"spec": {"replicas": 1}}))
        .await;
    cluster.complete("web").await;
}

#[tokio::test(start_paused = true)]
async fn clock_rates_within_the_bound_give_one_leader() {
    for leader in RATES {
        for standby in RATES {
            run(leader, standby).await;
        }
    }
}
