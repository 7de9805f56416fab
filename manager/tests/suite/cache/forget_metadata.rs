//! Caches of resources that are no longer served are dropped.

use steersman_manager::cache::Lookup;
use steersman_manager::object::MetaObject;

use super::server::Verb;
use super::*;

/// Returns the number of metrics of a resource.
fn series(f: &Fixture, plural: &str) -> usize {
    let families = f.registry.gather();
    let metrics = families
        .iter()
        .flat_map(prometheus::proto::MetricFamily::get_metric);
    metrics
        .filter(|metric| {
            let mut labels = metric.get_label().iter();
            labels.any(|label| label.name() == "resource" && label.value() == plural)
        })
        .count()
}

#[tokio::test(start_paused = true)]
async fn forgotten_metadata_cache_stops_and_can_be_recreated() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let metadata = f.caches.metadata(&MAPS);
    metadata.synced().await;
    settle().await;
    let mut subscription = metadata.subscribe();
    assert!(subscription.try_next().is_some());
    assert!(series(&f, "configmaps") > 0);
    let requests = f.server.log().len();

    f.caches.forget_metadata(&MAPS);
    assert_eq!(f.caches.statuses(), []);
    assert_eq!(series(&f, "configmaps"), 0);
    set(&f.sandbox, "a", "2").await;
    f.sleep(3600).await;
    assert_eq!(f.server.log().len(), requests, "no request");
    assert!(subscription.is_empty(), "no change");
    assert!(
        matches!(metadata.get(&key("a")), Lookup::Present(_)),
        "a handle keeps the last state"
    );
    drop(metadata);
    assert!(subscription.next().await.is_none(), "the last handle was dropped");

    let again = f.caches.metadata(&MAPS);
    f.within(1, "synced again", || again.is_synced()).await;
    assert_eq!(again.version(), f.caches.metadata(&MAPS).version());
    assert_eq!((f.server.count(Verb::List), f.server.count(Verb::Watch)), (2, 2));
    assert!(series(&f, "configmaps") > 0);
}

#[tokio::test(start_paused = true)]
async fn typed_cache_is_not_forgotten() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let typed = f.synced().await;
    let _ = f.caches.metadata(&MAPS);
    f.caches.forget_metadata(&MAPS);
    set(&f.sandbox, "a", "2").await;
    f.within(1, "followed", || value(&typed, "a").as_deref() == Some("2"))
        .await;

    let alone: Cache<MetaObject> = f.caches.of(&MAPS);
    f.within(1, "synced", || alone.is_synced()).await;
    f.caches.forget_metadata(&MAPS);
    create(&f.sandbox, "b", "1").await;
    f.within(1, "followed", || alone.len() == 2).await;
    assert!(series(&f, "configmaps") > 0);
}

#[tokio::test(start_paused = true)]
async fn forgetting_one_of_two_caches_keeps_the_metrics() {
    let f = fixture();
    let metadata = f.caches.metadata(&MAPS);
    metadata.synced().await;
    let typed = f.synced().await;
    let mut subscription = metadata.subscribe();
    f.caches.forget_metadata(&MAPS);
    assert!(series(&f, "configmaps") > 0);
    create(&f.sandbox, "a", "1").await;
    f.within(1, "followed", || typed.len() == 1).await;
    assert!(metadata.all().is_empty() && subscription.is_empty(), "no change");
    drop(metadata);
    assert!(subscription.next().await.is_none(), "the last handle was dropped");
}
