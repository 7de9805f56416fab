//! A standby has read everything before it leads.

use std::future::{pending, ready};

use super::*;

impl Fixture {
    /// How many lists and watches fill the caches.
    fn reads(&self, what: &str) -> usize {
        let all = self.api.all_recorded();
        let reads = all
            .iter()
            .filter(|it| !it.by_controller && it.operation.starts_with(what));
        reads.count()
    }

    /// Whether there is a cache of a resource.
    fn caches(&self, plural: &str) -> bool {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.expect("metrics");
        let mut series = text
            .lines()
            .filter(|it| it.starts_with("coxswain_cache_objects{"));
        series.any(|it| it.contains(&format!("resource=\"{plural}\"")))
    }
}

#[tokio::test(start_paused = true)]
async fn who_takes_over_reads_nothing_and_begins_at_once() {
    let f = bare();
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.dependents(&MAPS, &owner, 20).await;
    let collector = f.build(Options::default(), Scope::default());
    collector.warm(ready(()));
    f.sleep(Duration::from_secs(2)).await;
    assert_eq!((f.reads("LIST"), f.reads("WATCH")), (6, 6));
    // Its leader dies, and nobody collects for a while.
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.api.recorded().len(), 0);
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST configmaps" => Fault::RequestHangs,
        _ => Fault::None,
    });
    let lists = f.reads("LIST");
    let start = f.env.clock.now();
    f.run(collector);
    f.until(async |f| f.left(&MAPS).await == 0).await;
    assert!(f.env.clock.now() - start <= Duration::from_millis(500));
    assert_eq!(f.reads("LIST"), lists);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_is_read_and_one_that_goes_is_not() {
    let f = bare();
    f.kinds.send_replace(Some(kinds_of(&[MAPS])));
    let collector = f.build(Options::default(), Scope::default());
    collector.warm(ready(()));
    f.sleep(Duration::from_secs(2)).await;
    assert_eq!(f.reads("LIST"), 1);
    f.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS])));
    f.sleep(Duration::from_secs(2)).await;
    assert_eq!(f.reads("LIST secrets"), 1);
    assert!(f.caches("secrets"));
    f.kinds.send_replace(Some(kinds_of(&[MAPS])));
    f.sleep(Duration::from_secs(2)).await;
    assert!(f.caches("configmaps") && !f.caches("secrets"));
}

#[tokio::test(start_paused = true)]
async fn who_may_not_run_reads_nothing() {
    let f = bare();
    let collector = f.build(Options::default(), Scope::default());
    collector.warm(pending());
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.reads(""), 0);
}

/// A watch that died silently before the takeover does not show a blocking dependent.
#[tokio::test(start_paused = true)]
async fn foreground_finalizer_waits_until_inherited_caches_are_current() {
    let f = bare();
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
            "the owner outlives its blocking dependent"
        );
    }
    f.api.lag().release();
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    assert_eq!(f.left(&MAPS).await, 0);
    // Proven once, for all deletions of the term.
    let owner = f.create(&SECRETS, "second", &[]).await;
    f.settle().await;
    f.api.reset();
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.until(async |f| f.get(&SECRETS, "second").await.is_none()).await;
    assert_eq!(f.api.counts().len(), 1, "{:?}", f.api.counts());
}

#[tokio::test(start_paused = true)]
async fn inherited_cache_that_cannot_be_proven_delays_finalizers_for_a_bounded_time() {
    let f = bare();
    let owner = f.create(&SECRETS, "owner", &[]).await;
    let collector = f.build(Options::default(), Scope::default());
    collector.warm(ready(()));
    f.sleep(Duration::from_secs(2)).await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "LIST pods" => Fault::Status(500, json!({"reason": "InternalError"})),
        _ => Fault::None,
    });
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.run(collector);
    f.sleep(Duration::from_secs(29)).await;
    assert!(f.get(&SECRETS, "owner").await.is_some());
    f.sleep(Duration::from_secs(4)).await;
    assert!(f.get(&SECRETS, "owner").await.is_none());
    assert!(f.api.count("LIST pods") <= 17, "{}", f.api.count("LIST pods"));
}
