//! A standby syncs its caches before it becomes the leader.

use std::future::{pending, ready};

use super::*;

impl Fixture {
    /// Returns the number of lists and watches of the caches.
    fn reads(&self, prefix: &str) -> usize {
        let all = self.api.all_recorded();
        let reads = all
            .iter()
            .filter(|it| !it.by_controller && it.operation.starts_with(prefix));
        reads.count()
    }

    fn has_cache(&self, plural: &str) -> bool {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.expect("metrics");
        let mut series = text
            .lines()
            .filter(|it| it.starts_with("steersman_cache_objects{"));
        series.any(|it| it.contains(&format!("resource=\"{plural}\"")))
    }
}

#[tokio::test(start_paused = true)]
async fn new_leader_with_warm_caches_starts_without_lists() {
    let f = unstarted();
    let owner = f.create_owner("owner", 20).await;
    let collector = f.build(Options::default(), Scope::default());
    collector.warm(ready(()));
    f.sleep(Duration::from_secs(2)).await;
    assert_eq!((f.reads("LIST"), f.reads("WATCH")), (6, 6));
    // No leader collects for a minute.
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.api.recorded().len(), 0);
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST configmaps" => Effect::Hang,
        _ => Effect::Pass,
    });
    let lists = f.reads("LIST");
    let start = f.env.clock.now();
    f.run(collector);
    f.until(async |f| f.left(&MAPS).await == 0).await;
    assert!(f.env.clock.now() - start <= Duration::from_millis(500));
    assert_eq!(f.reads("LIST"), lists);
}

#[tokio::test(start_paused = true)]
async fn standby_follows_added_and_removed_kinds() {
    let f = unstarted();
    f.kinds.send_replace(Some(kinds_of(&[MAPS])));
    let collector = f.build(Options::default(), Scope::default());
    collector.warm(ready(()));
    f.sleep(Duration::from_secs(2)).await;
    assert_eq!(f.reads("LIST"), 1);
    f.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS])));
    f.sleep(Duration::from_secs(2)).await;
    assert_eq!(f.reads("LIST secrets"), 1);
    assert!(f.has_cache("secrets"));
    f.kinds.send_replace(Some(kinds_of(&[MAPS])));
    f.sleep(Duration::from_secs(2)).await;
    assert!(f.has_cache("configmaps") && !f.has_cache("secrets"));
}

#[tokio::test(start_paused = true)]
async fn standby_that_may_not_run_reads_nothing() {
    let f = unstarted();
    let collector = f.build(Options::default(), Scope::default());
    collector.warm(pending());
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.reads(""), 0);
}

/// A watch that stalled before the takeover does not show a blocking dependent.
#[tokio::test(start_paused = true)]
async fn foreground_finalizer_waits_until_inherited_caches_are_current() {
    let f = unstarted();
    let owner = f.create(&SECRETS, "owner", &[]).await;
    let collector = f.build(Options::default(), Scope::default());
    collector.warm(ready(()));
    f.sleep(Duration::from_secs(2)).await;
    f.api.lag().hold_at("configmaps", f.sandbox.revision());
    f.create(&MAPS, "dependent-0", &[blocking(&owner)]).await;
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.run(collector);
    for _ in 0..100 {
        f.sleep(Duration::from_millis(100)).await;
        let (owner, left) = (f.get(&SECRETS, "owner").await, f.left(&MAPS).await);
        assert!(
            owner.is_some() || left == 0,
            "the blocking dependent outlives its owner"
        );
    }
    f.api.lag().release();
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    assert_eq!(f.left(&MAPS).await, 0);
    // The caches are verified once per term.
    let owner = f.create(&SECRETS, "second", &[]).await;
    f.settle().await;
    f.api.reset();
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.until(async |f| f.get(&SECRETS, "second").await.is_none()).await;
    assert_eq!(f.api.counts().len(), 1, "{:?}", f.api.counts());
}

#[tokio::test(start_paused = true)]
async fn inherited_cache_of_unknown_age_delays_finalizers_for_a_bounded_time() {
    let f = unstarted();
    let owner = f.create(&SECRETS, "owner", &[]).await;
    let collector = f.build(Options::default(), Scope::default());
    collector.warm(ready(()));
    f.sleep(Duration::from_secs(2)).await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST pods" => status_reply(500, json!({"reason": "InternalError"})),
        _ => Effect::Pass,
    });
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.run(collector);
    f.sleep(Duration::from_secs(29)).await;
    assert!(f.get(&SECRETS, "owner").await.is_some());
    f.sleep(Duration::from_secs(4)).await;
    assert!(f.get(&SECRETS, "owner").await.is_none());
    assert!(f.api.count("LIST pods") <= 17, "{}", f.api.count("LIST pods"));
}
