//! Releasing the Lease.

use super::*;

#[tokio::test(start_paused = true)]
async fn released_lease_is_acquired_immediately_with_written_versions() {
    let (mut cluster, mut a) = Cluster::with_leader("a").await;
    let mut b = cluster.start("b");
    let mut c = cluster.start("c");
    for candidate in [&a, &b, &c] {
        candidate.net.latency(10 * MILLI);
    }
    cluster.wait(5 * RETRY).await;
    cluster
        .rewrite(json!({"metadata": {"annotations": {"keep": "me"}}}))
        .await;
    a.release(&[("pods", "123"), ("replicasets.apps", "99")]);
    cluster.wait(100 * MILLI).await;
    assert_eq!(*a.ended.lock().expect("no panic"), Some(true));
    assert!(!a.leads() && b.leads() != c.leads());
    let next = if b.leads() { &mut b } else { &mut c };
    let versions = [("pods", "123"), ("replicasets.apps", "99")];
    let versions = versions.map(|(resource, version)| (resource.to_owned(), version.to_owned()));
    assert_eq!(next.takeover(), Some(Takeover::Clean(versions.into())));
    let lease = cluster.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["holderIdentity"], json!(next.identity));
    assert_eq!(lease["spec"]["leaseTransitions"], json!(1));
    assert_eq!(lease["spec"]["leaseDurationSeconds"], json!(15));
    assert_eq!(lease["metadata"]["annotations"], json!({"keep": "me"}));
    // The next term does not follow a release.
    next.net.set_fault(NetworkFault::Unavailable);
    next.stepped_down(&cluster, RENEW).await;
    next.net.set_fault(NetworkFault::None);
    cluster.wait(LEASE + FAILOVER_LIMIT).await;
    let leader = [b, c].into_iter().find(Candidate::leads).expect("a leader");
    assert_eq!(leader.takeover(), Some(Takeover::Unclean));
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn release_is_trusted_by_a_later_process() {
    let (mut cluster, mut a) = Cluster::with_leader("a").await;
    cluster.wait(5 * RETRY).await;
    a.release(&[("pods", "7")]);
    cluster.wait(Duration::from_hours(1)).await;
    let mut b = cluster.start("b");
    assert!(b.elected(&cluster, RETRY).await < 10 * MILLI);
    assert!(matches!(b.takeover(), Some(Takeover::Clean(versions)) if versions["pods"] == "7"));
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn lease_is_renewed_while_workers_stop() {
    let (mut cluster, mut a) = Cluster::with_leader("a").await;
    let mut b = cluster.start("b");
    cluster.wait(RETRY).await;
    let term = a.fence.term();
    a.stop.cancel();
    cluster.wait(Duration::from_mins(2)).await;
    assert_eq!(a.fence.term(), term);
    a.release(&[]);
    assert!(b.elected(&cluster, RETRY).await < 10 * MILLI);
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn stopping_standby_does_not_acquire_the_lease() {
    let (mut cluster, mut a) = Cluster::with_leader("a").await;
    let mut b = cluster.start("b");
    cluster.wait(RETRY).await;
    b.stop.cancel();
    a.release(&[]);
    cluster.wait(Duration::from_mins(2)).await;
    assert!(!b.leads());
    b.release(&[]);
    cluster.wait(MILLI).await;
    assert_eq!(*b.ended.lock().expect("no panic"), Some(true));
    let lease = cluster.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["holderIdentity"], json!(""));
}

#[tokio::test(start_paused = true)]
async fn unreleased_lease_expires() {
    let (mut cluster, mut a) = Cluster::with_leader("a").await;
    let mut b = cluster.start("b");
    cluster.wait(RETRY).await;
    let finish = a.finish.take().expect("not finished");
    finish.send(None).expect("a running elector");
    cluster.wait(MILLI).await;
    assert!(!a.leads(), "no more renewals");
    let took = b.elected(&cluster, FAILOVER_LIMIT).await;
    assert!(took > Duration::from_millis(12_990), "{took:?}");
    assert_eq!(b.takeover(), Some(Takeover::Unclean));
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn release_succeeds_despite_a_renewal_in_flight() {
    let (mut cluster, mut a) = Cluster::with_leader("a").await;
    let mut b = cluster.start("b");
    cluster.wait(5 * RETRY + RETRY / 2).await;
    a.net.set_fault(NetworkFault::ResponseLost);
    cluster.wait(RETRY).await;
    a.net.set_watch_fault(WatchFault::Silent);
    a.net.set_fault(NetworkFault::None);
    a.release(&[]);
    assert!(b.elected(&cluster, RETRY).await < 10 * MILLI);
    assert!(matches!(b.takeover(), Some(Takeover::Clean(_))));
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn release_gives_up_after_the_renew_deadline() {
    for fault in [
        NetworkFault::Unavailable,
        NetworkFault::RequestLost,
        NetworkFault::ResponseLost,
    ] {
        let (mut cluster, mut a) = Cluster::with_leader("a").await;
        let mut b = cluster.start("b");
        cluster.wait(5 * RETRY).await;
        a.net.set_fault(fault);
        a.release(&[]);
        cluster.wait(MILLI).await;
        assert!(!a.leads(), "the fence is closed first");
        cluster.wait(RENEW + MILLI).await;
        // A release whose response was lost is recognised.
        let done = fault == NetworkFault::ResponseLost;
        assert_eq!(*a.ended.lock().expect("no panic"), Some(done), "{fault:?}");
        b.elected(&cluster, FAILOVER_LIMIT).await;
        cluster.check();
    }
}

#[tokio::test(start_paused = true)]
async fn lost_release_is_retried() {
    let (cluster, mut a) = Cluster::with_leader("a").await;
    cluster.wait(5 * RETRY).await;
    a.net.set_fault(NetworkFault::RequestLost);
    a.release(&[]);
    cluster.wait(MILLI).await;
    a.net.set_fault(NetworkFault::None);
    cluster.wait(RENEW / 2 + RETRY + MILLI).await;
    assert_eq!(*a.ended.lock().expect("no panic"), Some(true));
    let lease = cluster.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["holderIdentity"], json!(""));
}

#[tokio::test(start_paused = true)]
async fn lease_of_another_holder_is_not_released() {
    let (mut cluster, mut a) = Cluster::with_leader("a").await;
    let mut b = cluster.start("b");
    cluster.wait(5 * RETRY).await;
    let term = a.fence.term().expect("a term");
    a.freeze();
    b.elected(&cluster, FAILOVER_LIMIT).await;
    let finish = a.finish.take().expect("not finished");
    let versions = BTreeMap::new();
    finish
        .send(Some(Release { term, versions }))
        .expect("a running elector");
    a.thaw();
    cluster.wait(RENEW).await;
    let lease = cluster.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["holderIdentity"], json!(b.identity));
    assert!(b.leads());
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn conflicting_release_is_retried_with_a_delay() {
    let (cluster, mut a) = Cluster::with_leader("a").await;
    a.net.latency(10 * MILLI);
    a.net.set_fault(NetworkFault::Conflict);
    a.net.take_counts();
    a.release(&[]);
    cluster.wait(RENEW + RETRY).await;
    let counts = a.net.take_counts();
    let sent: u32 = counts.values().sum();
    assert!(sent <= 30, "{counts:?}");
    assert_eq!(*a.ended.lock().expect("no panic"), Some(false));
    cluster.check();
}
