//! A change of a CRD is followed by a read of discovery.

use std::time::Duration;

use serde_json::json;

use super::way::Act;
use super::{Bed, CRDS, SECOND, bed, bed_with, known};

/// The number of reads.
fn reads(bed: &Bed) -> usize {
    bed.way.asked().0.iter().filter(|it| *it == "/apis").count()
}

#[tokio::test(start_paused = true)]
async fn new_crd_is_published_and_its_cache_filled_within_a_second() {
    for aggregated in [true, false] {
        for round in 0..20 {
            let bed = known().await;
            if aggregated {
                bed.way.aggregate(&[]);
            }
            // At any time after the last read.
            bed.sleep(Duration::from_millis(1000 + 97 * round)).await;
            bed.define("things.t.io", &["v1beta1", "v1"]).await;
            let start = bed.now();
            bed.within(SECOND, "published", || bed.collects("t.io/v1 things"))
                .await;
            assert!(bed.resolves("t.io/v1", "Kind6") && bed.resolves("t.io/v1beta1", "Kind6"));
            let kinds = bed.discovery.kinds();
            let kinds = kinds.borrow().clone().expect("published");
            let kind = kinds.collected().iter().find(|it| it.resource.plural == "things");
            let cache = bed.caches.metadata(&kind.expect("the kind").resource);
            bed.within(SECOND, "filled", || cache.is_synced()).await;
            assert!(bed.now() - start <= SECOND, "{:?}", bed.now() - start);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_that_lags_behind_a_new_crd_is_read_again_soon() {
    let bed = known().await;
    bed.sleep(SECOND).await;
    let lagging = bed.way.document("/apis").await;
    bed.way
        .rule(move |path| (path == "/apis").then(|| Act::Answer(200, lagging.clone())));
    bed.define("things.t.io", &["v1"]).await;
    bed.sleep(2 * SECOND).await;
    assert!(!bed.collects("t.io/v1 things"));
    bed.way.heal();
    bed.within(3 * SECOND, "published", || bed.collects("t.io/v1 things"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn discovery_that_lags_behind_a_deleted_crd_is_read_again_soon() {
    let bed = known().await;
    bed.define("things.t.io", &["v1"]).await;
    bed.within(SECOND, "published", || bed.collects("t.io/v1 things"))
        .await;
    bed.sleep(SECOND).await;
    let lagging = bed.way.document("/apis").await;
    let version = bed.way.document("/apis/t.io/v1").await;
    bed.way.rule(move |path| match path {
        "/apis" => Some(Act::Answer(200, lagging.clone())),
        "/apis/t.io/v1" => Some(Act::Answer(200, version.clone())),
        _ => None,
    });
    bed.undefine("things.t.io").await;
    bed.sleep(2 * SECOND).await;
    assert!(bed.collects("t.io/v1 things"), "the document still lists it");
    bed.way.heal();
    bed.within(4 * SECOND, "gone", || !bed.resolves("t.io/v1", "Kind6"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn crd_that_is_never_served_costs_few_reads() {
    let bed = known().await;
    bed.sleep(SECOND).await;
    let lagging = bed.way.document("/apis").await;
    bed.way
        .rule(move |path| (path == "/apis").then(|| Act::Answer(200, lagging.clone())));
    bed.define("things.t.io", &["v1"]).await;
    bed.way.asked();
    bed.sleep(60 * SECOND).await;
    let first = reads(&bed);
    assert!((8..=13).contains(&first), "{first}");
    bed.sleep(600 * SECOND).await;
    let later = reads(&bed);
    assert!((20..=26).contains(&later), "one each half minute: {later}");
    assert_eq!(bed.discovery.problems(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn many_crds_share_reads() {
    let bed = bed(|way| way.aggregate(&[])).await;
    bed.within(SECOND, "known", || bed.collects("v1 pods")).await;
    bed.sleep(SECOND).await;
    bed.way.asked();
    for n in 1..=50 {
        bed.define(&format!("{}.t.io", "x".repeat(n)), &["v1"]).await;
        bed.sleep(SECOND / 10).await;
    }
    bed.sleep(SECOND).await;
    let count = bed.collected().iter().filter(|it| it.contains("t.io/")).count();
    assert_eq!(count, 50);
    let reads = reads(&bed);
    assert!((8..=14).contains(&reads), "{reads} in six seconds");
}

#[tokio::test(start_paused = true)]
async fn version_that_is_no_longer_served_goes() {
    let bed = known().await;
    bed.define("things.t.io", &["v1", "v2"]).await;
    bed.within(SECOND, "known", || bed.resolves("t.io/v2", "Kind6"))
        .await;
    let mut patch = super::crd("things.t.io", &["v1", "v2"]);
    patch["spec"]["versions"][1]["served"] = json!(false);
    let patch = json!({"spec": {"versions": patch["spec"]["versions"]}});
    bed.patch(&CRDS, "things.t.io", &patch).await;
    bed.within(SECOND, "changed", || !bed.resolves("t.io/v2", "Kind6"))
        .await;
    assert!(bed.collects("t.io/v1 things"));
}

#[tokio::test(start_paused = true)]
async fn crds_that_cannot_be_watched_are_found_within_half_a_minute() {
    let forbidden = r#"{"kind":"Status","code":403,"reason":"Forbidden"}"#;
    for act in [Act::Answer(403, forbidden.to_owned()), Act::Hang] {
        let bed = bed_with(&["things.t.io"], move |way| {
            way.rule(move |path| path.ends_with("/customresourcedefinitions").then(|| act.clone()));
        })
        .await;
        bed.within(SECOND, "known", || bed.collects("t.io/v1 things"))
            .await;
        bed.define("gadgets.t.io", &["v1"]).await;
        bed.within(31 * SECOND, "read", || bed.collects("t.io/v1 gadgets"))
            .await;
        bed.undefine("gadgets.t.io").await;
        bed.within(31 * SECOND, "read", || !bed.collects("t.io/v1 gadgets"))
            .await;
    }
}

/// One of several API servers has not noticed a CRD yet: its answer must not remove the kind, and with it the nodes that block
/// owners.
#[tokio::test(start_paused = true)]
async fn kind_whose_crd_exists_survives_a_document_that_lags() {
    let bed = known().await;
    bed.sleep(SECOND).await;
    let lagging = bed.way.document("/apis").await;
    bed.define("things.t.io", &["v1"]).await;
    bed.within(SECOND, "published", || bed.collects("t.io/v1 things"))
        .await;
    bed.sleep(SECOND).await;
    let mut kinds = bed.discovery.kinds();
    kinds.mark_unchanged();
    let rule = move |path: &str| (path == "/apis").then(|| Act::Answer(200, lagging.clone()));
    bed.way.rule(rule.clone());
    bed.sleep(45 * SECOND).await;
    bed.way.heal();
    bed.sleep(45 * SECOND).await;
    assert!(!kinds.has_changed().expect("it lives"));
    // It is not served, although its CRD exists.
    bed.way.rule(rule);
    bed.within(125 * SECOND, "gone", || !bed.resolves("t.io/v1", "Kind6"))
        .await;
}
