//! Crashes, suspended machines, clocks that differ.

use super::*;

use jiff::SignedDuration;

#[tokio::test(start_paused = true)]
async fn after_a_crash_there_is_a_leader_again_when_the_lease_has_run_out() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let b = world.start("b");
    let c = world.start("c");
    world.wait(20 * RETRY).await;
    drop(a.tasks);
    world.wait(Duration::from_millis(12_990)).await;
    assert!(!b.leads() && !c.leads(), "not sooner");
    world.wait(Duration::from_secs(6)).await;
    assert!(b.leads() != c.leads());
    let lease = world.lease().await.expect("a lease");
    assert_eq!(lease["spec"]["leaseTransitions"], json!(1));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_started_again_waits_for_its_predecessor() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    world.wait(RETRY).await;
    drop(a.tasks);
    let mut again = world.start("a");
    let took = again.elected(&world, AGAIN).await;
    assert!(
        took >= LEASE,
        "it has not seen how long the record was unchanged: {took:?}"
    );
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_suspended_leader_wakes_up_behind_a_shut_fence_and_stands_by() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let mut b = world.start("b");
    world.wait(3 * RETRY).await;
    let zombie = a.fence.term().expect("a term");
    a.freeze();
    b.elected(&world, AGAIN).await;
    world.wait(Duration::from_mins(1)).await;
    a.thaw();
    assert!(!a.fence.allows(zombie));
    a.deposed(&world, RETRY).await;
    world.wait(10 * RETRY).await;
    assert!(b.leads() && !a.leads());
    drop(b.tasks);
    a.elected(&world, AGAIN).await;
    assert!(a.leads() && !a.fence.allows(zombie), "another term");
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_suspended_standby_does_not_take_a_lease_that_was_renewed_meanwhile() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let b = world.start("b");
    world.wait(3 * RETRY).await;
    let term = a.fence.term();
    b.freeze();
    world.wait(Duration::from_mins(1)).await;
    b.thaw();
    world.wait(Duration::from_mins(1)).await;
    assert_eq!(a.fence.term(), term);
    assert!(a.leads() && !b.leads());
    world.check();
}

#[tokio::test(start_paused = true)]
async fn clocks_that_differ_do_not_matter() {
    for hours in [-1, 1] {
        let mut world = World::new().await;
        let mut a = world.start("a");
        a.elected(&world, RETRY).await;
        let b = world.start("b");
        b.env.clock.inject(Fault::Skew(SignedDuration::from_hours(hours)));
        let c = world.start("c");
        c.env
            .clock
            .inject(Fault::Skew(SignedDuration::from_hours(-hours)));
        let term = a.fence.term();
        world.wait(Duration::from_mins(5)).await;
        assert_eq!(a.fence.term(), term, "a clock that is ahead steals nothing");
        drop(a.tasks);
        world.wait(AGAIN).await;
        assert!(b.leads() != c.leads(), "a clock that is behind waits no longer");
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_costs_a_term_and_no_more() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let b = world.start("b");
    world.wait(3 * RETRY).await;
    let term = a.fence.term();
    b.env.clock.inject(Fault::Skew(SignedDuration::from_hours(1)));
    world.wait(3 * RETRY).await;
    assert_eq!(a.fence.term(), term, "a standby judges by monotonic time");
    a.env.clock.inject(Fault::Skew(SignedDuration::from_hours(-1)));
    world.wait(10 * RETRY).await;
    assert_eq!(a.fence.term(), term);
    a.env.clock.inject(Fault::Skew(SignedDuration::from_hours(1)));
    assert!(!a.leads(), "it may have been asleep");
    world.wait(10 * RETRY).await;
    assert!(
        a.leads() && !b.leads(),
        "it was not, and takes up its lease again"
    );
    world.check();
}
