//! When nothing goes wrong.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_first_takes_it_at_once_and_pays_one_request_a_period() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    assert!(a.elected(&world, RETRY).await < 10 * MILLI);
    assert_eq!(a.takeover(), Some(Takeover::Unclean));
    let lease = world.lease().await.expect("a lease");
    let spec = &lease["spec"];
    assert_eq!(spec["holderIdentity"], json!(a.identity));
    assert_eq!(
        (&spec["leaseDurationSeconds"], &spec["leaseTransitions"]),
        (&json!(15), &json!(0))
    );
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    world.wait(RETRY / 2).await;
    a.net.take_counts();
    world.wait(100 * RETRY).await;
    let mut counts = a.net.take_counts();
    assert!(counts.remove("PATCH").is_some_and(|writes| writes > 500));
    assert_eq!(counts, BTreeMap::from([("PUT", 100)]));
    let later = world.lease().await.expect("a lease");
    assert_eq!(later["spec"]["acquireTime"], spec["acquireTime"]);
    assert_ne!(later["spec"]["renewTime"], spec["renewTime"]);
    assert_eq!(later["spec"]["leaseTransitions"], json!(0));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_standby_only_watches() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let b = world.start("b");
    world.wait(RETRY).await;
    let started = b.net.take_counts();
    assert_eq!(started.get("WATCH"), Some(&1));
    assert!(started.get("GET").is_some_and(|reads| *reads <= 2), "{started:?}");
    world.wait(Duration::from_secs(250)).await;
    assert_eq!(b.net.take_counts(), BTreeMap::new());
    world.wait(Duration::from_mins(20)).await;
    let counts = b.net.take_counts();
    assert!(
        counts.values().sum::<u32>() <= 2 * 5 && !counts.contains_key("PUT"),
        "a watch and a read each 5 to 10 minutes: {counts:?}"
    );
    assert!(a.leads() && !b.leads());
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_cannot_watch_asks() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    a.elected(&world, RETRY).await;
    let mut b = world.start_with("b", |net| net.watches(WatchTrouble::Refused));
    world.wait(Duration::from_mins(10)).await;
    let counts = b.net.take_counts();
    let reads = counts["GET"];
    assert!((600 / 5..=600 / 2).contains(&reads), "each 2.0 to 4.4 s: {reads}");
    assert!(counts["WATCH"] < 40, "{counts:?}");
    assert!(!counts.contains_key("PUT"));
    a.release(&[]);
    assert!(b.elected(&world, AGAIN).await <= 2 * RETRY + RETRY / 2);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn metrics_and_health_follow() {
    let mut world = World::new().await;
    let mut a = world.start("a");
    let mut b = world.start("b");
    assert_eq!(a.gauge("leader_election_master_status").to_string(), "0");
    a.elected(&world, RETRY).await;
    world.wait(RETRY).await;
    assert_eq!(a.gauge("leader_election_master_status").to_string(), "1");
    assert_eq!(b.gauge("leader_election_master_status").to_string(), "0");
    assert_eq!(a.gauge("leader_election_slowpath_total").to_string(), "0");
    // Somebody puts a label on it: the next renewal has to read, and nothing else happens.
    let term = a.fence.term();
    world
        .rewrite(json!({"metadata": {"labels": {"team": "x"}, "annotations": {"y": "z"}}}))
        .await;
    world.wait(2 * RETRY).await;
    assert_eq!(a.fence.term(), term);
    let lease = world.lease().await.expect("a lease");
    assert_eq!(lease["metadata"]["labels"], json!({"team": "x"}));
    assert_eq!(lease["metadata"]["annotations"], json!({"y": "z"}));
    a.net.trouble(Trouble::Conflict);
    world.wait(RETRY + RETRY / 2).await;
    a.net.trouble(Trouble::None);
    world.wait(2 * RETRY).await;
    assert_eq!(a.fence.term(), term);
    assert!(a.gauge("leader_election_slowpath_total") >= 1.0);
    assert_eq!(a.health.check(), Ok(()));
    a.net.trouble(Trouble::Unavailable);
    a.deposed(&world, RENEW).await;
    assert_eq!(a.gauge("leader_election_master_status").to_string(), "0");
    b.elected(&world, AGAIN).await;
    assert_eq!(b.gauge("leader_election_master_status").to_string(), "1");
    world.wait(Duration::from_mins(5)).await;
    assert_eq!((a.health.check(), b.health.check()), (Ok(()), Ok(())));
    world.check();
}
