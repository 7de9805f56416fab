//! Crashes, suspended machines and clock differences.

use super::*;

use jiff::SignedDuration;

#[tokio::test(start_paused = true)]
async fn crashed_leader_is_replaced_when_the_lease_expires() {
    let (mut cluster, a) = Cluster::with_leader("a").await;
    let b = cluster.start("b");
    let c = cluster.start("c");
    cluster.wait(20 * RETRY).await;
    drop(a.tasks);
    cluster.wait(Duration::from_millis(12_990)).await;
    assert!(!b.leads() && !c.leads(), "too early");
    cluster.wait(Duration::from_secs(6)).await;
    assert!(b.leads() != c.leads());
    let lease = cluster.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["leaseTransitions"], json!(1));
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn restarted_process_waits_for_the_lease_of_its_predecessor() {
    let (mut cluster, a) = Cluster::with_leader("a").await;
    cluster.wait(RETRY).await;
    drop(a.tasks);
    let mut again = cluster.start("a");
    let took = again.elected(&cluster, FAILOVER_LIMIT).await;
    assert!(took >= LEASE, "the age of the record is unknown: {took:?}");
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn suspended_leader_resumes_with_a_closed_fence_as_standby() {
    let (mut cluster, mut a) = Cluster::with_leader("a").await;
    let mut b = cluster.start("b");
    cluster.wait(3 * RETRY).await;
    let old_term = a.fence.term().expect("a term");
    a.freeze();
    b.elected(&cluster, FAILOVER_LIMIT).await;
    cluster.wait(Duration::from_mins(1)).await;
    a.thaw();
    assert!(!a.fence.allows(old_term));
    a.stepped_down(&cluster, RETRY).await;
    cluster.wait(10 * RETRY).await;
    assert!(b.leads() && !a.leads());
    drop(b.tasks);
    a.elected(&cluster, FAILOVER_LIMIT).await;
    assert!(a.leads() && !a.fence.allows(old_term), "a new term");
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn suspended_standby_does_not_acquire_a_renewed_lease() {
    let (mut cluster, a) = Cluster::with_leader("a").await;
    let b = cluster.start("b");
    cluster.wait(3 * RETRY).await;
    let term = a.fence.term();
    b.freeze();
    cluster.wait(Duration::from_mins(1)).await;
    b.thaw();
    cluster.wait(Duration::from_mins(1)).await;
    assert_eq!(a.fence.term(), term);
    assert!(a.leads() && !b.leads());
    cluster.check();
}

#[tokio::test(start_paused = true)]
async fn skewed_clocks_do_not_affect_the_election() {
    for hours in [-1, 1] {
        let (mut cluster, a) = Cluster::with_leader("a").await;
        let b = cluster.start("b");
        b.env.clock.inject(Fault::Skew(SignedDuration::from_hours(hours)));
        let c = cluster.start("c");
        c.env
            .clock
            .inject(Fault::Skew(SignedDuration::from_hours(-hours)));
        let term = a.fence.term();
        cluster.wait(Duration::from_mins(5)).await;
        assert_eq!(a.fence.term(), term, "a fast clock steals the lease");
        drop(a.tasks);
        cluster.wait(FAILOVER_LIMIT).await;
        assert!(b.leads() != c.leads(), "a slow clock delays the failover");
        cluster.check();
    }
}

#[tokio::test(start_paused = true)]
async fn wall_clock_jump_ends_only_the_term() {
    let (mut cluster, a) = Cluster::with_leader("a").await;
    let b = cluster.start("b");
    cluster.wait(3 * RETRY).await;
    let term = a.fence.term();
    b.env.clock.inject(Fault::Skew(SignedDuration::from_hours(1)));
    cluster.wait(3 * RETRY).await;
    assert_eq!(a.fence.term(), term, "a standby uses monotonic time");
    a.env.clock.inject(Fault::Skew(SignedDuration::from_hours(-1)));
    cluster.wait(10 * RETRY).await;
    assert_eq!(a.fence.term(), term);
    a.env.clock.inject(Fault::Skew(SignedDuration::from_hours(1)));
    assert!(!a.leads(), "the machine may have been suspended");
    cluster.wait(10 * RETRY).await;
    assert!(a.leads() && !b.leads(), "not reacquired");
    cluster.check();
}
