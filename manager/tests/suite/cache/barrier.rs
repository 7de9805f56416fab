//! The barrier of a new leader.

use steersman_manager::cache::Status;
use steersman_manager::object::{MetaObject, Resource, Version};

use super::server::{StreamFault, Verb, answer, status};
use super::*;

const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");

const NO_VERSIONS: &BTreeMap<String, Version> = &BTreeMap::new();

/// Returns a server that fails, and a cache without its last write.
async fn outage() -> (Fixture, Cache<Map>) {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let cache = f.synced().await;
    f.server
        .inject_fault(|_| Some(answer(503, status(503, "ServiceUnavailable"), 0)));
    f.server.streams(StreamFault::Drop);
    set(&f.sandbox, "a", "2").await;
    (f, cache)
}

#[tokio::test(start_paused = true)]
async fn current_cache_is_not_relisted() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let cache = f.synced().await;
    set(&f.sandbox, "a", "2").await;
    let before = f.env.clock.now();
    assert_eq!(f.caches.catch_up(NO_VERSIONS).await, []);
    assert_eq!(
        value(&cache, "a").as_deref(),
        Some("2"),
        "includes the last write"
    );
    assert!(f.env.clock.now() - before < Duration::from_secs(1));
    assert_eq!(f.server.count(Verb::List), 1);
}

#[tokio::test(start_paused = true)]
async fn barrier_waits_for_a_stale_cache() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let cache = f.synced().await;
    // The watch lags without an error.
    let lagging = f.sandbox.service();
    lagging.lag().hold_all_at(f.sandbox.revision());
    f.server.switch(lagging);
    f.sleep(2).await;
    f.server.streams(StreamFault::End);
    settle().await;
    let written = set(&f.sandbox, "a", "2").await;
    f.sleep(5).await;
    assert_eq!(value(&cache, "a").as_deref(), Some("1"));
    for known in [
        NO_VERSIONS.clone(),
        [(
            MAPS.to_string(),
            Version::from(&*written.metadata.resource_version.expect("a version")),
        )]
        .into(),
    ] {
        assert_eq!(f.caches.catch_up(&known).await, []);
        assert_eq!(value(&cache, "a").as_deref(), Some("2"));
    }
    assert_eq!(
        f.server.count(Verb::List),
        2,
        "one list for the first, none for the second"
    );
}

#[tokio::test(start_paused = true)]
async fn idle_resource_is_relisted_after_a_moment() {
    let f = fixture();
    let cache = f.synced().await;
    // A write of another resource increments the version.
    namespaces(&f.sandbox, &["x"]).await;
    let before = f.env.clock.now();
    assert_eq!(f.caches.catch_up(NO_VERSIONS).await, []);
    let took = f.env.clock.now() - before;
    assert!(
        (Duration::from_millis(250)..Duration::from_millis(300)).contains(&took),
        "{took:?}"
    );
    assert!(
        cache
            .version()
            .has_reached(&Version::from(&*f.sandbox.revision().to_string()))
    );
    assert_eq!(f.relists("asked"), 1);
}

#[tokio::test(start_paused = true)]
async fn unserved_resource_is_returned_without_waiting() {
    let f = fixture();
    let widgets = Resource::namespaced("x.io", "v1", "widgets", "Widget");
    let unserved: Cache<MetaObject> = f.caches.of(&widgets);
    let _nodes: Cache<MetaObject> = f.caches.of(&NODES);
    f.synced().await;
    f.within(5, "unavailable", || unserved.status().is_unavailable())
        .await;
    let caught_up = f.caches.catch_up(NO_VERSIONS);
    let left = f
        .env
        .clock
        .timeout(Duration::from_secs(5), caught_up)
        .await
        .expect("not blocked");
    assert!(
        matches!(&left[..], [(resource, Status::Unavailable { .. })] if *resource == widgets),
        "{left:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn barrier_stays_closed_while_the_server_fails_and_is_cancel_safe() {
    let (f, cache) = outage().await;
    for _ in 0..3 {
        let caught_up = f.caches.catch_up(NO_VERSIONS);
        assert_eq!(f.env.clock.timeout(Duration::from_mins(1), caught_up).await, None);
    }
    f.server.heal();
    let caught_up = f.caches.catch_up(NO_VERSIONS);
    assert_eq!(
        f.env.clock.timeout(Duration::from_mins(2), caught_up).await,
        Some(vec![])
    );
    assert_eq!(value(&cache, "a").as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn cache_that_is_behind_is_not_synced() {
    let (f, cache) = outage().await;
    let caught_up = f.caches.catch_up(NO_VERSIONS);
    assert_eq!(f.env.clock.timeout(Duration::from_mins(1), caught_up).await, None);
    assert!(!cache.is_synced());
    f.caches.relist_behind();
    f.server.heal();
    let synced = f.env.clock.timeout(Duration::from_mins(2), cache.synced());
    assert_eq!(synced.await, Some(()));
    assert_eq!(value(&cache, "a").as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn version_from_before_a_restore_is_resolved_by_a_list() {
    let f = fixture();
    f.synced().await;
    let known = BTreeMap::from([(MAPS.to_string(), Version::from("999999999"))]);
    let caught_up = f.caches.catch_up(&known);
    assert_eq!(
        f.env.clock.timeout(Duration::from_secs(5), caught_up).await,
        Some(vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn reach_waits_for_the_watch_then_relists() {
    let timeout = Duration::from_secs(2);
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let metadata = f.caches.metadata(&MAPS);
    metadata.synced().await;
    let mut changed = metadata.changes();
    changed.mark_unchanged();
    let version = |it: k8s_openapi::api::core::v1::ConfigMap| {
        Version::from(&*it.metadata.resource_version.expect("a version"))
    };
    let clock = &f.env.clock;
    let written = version(set(&f.sandbox, "a", "2").await);
    metadata.reach(&written, timeout, clock).await;
    assert!(metadata.version().has_reached(&written));
    assert!(
        changed.has_changed().expect("it lives"),
        "and notifies of the change"
    );
    assert_eq!(f.server.count(Verb::List), 1);
    // The watch lags without an error.
    let lagging = f.sandbox.service();
    lagging.lag().hold_all_at(f.sandbox.revision());
    f.server.switch(lagging);
    f.sleep(2).await;
    f.server.streams(StreamFault::End);
    settle().await;
    let written = version(set(&f.sandbox, "a", "3").await);
    let lists = f.server.count(Verb::List);
    let before = clock.now();
    metadata.reach(&written, timeout, clock).await;
    assert!(clock.now() - before >= timeout);
    assert!(metadata.version().has_reached(&written));
    assert_eq!(f.server.count(Verb::List), lists + 1);
}

#[tokio::test(start_paused = true)]
async fn metadata_only_cache_is_not_waited_for() {
    let f = fixture();
    let cache = f.caches.metadata(&MAPS);
    cache.synced().await;
    // The cache is stale, and would be relisted.
    namespaces(&f.sandbox, &["x"]).await;
    let lists = f.server.count(Verb::List);
    let before = f.env.clock.now();
    assert_eq!(f.caches.catch_up(NO_VERSIONS).await, []);
    assert_eq!(f.env.clock.now(), before);
    assert_eq!(f.server.count(Verb::List), lists);
    // A typed request makes it required.
    let _: Cache<MetaObject> = f.caches.of(&MAPS);
    assert_eq!(f.caches.catch_up(NO_VERSIONS).await, []);
    assert_ne!(f.env.clock.now(), before);
}
