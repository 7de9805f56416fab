//! Requests and answers that do not arrive, servers that refuse.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_once_costs_nothing() {
    for trouble in [
        Trouble::Unavailable,
        Trouble::RequestLost,
        Trouble::AnswerLost,
        Trouble::Reset,
        Trouble::Conflict,
    ] {
        let mut world = World::new().await;
        let mut a = world.start("a");
        let b = world.start("b");
        a.elected(&world, RETRY).await;
        world.wait(5 * RETRY).await;
        let term = a.fence.term();
        a.net.trouble(trouble);
        world.wait(RETRY).await;
        a.net.trouble(Trouble::None);
        world.wait(10 * RETRY).await;
        assert_eq!(a.fence.term(), term, "{trouble:?}");
        assert!(term.is_some() && !b.leads());
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_won_without_an_answer_is_found_to_be_ours() {
    for trouble in [Trouble::AnswerLost, Trouble::Reset] {
        let mut world = World::new().await;
        let mut a = world.start_with("a", |net| net.trouble(trouble));
        world.wait(MILLI).await;
        assert!(world.lease().await.is_some() && !a.leads());
        a.net.trouble(Trouble::None);
        let took = a.elected(&world, AGAIN).await;
        assert!(took <= RENEW / 2 + 3 * RETRY, "{trouble:?}: {took:?}");
        let lease = world.lease().await.expect("a lease");
        assert_eq!(lease["spec"]["leaseTransitions"], json!(0));
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_in_time_and_another_takes_over() {
    for trouble in [
        Trouble::Unavailable,
        Trouble::RequestLost,
        Trouble::AnswerLost,
        Trouble::Conflict,
    ] {
        let mut world = World::new().await;
        let mut a = world.start("a");
        let mut b = world.start("b");
        a.elected(&world, RETRY).await;
        world.wait(5 * RETRY + RETRY / 2).await;
        a.net.take_counts();
        a.net.trouble(trouble);
        a.deposed(&world, RENEW).await;
        let counts = a.net.take_counts();
        assert!(
            counts["PUT"] <= 8 && counts.get("GET").is_none_or(|reads| *reads <= 8),
            "no storm: {counts:?}"
        );
        b.elected(&world, AGAIN + RENEW).await;
        world.wait(RENEW).await;
        a.net.trouble(Trouble::None);
        world.wait(10 * RETRY).await;
        assert!(b.leads() && !a.leads(), "{trouble:?}");
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn a_term_counts_from_when_the_renewal_was_sent() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    a.net.answer_delay(Duration::from_secs(4));
    let term = a.fence.term();
    world.wait(10 * RETRY).await;
    assert_eq!(a.fence.term(), term, "slow answers are answers");
    a.net.trouble(Trouble::RequestLost);
    // Whatever is under way is answered.
    world.wait(Duration::from_secs(4)).await;
    a.deposed(&world, RENEW).await;
    let lasted = world.clock.now() - a.net.renewed();
    assert!(lasted <= RENEW + 2 * MILLI, "{lasted:?} after it was sent");
    assert!(lasted > Duration::from_millis(9900), "{lasted:?}");
    world.check();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_its_deadline_opens_nothing() {
    let mut world = World::new().await;
    let a = world.start_with("a", |net| net.answer_delay(RENEW + RETRY));
    world.wait(Duration::from_mins(1)).await;
    assert!(a.leadership.borrow().clone() == Leadership::Standby && !a.leads());
    world.check();
}

#[tokio::test(start_paused = true)]
async fn an_outage_for_all_ends_with_one_leader() {
    let mut world = World::new().await;
    let mut all = [world.start("a"), world.start("b"), world.start("c")];
    world.wait(5 * RETRY).await;
    assert_eq!(all.iter().filter(|candidate| candidate.leads()).count(), 1);
    for candidate in &all {
        candidate.net.trouble(Trouble::Unavailable);
        candidate.net.watches(WatchTrouble::Refused);
        candidate.net.take_counts();
    }
    world.wait(RENEW).await;
    assert!(all.iter().all(|candidate| !candidate.leads()));
    world.wait(Duration::from_mins(10)).await;
    for candidate in &mut all {
        let sent: u32 = candidate.net.take_counts().values().sum();
        assert!(sent <= 610 / 2 + 50, "{sent} requests in ten minutes");
        candidate.net.trouble(Trouble::None);
        candidate.net.watches(WatchTrouble::None);
    }
    world.wait(AGAIN).await;
    assert_eq!(all.iter().filter(|candidate| candidate.leads()).count(), 1);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_misleads_nobody() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let mut b = world.start("b");
    world.wait(RETRY).await;
    for candidate in [&a, &b] {
        candidate.net.watches(WatchTrouble::Silent);
    }
    let term = a.fence.term();
    world.wait(Duration::from_mins(5)).await;
    assert_eq!(a.fence.term(), term);
    assert!(!b.leads());
    drop(a.tasks);
    b.elected(&world, LEASE + AGAIN).await;
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_behind_misleads_nobody() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let mut b = world.start("b");
    world.wait(RETRY).await;
    let revision = world.sandbox.revision();
    a.net.hold_at(revision);
    b.net.hold_at(revision);
    let term = a.fence.term();
    world.wait(Duration::from_mins(2)).await;
    a.net.catch_up();
    b.net.catch_up();
    world.wait(Duration::from_mins(2)).await;
    assert_eq!(a.fence.term(), term, "old news of its own lease is no news");
    a.release(&[]);
    assert!(b.elected(&world, RETRY).await < 100 * MILLI);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_gets_no_answers_does_not_keep_others_from_leading() {
    let mut world = World::new().await;
    let a = world.start_with("a", |net| net.trouble(Trouble::AnswerLost));
    world.wait(RETRY).await;
    assert!(world.lease().await.is_some());
    let mut b = world.start("b");
    // It may renew once more before it gives up.
    b.elected(&world, RENEW + AGAIN).await;
    world.wait(Duration::from_mins(5)).await;
    assert!(b.leads() && !a.leads());
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_keep_what_is_written_is_not_asked_all_the_time() {
    let mut world = World::new().await;
    let a = world.start_with("a", |net| {
        net.trouble(Trouble::Swallowed);
        net.latency(10 * MILLI);
    });
    world.wait(Duration::from_mins(1)).await;
    assert!(!a.leads());
    let requests: u32 = a.net.take_counts().into_values().sum();
    assert!((20..120).contains(&requests), "{requests}");
}
