//! The Lease is given back.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_release_is_taken_at_once_with_what_was_written() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let mut b = world.start("b");
    let mut c = world.start("c");
    for candidate in [&a, &b, &c] {
        candidate.net.latency(10 * MILLI);
    }
    world.wait(5 * RETRY).await;
    world
        .rewrite(json!({"metadata": {"annotations": {"keep": "me"}}}))
        .await;
    a.release(&[("pods", "123"), ("replicasets.apps", "99")]);
    world.wait(100 * MILLI).await;
    assert_eq!(*a.ended.lock().expect("no panic"), Some(true));
    assert!(!a.leads() && b.leads() != c.leads());
    let next = if b.leads() { &mut b } else { &mut c };
    let versions = [("pods", "123"), ("replicasets.apps", "99")];
    let versions = versions.map(|(resource, version)| (resource.to_owned(), version.to_owned()));
    assert_eq!(next.takeover(), Some(Takeover::Clean(versions.into())));
    let lease = world.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["holderIdentity"], json!(next.identity));
    assert_eq!(lease["spec"]["leaseTransitions"], json!(1));
    assert_eq!(lease["spec"]["leaseDurationSeconds"], json!(15));
    assert_eq!(lease["metadata"]["annotations"], json!({"keep": "me"}));
    // Its next term is no takeover from a leader that has released.
    next.net.trouble(Trouble::Unavailable);
    next.deposed(&world, RENEW).await;
    next.net.trouble(Trouble::None);
    world.wait(LEASE + AGAIN).await;
    let leader = [b, c].into_iter().find(Candidate::leads).expect("a leader");
    assert_eq!(leader.takeover(), Some(Takeover::Unclean));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_comes_later_believes_a_release_too() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    world.wait(5 * RETRY).await;
    a.release(&[("pods", "7")]);
    world.wait(Duration::from_hours(1)).await;
    let mut b = world.start("b");
    assert!(b.elected(&world, RETRY).await < 10 * MILLI);
    assert!(matches!(b.takeover(), Some(Takeover::Clean(versions)) if versions["pods"] == "7"));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn renewal_goes_on_while_the_workers_stop() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let mut b = world.start("b");
    world.wait(RETRY).await;
    let term = a.fence.term();
    a.stop.cancel();
    world.wait(Duration::from_mins(2)).await;
    assert_eq!(a.fence.term(), term);
    a.release(&[]);
    assert!(b.elected(&world, RETRY).await < 10 * MILLI);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_stops_does_not_take_it() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let mut b = world.start("b");
    world.wait(RETRY).await;
    b.stop.cancel();
    a.release(&[]);
    world.wait(Duration::from_mins(2)).await;
    assert!(!b.leads());
    b.release(&[]);
    world.wait(MILLI).await;
    assert_eq!(*b.ended.lock().expect("no panic"), Some(true));
    let lease = world.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["holderIdentity"], json!(""));
}

#[tokio::test(start_paused = true)]
async fn without_a_release_it_expires() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let mut b = world.start("b");
    world.wait(RETRY).await;
    let finish = a.finish.take().expect("only once");
    finish.send(None).expect("it runs");
    world.wait(MILLI).await;
    assert!(!a.leads(), "nobody renews it any more");
    let took = b.elected(&world, AGAIN).await;
    assert!(took > Duration::from_millis(12_990), "{took:?}");
    assert_eq!(b.takeover(), Some(Takeover::Unclean));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_release_survives_a_renewal_under_way() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let mut b = world.start("b");
    world.wait(5 * RETRY + RETRY / 2).await;
    a.net.trouble(Trouble::AnswerLost);
    world.wait(RETRY).await;
    a.net.watches(WatchTrouble::Silent);
    a.net.trouble(Trouble::None);
    a.release(&[]);
    assert!(b.elected(&world, RETRY).await < 10 * MILLI);
    assert!(matches!(b.takeover(), Some(Takeover::Clean(_))));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_release_takes_no_longer_than_a_lease_would() {
    for trouble in [Trouble::Unavailable, Trouble::RequestLost, Trouble::AnswerLost] {
        let mut world = World::new().await;
        let mut a = world.start("a");
        a.elected(&world, RETRY).await;
        let mut b = world.start("b");
        world.wait(5 * RETRY).await;
        a.net.trouble(trouble);
        a.release(&[]);
        world.wait(MILLI).await;
        assert!(!a.leads(), "the fence is shut first");
        world.wait(RENEW + MILLI).await;
        // A release whose answer was lost is found to be done.
        let done = trouble == Trouble::AnswerLost;
        assert_eq!(*a.ended.lock().expect("no panic"), Some(done), "{trouble:?}");
        b.elected(&world, AGAIN).await;
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn release_whose_first_request_is_lost_is_sent_again() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    world.wait(5 * RETRY).await;
    a.net.trouble(Trouble::RequestLost);
    a.release(&[]);
    world.wait(MILLI).await;
    a.net.trouble(Trouble::None);
    world.wait(RENEW / 2 + RETRY + MILLI).await;
    assert_eq!(*a.ended.lock().expect("no panic"), Some(true));
    let lease = world.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["holderIdentity"], json!(""));
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_another_is_not_released() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let mut b = world.start("b");
    world.wait(5 * RETRY).await;
    let term = a.fence.term().expect("a term");
    a.freeze();
    b.elected(&world, AGAIN).await;
    let finish = a.finish.take().expect("only once");
    let versions = BTreeMap::new();
    finish.send(Some(Release { term, versions })).expect("it runs");
    a.thaw();
    world.wait(RENEW).await;
    let lease = world.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["holderIdentity"], json!(b.identity));
    assert!(b.leads());
    world.check();
}

#[tokio::test(start_paused = true)]
async fn release_that_always_conflicts_is_tried_again_after_a_wait() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    a.net.latency(10 * MILLI);
    a.net.trouble(Trouble::Conflict);
    a.net.take_counts();
    a.release(&[]);
    world.wait(RENEW + RETRY).await;
    let counts = a.net.take_counts();
    let sent: u32 = counts.values().sum();
    assert!(sent <= 30, "{counts:?}");
    assert_eq!(*a.ended.lock().expect("no panic"), Some(false));
    world.check();
}
