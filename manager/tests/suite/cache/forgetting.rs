//! A kind that is gone is let go of: nothing is read of it any more, and nothing of it is shown.

use coxswain_manager::cache::Lookup;
use coxswain_manager::object::MetaObject;

use super::server::Verb;
use super::*;

/// How many series there are of a resource.
fn series(bed: &Bed, plural: &str) -> usize {
    let families = bed.registry.gather();
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
async fn metadata_is_let_go_of_and_can_be_had_again() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let metadata = bed.caches.metadata(&MAPS);
    metadata.synced().await;
    settle().await;
    let mut subscription = metadata.subscribe();
    assert!(subscription.try_next().is_some());
    assert!(series(&bed, "configmaps") > 0);
    let asked = bed.server.log().len();

    bed.caches.forget_metadata(&MAPS);
    assert_eq!(bed.caches.statuses(), []);
    assert_eq!(series(&bed, "configmaps"), 0);
    set(&bed.sandbox, "a", "2").await;
    bed.sleep(3600).await;
    assert_eq!(bed.server.log().len(), asked, "nothing is read");
    assert!(subscription.is_empty(), "nothing is told");
    assert!(
        matches!(metadata.get(&key("a")), Lookup::Present(_)),
        "a handle shows what was"
    );
    drop(metadata);
    assert!(subscription.next().await.is_none(), "nobody holds it any more");

    let again = bed.caches.metadata(&MAPS);
    bed.within(1, "filled anew", || again.is_synced()).await;
    assert_eq!(again.version(), bed.caches.metadata(&MAPS).version());
    assert_eq!(
        (bed.server.count(Verb::List), bed.server.count(Verb::Watch)),
        (2, 2)
    );
    assert!(series(&bed, "configmaps") > 0);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_asked_for_by_its_projection_stays() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let typed = bed.synced().await;
    let _ = bed.caches.metadata(&MAPS);
    bed.caches.forget_metadata(&MAPS);
    set(&bed.sandbox, "a", "2").await;
    bed.within(1, "followed", || value(&typed, "a").as_deref() == Some("2"))
        .await;

    let alone: Cache<MetaObject> = bed.caches.of(&MAPS);
    bed.within(1, "filled", || alone.is_synced()).await;
    bed.caches.forget_metadata(&MAPS);
    assert_eq!(bed.caches.statuses().len(), 2, "asked for as such");
    create(&bed.sandbox, "b", "1").await;
    bed.within(1, "followed", || alone.len() == 2).await;
    assert!(series(&bed, "configmaps") > 0);
}

#[tokio::test(start_paused = true)]
async fn a_second_one_that_goes_leaves_the_series_of_the_first() {
    let bed = bed();
    let metadata = bed.caches.metadata(&MAPS);
    metadata.synced().await;
    let typed = bed.synced().await;
    bed.caches.forget_metadata(&MAPS);
    assert_eq!(bed.caches.statuses().len(), 1);
    assert!(series(&bed, "configmaps") > 0);
    create(&bed.sandbox, "a", "1").await;
    bed.within(1, "followed", || typed.len() == 1).await;
}
