//! A standby has read everything before it leads.

use std::future::{pending, ready};

use super::*;

impl Bed {
    /// How many lists and watches fill the caches.
    fn reads(&self, what: &str) -> usize {
        let all = self.door.all();
        let reads = all.iter().filter(|it| !it.ours && it.what.starts_with(what));
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
    let bed = bare();
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.dependents(&MAPS, &owner, 20).await;
    let collector = bed.build(Options::default(), Scope::default());
    collector.warm(ready(()));
    bed.sleep(Duration::from_secs(2)).await;
    assert_eq!((bed.reads("LIST"), bed.reads("WATCH")), (6, 6));
    // Its leader dies, and nobody collects for a while.
    bed.delete(&SECRETS, &owner, Propagation::Background).await;
    bed.sleep(Duration::from_mins(1)).await;
    assert_eq!(bed.door.asked().len(), 0);
    bed.door.judge(|it| match it.what.as_str() {
        "LIST configmaps" => Answer::Hangs,
        _ => Answer::Done,
    });
    let lists = bed.reads("LIST");
    let start = bed.env.clock.now();
    bed.run(collector);
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
    assert!(bed.env.clock.now() - start <= Duration::from_millis(500));
    assert_eq!(bed.reads("LIST"), lists);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_is_read_and_one_that_goes_is_not() {
    let bed = bare();
    bed.kinds.send_replace(Some(kinds_of(&[MAPS])));
    let collector = bed.build(Options::default(), Scope::default());
    collector.warm(ready(()));
    bed.sleep(Duration::from_secs(2)).await;
    assert_eq!(bed.reads("LIST"), 1);
    bed.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS])));
    bed.sleep(Duration::from_secs(2)).await;
    assert_eq!(bed.reads("LIST secrets"), 1);
    assert!(bed.caches("secrets"));
    bed.kinds.send_replace(Some(kinds_of(&[MAPS])));
    bed.sleep(Duration::from_secs(2)).await;
    assert!(bed.caches("configmaps") && !bed.caches("secrets"));
}

#[tokio::test(start_paused = true)]
async fn who_may_not_run_reads_nothing() {
    let bed = bare();
    let collector = bed.build(Options::default(), Scope::default());
    collector.warm(pending());
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(bed.reads(""), 0);
}

/// A watch that died silently before the takeover does not show a blocking dependent.
#[tokio::test(start_paused = true)]
async fn foreground_finalizer_waits_until_inherited_caches_are_current() {
    let bed = bare();
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    let collector = bed.build(Options::default(), Scope::default());
    collector.warm(ready(()));
    bed.sleep(Duration::from_secs(2)).await;
    bed.door.lag().hold_at("configmaps", bed.sandbox.revision());
    bed.create(&MAPS, "dependent-0", &[blocking(&owner)]).await;
    bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
    bed.run(collector);
    for _ in 0..100 {
        bed.sleep(Duration::from_millis(100)).await;
        let (owner, left) = (bed.get(&SECRETS, "owner").await, bed.left(&MAPS).await);
        assert!(
            owner.is_some() || left == 0,
            "the owner outlives its blocking dependent"
        );
    }
    bed.door.lag().release();
    bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
        .await;
    assert_eq!(bed.left(&MAPS).await, 0);
    // Proven once, for all deletions of the term.
    let owner = bed.create(&SECRETS, "second", &[]).await;
    bed.settle().await;
    bed.door.reset();
    bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
    bed.until(async |bed| bed.get(&SECRETS, "second").await.is_none())
        .await;
    assert_eq!(bed.door.counts().len(), 1, "{:?}", bed.door.counts());
}

#[tokio::test(start_paused = true)]
async fn inherited_cache_that_cannot_be_proven_delays_finalizers_for_a_bounded_time() {
    let bed = bare();
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    let collector = bed.build(Options::default(), Scope::default());
    collector.warm(ready(()));
    bed.sleep(Duration::from_secs(2)).await;
    bed.door.judge(|it| match it.what.as_str() {
        "LIST pods" => Answer::Refused(500, json!({"reason": "InternalError"})),
        _ => Answer::Done,
    });
    bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
    bed.run(collector);
    bed.sleep(Duration::from_secs(29)).await;
    assert!(bed.get(&SECRETS, "owner").await.is_some());
    bed.sleep(Duration::from_secs(4)).await;
    assert!(bed.get(&SECRETS, "owner").await.is_none());
    assert!(
        bed.door.count("LIST pods") <= 17,
        "{}",
        bed.door.count("LIST pods")
    );
}
