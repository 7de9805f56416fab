//! Several API services of one store, each with its own watch cache.

use serde_json::json;

use crate::client::{MAPS, create, delete, get, names, patch, post, sandbox, version, watch};

#[tokio::test(start_paused = true)]
async fn lagging_api_service_serves_stale_reads_from_its_cache() {
    let sandbox = sandbox();
    let (fresh, stale) = (sandbox.service(), sandbox.service());
    let first = create(&fresh, "a").await;
    stale.lag().hold_all_at(first);
    let second = create(&fresh, "b").await;

    let (_, cached) = get(&stale, &format!("{MAPS}?resourceVersion=0")).await;
    assert_eq!((names(&cached), version(&cached)), (vec!["a"], first));
    let (_, cached) = get(&fresh, &format!("{MAPS}?resourceVersion=0")).await;
    assert_eq!(names(&cached), ["a", "b"], "the other service does not lag");

    let (_, quorum) = get(&stale, MAPS).await;
    assert_eq!(
        (names(&quorum), version(&quorum)),
        (vec!["a", "b"], second),
        "a quorum read is not stale"
    );
    let (status, _) = get(&stale, &format!("{MAPS}/b")).await;
    assert_eq!(status, 200, "a GET without a version is not stale");
    let (status, _) = get(&stale, &format!("{MAPS}/b?resourceVersion=0")).await;
    assert_eq!(status, 404, "version 0 accepts any state");
    let (status, _) = get(&stale, &format!("{MAPS}?resourceVersion={second}")).await;
    assert_eq!(status, 504, "the cache has not reached the version");
}

#[tokio::test(start_paused = true)]
async fn lagging_api_service_delays_watch_events_without_loss() {
    let sandbox = sandbox();
    let (fresh, stale) = (sandbox.service(), sandbox.service());
    let first = create(&fresh, "a").await;
    stale.lag().hold_all_at(first);
    let mut events = watch(&stale, &format!("{MAPS}?watch=1&resourceVersion={first}")).await;
    let second = create(&fresh, "b").await;
    create(&fresh, "c").await;
    assert!(events.is_quiet());
    stale.lag().hold_all_at(second);
    assert_eq!(events.brief().await.as_deref(), Some("ADDED b"));
    assert!(events.is_quiet());
    stale.lag().release();
    assert_eq!(events.brief().await.as_deref(), Some("ADDED c"));
}

#[tokio::test(start_paused = true)]
async fn lag_applies_to_one_collection() {
    let sandbox = sandbox();
    let service = sandbox.service();
    let start = sandbox.revision();
    service.lag().hold_at("configmaps", start);
    let secrets = "/api/v1/namespaces/default/secrets";
    let mut maps = watch(&service, &format!("{MAPS}?watch=1&resourceVersion={start}")).await;
    let mut others = watch(&service, &format!("{secrets}?watch=1&resourceVersion={start}")).await;
    create(&service, "a").await;
    post(&service, secrets, &json!({"metadata": {"name": "s"}})).await;
    assert_eq!(others.brief().await.as_deref(), Some("ADDED s"));
    assert!(maps.is_quiet());
}

#[tokio::test(start_paused = true)]
async fn writes_through_a_lagging_api_service_use_the_latest_revision() {
    let sandbox = sandbox();
    let (fresh, stale) = (sandbox.service(), sandbox.service());
    create(&fresh, "a").await;
    stale.lag().hold_all_at(1);
    let (_, object) = patch(&stale, &format!("{MAPS}/a"), &json!({"data": {"k": "v"}})).await;
    assert_eq!(object["data"]["k"], "v");
    let (status, _) = delete(&stale, &format!("{MAPS}/a")).await;
    assert_eq!(status, 200);
}

#[tokio::test(start_paused = true)]
async fn held_cache_serves_the_last_served_state() {
    let sandbox = sandbox();
    let (fresh, stale) = (sandbox.service(), sandbox.service());
    let start = sandbox.revision();
    assert_eq!(stale.lag().served("configmaps"), start);
    let mut events = watch(&stale, &format!("{MAPS}?watch=1&resourceVersion={start}")).await;
    let first = create(&fresh, "a").await;
    assert_eq!(events.brief().await.as_deref(), Some("ADDED a"));
    let second = create(&fresh, "b").await;
    assert_eq!(
        stale.lag().served("configmaps"),
        first,
        "the watch has not sent b"
    );
    stale.lag().hold_served();
    assert!(events.is_quiet());

    let cached = format!("{MAPS}?resourceVersion=0");
    let (_, list) = get(&stale, &cached).await;
    assert_eq!((names(&list), version(&list)), (vec!["a"], first));
    let mut later = watch(&stale, &format!("{MAPS}?watch=1")).await;
    assert_eq!(later.brief().await.as_deref(), Some("ADDED a"));
    assert!(later.is_quiet());
    let (_, quorum) = get(&stale, MAPS).await;
    assert_eq!((names(&quorum), version(&quorum)), (vec!["a", "b"], second));
    assert_eq!(get(&stale, &format!("{MAPS}/b")).await.0, 200);
    let secrets = "/api/v1/secrets?resourceVersion=0";
    let (_, others) = get(&stale, secrets).await;
    assert_eq!(
        version(&others),
        start,
        "a collection that the cache has not served"
    );

    stale.lag().release();
    assert_eq!(events.brief().await.as_deref(), Some("ADDED b"));
    assert_eq!(later.brief().await.as_deref(), Some("ADDED b"));
    get(&stale, secrets).await;
    assert_eq!(stale.lag().served("secrets"), second);
}

#[tokio::test(start_paused = true)]
async fn cached_list_counts_as_served() {
    let sandbox = sandbox();
    let service = sandbox.service();
    let first = create(&service, "a").await;
    let cached = format!("{MAPS}?resourceVersion=0");
    get(&service, &cached).await;
    create(&service, "b").await;
    get(&service, MAPS).await;
    service.lag().hold_served();
    let (_, list) = get(&service, &cached).await;
    assert_eq!((names(&list), version(&list)), (vec!["a"], first));
    service.lag().hold_at("configmaps", first - 1);
    service.lag().hold_served();
    let (_, list) = get(&service, &cached).await;
    assert_eq!(version(&list), first - 1, "the hold at an older revision stays");
}
