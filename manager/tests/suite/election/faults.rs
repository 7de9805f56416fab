//! Lost requests and responses, failing API servers.

use super::*;

#[tokio::test(start_paused = true)]
async fn single_failed_renewal_does_not_end_the_term() {
    for fault in [
        NetworkFault::Unavailable,
        NetworkFault::RequestLost,
        NetworkFault::ResponseLost,
        NetworkFault::Reset,
        NetworkFault::Conflict,
    ] {
        let mut cluster = Cluster::new().await;
        let mut a = cluster.start("a");
        let b = cluster.start("b");
        a.elected(&cluster, RETRY).await;
        cluster.wait(5 * RETRY).await;
        let term = a.fence.term();
        a.net.set_fault(fault);
        cluster.wait(RETRY).await;
        a.net.set_fault(NetworkFault::None);
        cluster.wait(10 * RETRY).await;
        assert_eq!(a.fence.term(), term, "{fault:?}");
        assert!(term.is_some() && !b.leads());
        cluster.check();
    }
}

#[tokio::test(start_paused = true)]
async fn acquired_lease_without_response_is_recognised() {
    for fault in [NetworkFault::ResponseLost, NetworkFault::Reset] {
        let mut cluster = Cluster::new().await;
        let mut a = cluster.start_with("a", |net| net.set_fault(fault));
        cluster.wait(MILLI).await;
        assert!(cluster.lease().await.is_some() && !a.leads());
        a.net.set_fault(NetworkFault::None);
        let took = a.elected(&cluster, FAILOVER_LIMIT).await;
        assert!(took <= RENEW / 2 + 3 * RETRY, "{fault:?}: {took:?}");
        let lease = cluster.lease().await.expect("a lease");
        assert_eq!(lease["spec"]["leaseTransitions"], json!(0));
        cluster.check();
    }
}

#[tokio::test(start_paused = true)]
async fn leader_that_cannot_renew_steps_down_in_time_and_is_replaced() {
    for fault in [
        NetworkFault::Unavailable,
        NetworkFault::RequestLost,
        NetworkFault::ResponseLost,
        NetworkFault::Conflict,
    ] {
        let mut cluster = Cluster::new().await;
        let mut a = cluster.start("a");
        let mut b = cluster.start("b");
        a.elected(&cluster, RETRY).await;
        cluster.wait(5 * RETRY + RETRY / 2).await;
        a.net.take_counts();
        a.net.set_fault(fault);
        a.stepped_down(&cluster, RENEW).await;
        let counts = a.net.take_counts();
        assert!(
            counts["PUT"] <= 8 && counts.get("GET").is_none_or(|reads| *reads <= 8),
            "too many requests: {counts:?}"
        );
        b.elected(&cluster, FAILOVER_LIMIT + RENEW).await;
        cluster.wait(RENEW).await;
        a.net.set_fault(NetworkFault::None);
        cluster.wait(10 * RETRY).await;
        assert!(b.leads() && !a.leads(), "{fault:?}");
        cluster.check();
    }
}

#[tokio::test(start_paused = true)]
async fn term_is_measured_from_the_sending_of_the_renewal() {
    let (cluster, mut a) = Cluster::with_leader("a").await;
    a.net.response_delay(Duration::from_secs(4));
    let term = a.fence.term();
    cluster.wait(10 * RETRY).await;
    assert_eq!(a.fence.term(), term, "slow responses count");
    a.net.set_fault(NetworkFault::RequestLost);
    // Requests in flight are still answered.
    cluster.wait(Duration::from_secs(4)).await;
    a.stepped_down(&cluster, RENEW).await;
    let lasted = cluster.clock.now() - a.net.renewed();
    assert!(lasted <= RENEW + 2 * MILLI, "{lasted:?} after it was sent");
    assert!(lasted > Duration::from_millis(9900), "{lasted:?}");
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn late_response_does_not_open_the_fence() {
    let mut cluster = Cluster::new().await;
    let a = cluster.start_with("a", |net| net.response_delay(RENEW + RETRY));
    cluster.wait(Duration::from_mins(1)).await;
    assert!(a.leadership.borrow().clone() == Leadership::Standby && !a.leads());
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn outage_for_all_candidates_ends_with_one_leader() {
    let mut cluster = Cluster::new().await;
    let mut all = [cluster.start("a"), cluster.start("b"), cluster.start("c")];
    cluster.wait(5 * RETRY).await;
    assert_eq!(all.iter().filter(|candidate| candidate.leads()).count(), 1);
    for candidate in &all {
        candidate.net.set_fault(NetworkFault::Unavailable);
        candidate.net.set_watch_fault(WatchFault::Rejected);
        candidate.net.take_counts();
    }
    cluster.wait(RENEW).await;
    assert!(all.iter().all(|candidate| !candidate.leads()));
    cluster.wait(Duration::from_mins(10)).await;
    for candidate in &mut all {
        let sent: u32 = candidate.net.take_counts().values().sum();
        assert!(sent <= 610 / 2 + 50, "{sent} requests in ten minutes");
        candidate.net.set_fault(NetworkFault::None);
        candidate.net.set_watch_fault(WatchFault::None);
    }
    cluster.wait(FAILOVER_LIMIT).await;
    assert_eq!(all.iter().filter(|candidate| candidate.leads()).count(), 1);
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn silent_watch_does_not_affect_the_election() {
    let (mut cluster, a) = Cluster::with_leader("a").await;
    let mut b = cluster.start("b");
    cluster.wait(RETRY).await;
    for candidate in [&a, &b] {
        candidate.net.set_watch_fault(WatchFault::Silent);
    }
    let term = a.fence.term();
    cluster.wait(Duration::from_mins(5)).await;
    assert_eq!(a.fence.term(), term);
    assert!(!b.leads());
    drop(a.tasks);
    b.elected(&cluster, LEASE + FAILOVER_LIMIT).await;
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn lagging_watch_does_not_affect_the_election() {
    let (mut cluster, mut a) = Cluster::with_leader("a").await;
    let mut b = cluster.start("b");
    cluster.wait(RETRY).await;
    let revision = cluster.sandbox.revision();
    a.net.hold_at(revision);
    b.net.hold_at(revision);
    let term = a.fence.term();
    cluster.wait(Duration::from_mins(2)).await;
    a.net.catch_up();
    b.net.catch_up();
    cluster.wait(Duration::from_mins(2)).await;
    assert_eq!(a.fence.term(), term, "old events of the own lease are ignored");
    a.release(&[]);
    assert!(b.elected(&cluster, RETRY).await < 100 * MILLI);
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn candidate_without_responses_does_not_block_others() {
    let mut cluster = Cluster::new().await;
    let a = cluster.start_with("a", |net| net.set_fault(NetworkFault::ResponseLost));
    cluster.wait(RETRY).await;
    assert!(cluster.lease().await.is_some());
    let mut b = cluster.start("b");
    // It may renew once more before it gives up.
    b.elected(&cluster, RENEW + FAILOVER_LIMIT).await;
    cluster.wait(Duration::from_mins(5)).await;
    assert!(b.leads() && !a.leads());
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn api_server_that_discards_writes_is_not_retried_in_a_hot_loop() {
    let mut cluster = Cluster::new().await;
    let a = cluster.start_with("a", |net| {
        net.set_fault(NetworkFault::Discarded);
        net.latency(10 * MILLI);
    });
    cluster.wait(Duration::from_mins(1)).await;
    assert!(!a.leads());
    let requests: u32 = a.net.take_counts().into_values().sum();
    assert!((20..120).contains(&requests), "{requests}");
}
