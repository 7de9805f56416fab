//! Operation without faults.

use super::*;

#[tokio::test(start_paused = true)]
async fn first_candidate_leads_immediately_and_sends_one_request_per_period() {
    let mut cluster = Cluster::new().await;
    let mut a = cluster.start("a");
    assert!(a.elected(&cluster, RETRY).await < 10 * MILLI);
    assert_eq!(a.takeover(), Some(Takeover::Unclean));
    let lease = cluster.lease().await.expect("a lease");
    let spec = &lease["spec"];
    assert_eq!(spec["holderIdentity"], json!(a.identity));
    assert_eq!(
        (&spec["leaseDurationSeconds"], &spec["leaseTransitions"]),
        (&json!(15), &json!(0))
    );
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    cluster.wait(RETRY / 2).await;
    a.net.take_counts();
    cluster.wait(100 * RETRY).await;
    let mut counts = a.net.take_counts();
    assert!(counts.remove("PATCH").is_some_and(|writes| writes > 500));
    assert_eq!(counts, BTreeMap::from([("PUT", 100)]));
    let later = cluster.lease().await.expect("a lease");
    assert_eq!(later["spec"]["acquireTime"], spec["acquireTime"]);
    assert_ne!(later["spec"]["renewTime"], spec["renewTime"]);
    assert_eq!(later["spec"]["leaseTransitions"], json!(0));
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn standby_only_watches() {
    let (mut cluster, a) = Cluster::with_leader("a").await;
    let b = cluster.start("b");
    cluster.wait(RETRY).await;
    let started = b.net.take_counts();
    assert_eq!(started.get("WATCH"), Some(&1));
    assert!(started.get("GET").is_some_and(|reads| *reads <= 2), "{started:?}");
    cluster.wait(Duration::from_secs(250)).await;
    assert_eq!(b.net.take_counts(), BTreeMap::new());
    cluster.wait(Duration::from_mins(20)).await;
    let counts = b.net.take_counts();
    assert!(
        counts.values().sum::<u32>() <= 2 * 5 && !counts.contains_key("PUT"),
        "a watch and a read per 5 to 10 minutes: {counts:?}"
    );
    assert!(a.leads() && !b.leads());
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn standby_without_watch_polls() {
    let (mut cluster, mut a) = Cluster::with_leader("a").await;
    let mut b = cluster.start_with("b", |net| net.set_watch_fault(WatchFault::Rejected));
    cluster.wait(Duration::from_mins(10)).await;
    let counts = b.net.take_counts();
    let reads = counts["GET"];
    assert!(
        (600 / 5..=600 / 2).contains(&reads),
        "every 2.0 to 4.4 s: {reads}"
    );
    assert!(counts["WATCH"] < 40, "{counts:?}");
    assert!(!counts.contains_key("PUT"));
    a.release(&[]);
    assert!(b.elected(&cluster, FAILOVER_LIMIT).await <= 2 * RETRY + RETRY / 2);
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn metrics_and_health_follow_the_leadership() {
    let mut cluster = Cluster::new().await;
    let mut a = cluster.start("a");
    let mut b = cluster.start("b");
    assert_eq!(a.gauge("leader_election_master_status").to_string(), "0");
    a.elected(&cluster, RETRY).await;
    cluster.wait(RETRY).await;
    assert_eq!(a.gauge("leader_election_master_status").to_string(), "1");
    assert_eq!(b.gauge("leader_election_master_status").to_string(), "0");
    assert_eq!(a.gauge("leader_election_slowpath_total").to_string(), "0");
    // A foreign label: the next renewal must read first.
    let term = a.fence.term();
    cluster
        .rewrite(json!({"metadata": {"labels": {"team": "x"}, "annotations": {"y": "z"}}}))
        .await;
    cluster.wait(2 * RETRY).await;
    assert_eq!(a.fence.term(), term);
    let lease = cluster.lease().await.expect("a lease");
    assert_eq!(lease["metadata"]["labels"], json!({"team": "x"}));
    assert_eq!(lease["metadata"]["annotations"], json!({"y": "z"}));
    a.net.set_fault(NetworkFault::Conflict);
    cluster.wait(RETRY + RETRY / 2).await;
    a.net.set_fault(NetworkFault::None);
    cluster.wait(2 * RETRY).await;
    assert_eq!(a.fence.term(), term);
    assert!(a.gauge("leader_election_slowpath_total") >= 1.0);
    assert_eq!(a.health.check(), Ok(()));
    a.net.set_fault(NetworkFault::Unavailable);
    a.stepped_down(&cluster, RENEW).await;
    assert_eq!(a.gauge("leader_election_master_status").to_string(), "0");
    b.elected(&cluster, FAILOVER_LIMIT).await;
    assert_eq!(b.gauge("leader_election_master_status").to_string(), "1");
    cluster.wait(Duration::from_mins(5)).await;
    assert_eq!((a.health.check(), b.health.check()), (Ok(()), Ok(())));
    cluster.check();
}
