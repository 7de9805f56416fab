//! A change of a CRD is followed by a read of discovery.

use std::time::Duration;

use serde_json::json;

use super::fault_injector::Fault;
use super::{CRDS, Fixture, SECOND, fixture, fixture_with, known};

/// The number of reads.
fn reads(f: &Fixture) -> usize {
    f.api.asked().0.iter().filter(|it| *it == "/apis").count()
}

#[tokio::test(start_paused = true)]
async fn new_crd_is_published_and_its_cache_filled_within_a_second() {
    for aggregated in [true, false] {
        for round in 0..20 {
            let f = known().await;
            if aggregated {
                f.api.aggregate(&[]);
            }
            // At any time after the last read.
            f.sleep(Duration::from_millis(1000 + 97 * round)).await;
            f.define("things.t.io", &["v1beta1", "v1"]).await;
            let start = f.now();
            f.within(SECOND, "published", || f.collects("t.io/v1 things"))
                .await;
            assert!(f.resolves("t.io/v1", "Kind6") && f.resolves("t.io/v1beta1", "Kind6"));
            let kinds = f.discovery.kinds();
            let kinds = kinds.borrow().clone().expect("published");
            let kind = kinds.collected().iter().find(|it| it.resource.plural == "things");
            let cache = f.caches.metadata(&kind.expect("the kind").resource);
            f.within(SECOND, "filled", || cache.is_synced()).await;
            assert!(f.now() - start <= SECOND, "{:?}", f.now() - start);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_that_lags_behind_a_new_crd_is_read_again_soon() {
    let f = known().await;
    f.sleep(SECOND).await;
    let lagging = f.api.document("/apis").await;
    f.api
        .rule(move |path| (path == "/apis").then(|| Fault::Response(200, lagging.clone())));
    f.define("things.t.io", &["v1"]).await;
    f.sleep(2 * SECOND).await;
    assert!(!f.collects("t.io/v1 things"));
    f.api.heal();
    f.within(3 * SECOND, "published", || f.collects("t.io/v1 things"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn discovery_that_lags_behind_a_deleted_crd_is_read_again_soon() {
    let f = known().await;
    f.define("things.t.io", &["v1"]).await;
    f.within(SECOND, "published", || f.collects("t.io/v1 things"))
        .await;
    f.sleep(SECOND).await;
    let lagging = f.api.document("/apis").await;
    let version = f.api.document("/apis/t.io/v1").await;
    f.api.rule(move |path| match path {
        "/apis" => Some(Fault::Response(200, lagging.clone())),
        "/apis/t.io/v1" => Some(Fault::Response(200, version.clone())),
        _ => None,
    });
    f.undefine("things.t.io").await;
    f.sleep(2 * SECOND).await;
    assert!(f.collects("t.io/v1 things"), "the document still lists it");
    f.api.heal();
    f.within(4 * SECOND, "gone", || !f.resolves("t.io/v1", "Kind6"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn crd_that_is_never_served_costs_few_reads() {
    let f = known().await;
    f.sleep(SECOND).await;
    let lagging = f.api.document("/apis").await;
    f.api
        .rule(move |path| (path == "/apis").then(|| Fault::Response(200, lagging.clone())));
    f.define("things.t.io", &["v1"]).await;
    f.api.asked();
    f.sleep(60 * SECOND).await;
    let first = reads(&f);
    assert!((8..=13).contains(&first), "{first}");
    f.sleep(600 * SECOND).await;
    let later = reads(&f);
    assert!((20..=26).contains(&later), "one each half minute: {later}");
    assert_eq!(f.discovery.problems(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn many_crds_share_reads() {
    let f = fixture(|api| api.aggregate(&[])).await;
    f.within(SECOND, "known", || f.collects("v1 pods")).await;
    f.sleep(SECOND).await;
    f.api.asked();
    for n in 1..=50 {
        f.define(&format!("{}.t.io", "x".repeat(n)), &["v1"]).await;
        f.sleep(SECOND / 10).await;
    }
    f.sleep(SECOND).await;
    let count = f.collected().iter().filter(|it| it.contains("t.io/")).count();
    assert_eq!(count, 50);
    let reads = reads(&f);
    assert!((8..=14).contains(&reads), "{reads} in six seconds");
}

#[tokio::test(start_paused = true)]
async fn version_that_is_no_longer_served_goes() {
    let f = known().await;
    f.define("things.t.io", &["v1", "v2"]).await;
    f.within(SECOND, "known", || f.resolves("t.io/v2", "Kind6")).await;
    let mut patch = super::crd("things.t.io", &["v1", "v2"]);
    patch["spec"]["versions"][1]["served"] = json!(false);
    let patch = json!({"spec": {"versions": patch["spec"]["versions"]}});
    f.patch(&CRDS, "things.t.io", &patch).await;
    f.within(SECOND, "changed", || !f.resolves("t.io/v2", "Kind6"))
        .await;
    assert!(f.collects("t.io/v1 things"));
}

#[tokio::test(start_paused = true)]
async fn crds_that_cannot_be_watched_are_found_within_half_a_minute() {
    let forbidden = r#"{"kind":"Status","code":403,"reason":"Forbidden"}"#;
    for act in [Fault::Response(403, forbidden.to_owned()), Fault::Hang] {
        let f = fixture_with(&["things.t.io"], move |api| {
            api.rule(move |path| path.ends_with("/customresourcedefinitions").then(|| act.clone()));
        })
        .await;
        f.within(SECOND, "known", || f.collects("t.io/v1 things")).await;
        f.define("gadgets.t.io", &["v1"]).await;
        f.within(31 * SECOND, "read", || f.collects("t.io/v1 gadgets"))
            .await;
        f.undefine("gadgets.t.io").await;
        f.within(31 * SECOND, "read", || !f.collects("t.io/v1 gadgets"))
            .await;
    }
}

/// One of several API servers has not noticed a CRD yet: its answer must not remove the kind, and with it the nodes that block
/// owners.
#[tokio::test(start_paused = true)]
async fn kind_whose_crd_exists_survives_a_document_that_lags() {
    let f = known().await;
    f.sleep(SECOND).await;
    let lagging = f.api.document("/apis").await;
    f.define("things.t.io", &["v1"]).await;
    f.within(SECOND, "published", || f.collects("t.io/v1 things"))
        .await;
    f.sleep(SECOND).await;
    let mut kinds = f.discovery.kinds();
    kinds.mark_unchanged();
    let rule = move |path: &str| (path == "/apis").then(|| Fault::Response(200, lagging.clone()));
    f.api.rule(rule.clone());
    f.sleep(45 * SECOND).await;
    f.api.heal();
    f.sleep(45 * SECOND).await;
    assert!(!kinds.has_changed().expect("it lives"));
    // It is not served, although its CRD exists.
    f.api.rule(rule);
    f.within(125 * SECOND, "gone", || !f.resolves("t.io/v1", "Kind6"))
        .await;
}
