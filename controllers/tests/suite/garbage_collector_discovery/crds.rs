//! Discovery is read after a change of a CRD.

use std::time::Duration;

use serde_json::json;
use steersman_sandbox::faults::Effect;

use super::{CRDS, Fixture, SECOND, fixture, fixture_with, published};

fn reads(f: &Fixture) -> usize {
    f.api.take_requests().0.iter().filter(|it| *it == "/apis").count()
}

#[tokio::test(start_paused = true)]
async fn new_crd_is_published_and_synced_within_a_second() {
    for aggregated in [true, false] {
        for round in 0..20 {
            let f = published().await;
            if aggregated {
                f.api.aggregate(&[]);
            }
            f.sleep(Duration::from_millis(1000 + 97 * round)).await;
            f.create_crd("things.t.io", &["v1beta1", "v1"]).await;
            let start = f.now();
            f.within(SECOND, "published", || f.collects("t.io/v1 things"))
                .await;
            assert!(f.resolves("t.io/v1", "Kind6") && f.resolves("t.io/v1beta1", "Kind6"));
            let kinds = f.discovery.kinds();
            let kinds = kinds.borrow().clone().expect("published");
            let kind = kinds.collected().iter().find(|it| it.resource.plural == "things");
            let cache = f.caches.metadata(&kind.expect("the kind").resource);
            f.within(SECOND, "synced", || cache.is_synced()).await;
            assert!(f.now() - start <= SECOND, "{:?}", f.now() - start);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_behind_a_new_crd_is_reread_soon() {
    let f = published().await;
    f.sleep(SECOND).await;
    let lagging = f.api.document("/apis").await;
    f.api
        .inject(move |path| (path == "/apis").then(|| Effect::reply(200, lagging.clone())));
    f.create_crd("things.t.io", &["v1"]).await;
    f.sleep(2 * SECOND).await;
    assert!(!f.collects("t.io/v1 things"));
    f.api.clear_faults();
    f.within(3 * SECOND, "published", || f.collects("t.io/v1 things"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn discovery_behind_a_deleted_crd_is_reread_soon() {
    let f = published().await;
    f.create_crd("things.t.io", &["v1"]).await;
    f.within(SECOND, "published", || f.collects("t.io/v1 things"))
        .await;
    f.sleep(SECOND).await;
    let lagging = f.api.document("/apis").await;
    let version = f.api.document("/apis/t.io/v1").await;
    f.api.inject(move |path| match path {
        "/apis" => Some(Effect::reply(200, lagging.clone())),
        "/apis/t.io/v1" => Some(Effect::reply(200, version.clone())),
        _ => None,
    });
    f.delete_crd("things.t.io").await;
    f.sleep(2 * SECOND).await;
    assert!(f.collects("t.io/v1 things"), "the document still lists it");
    f.api.clear_faults();
    f.within(4 * SECOND, "removed", || !f.resolves("t.io/v1", "Kind6"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn crd_never_served_costs_few_reads() {
    let f = published().await;
    f.sleep(SECOND).await;
    let lagging = f.api.document("/apis").await;
    f.api
        .inject(move |path| (path == "/apis").then(|| Effect::reply(200, lagging.clone())));
    f.create_crd("things.t.io", &["v1"]).await;
    f.api.take_requests();
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
    f.within(SECOND, "published", || f.collects("v1 pods")).await;
    f.sleep(SECOND).await;
    f.api.take_requests();
    for n in 1..=50 {
        f.create_crd(&format!("{}.t.io", "x".repeat(n)), &["v1"]).await;
        f.sleep(SECOND / 10).await;
    }
    f.sleep(SECOND).await;
    let count = f.collected().iter().filter(|it| it.contains("t.io/")).count();
    assert_eq!(count, 50);
    let reads = reads(&f);
    assert!((8..=14).contains(&reads), "{reads} in six seconds");
}

#[tokio::test(start_paused = true)]
async fn version_no_longer_served_is_removed() {
    let f = published().await;
    f.create_crd("things.t.io", &["v1", "v2"]).await;
    f.within(SECOND, "published", || f.resolves("t.io/v2", "Kind6"))
        .await;
    let mut patch = super::crd("things.t.io", &["v1", "v2"]);
    patch["spec"]["versions"][1]["served"] = json!(false);
    let patch = json!({"spec": {"versions": patch["spec"]["versions"]}});
    f.patch(&CRDS, "things.t.io", &patch).await;
    f.within(SECOND, "changed", || !f.resolves("t.io/v2", "Kind6"))
        .await;
    assert!(f.collects("t.io/v1 things"));
}

#[tokio::test(start_paused = true)]
async fn unwatchable_crds_are_discovered_within_half_a_minute() {
    let forbidden = r#"{"kind":"Status","code":403,"reason":"Forbidden"}"#;
    for fault in [Effect::reply(403, forbidden.to_owned()), Effect::Hang] {
        let f = fixture_with(&["things.t.io"], move |api| {
            api.inject(move |path| {
                path.ends_with("/customresourcedefinitions")
                    .then(|| fault.clone())
            });
        })
        .await;
        f.within(SECOND, "published", || f.collects("t.io/v1 things"))
            .await;
        f.create_crd("gadgets.t.io", &["v1"]).await;
        f.within(31 * SECOND, "read", || f.collects("t.io/v1 gadgets"))
            .await;
        f.delete_crd("gadgets.t.io").await;
        f.within(31 * SECOND, "read", || !f.collects("t.io/v1 gadgets"))
            .await;
    }
}

/// Stale discovery of one of several API servers must not remove a kind, and with it the nodes that block owners.
#[tokio::test(start_paused = true)]
async fn kind_with_a_crd_survives_stale_discovery() {
    let f = published().await;
    f.sleep(SECOND).await;
    let lagging = f.api.document("/apis").await;
    f.create_crd("things.t.io", &["v1"]).await;
    f.within(SECOND, "published", || f.collects("t.io/v1 things"))
        .await;
    f.sleep(SECOND).await;
    let mut kinds = f.discovery.kinds();
    kinds.mark_unchanged();
    let rule = move |path: &str| (path == "/apis").then(|| Effect::reply(200, lagging.clone()));
    f.api.inject(rule.clone());
    f.sleep(45 * SECOND).await;
    f.api.clear_faults();
    f.sleep(45 * SECOND).await;
    assert!(!kinds.has_changed().expect("discovery runs"));
    // Discovery omits the kind although its CRD exists.
    f.api.inject(rule);
    f.within(125 * SECOND, "removed", || !f.resolves("t.io/v1", "Kind6"))
        .await;
}
