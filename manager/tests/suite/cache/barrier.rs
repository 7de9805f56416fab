//! The barrier before a new leader acts.

use coxswain_manager::cache::Status;
use coxswain_manager::object::{MetaObject, Resource, Version};

use super::server::{Act, Fate, Verb, status};
use super::*;

const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");

const NO_VERSIONS: &BTreeMap<String, Version> = &BTreeMap::new();

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_up_to_date_is_asked_for_no_list() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let cache = bed.synced().await;
    set(&bed.sandbox, "a", "2").await;
    let before = bed.env.clock.now();
    assert_eq!(bed.caches.catch_up(NO_VERSIONS).await, []);
    assert_eq!(
        value(&cache, "a").as_deref(),
        Some("2"),
        "what was written before is seen"
    );
    assert!(bed.env.clock.now() - before < Duration::from_secs(1));
    assert_eq!(bed.server.count(Verb::List), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_behind_is_waited_for() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let cache = bed.synced().await;
    // Its watch is held back, and nobody can tell.
    let lagging = bed.sandbox.door();
    lagging.lag().hold_all_at(bed.sandbox.revision());
    bed.server.switch(lagging);
    bed.sleep(2).await;
    bed.server.streams(Fate::End);
    settle().await;
    let written = set(&bed.sandbox, "a", "2").await;
    bed.sleep(5).await;
    assert_eq!(value(&cache, "a").as_deref(), Some("1"));
    for known in [
        NO_VERSIONS.clone(),
        [(
            MAPS.to_string(),
            Version::from(&*written.metadata.resource_version.expect("a version")),
        )]
        .into(),
    ] {
        assert_eq!(bed.caches.catch_up(&known).await, []);
        assert_eq!(value(&cache, "a").as_deref(), Some("2"));
    }
    assert_eq!(
        bed.server.count(Verb::List),
        2,
        "one list for the first, none for the second"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_kind_is_listed_after_a_moment() {
    let bed = bed();
    let cache = bed.synced().await;
    // Another kind has moved the version on.
    namespaces(&bed.sandbox, &["x"]).await;
    let before = bed.env.clock.now();
    assert_eq!(bed.caches.catch_up(NO_VERSIONS).await, []);
    let took = bed.env.clock.now() - before;
    assert!(
        (Duration::from_millis(250)..Duration::from_millis(300)).contains(&took),
        "{took:?}"
    );
    assert!(
        cache
            .version()
            .has_reached(&Version::from(&*bed.sandbox.revision().to_string()))
    );
    assert_eq!(bed.relists("asked"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_named_and_not_waited_for() {
    let bed = bed();
    let widgets = Resource::namespaced("x.io", "v1", "widgets", "Widget");
    let waiting: Cache<MetaObject> = bed.caches.of(&widgets);
    let _nodes: Cache<MetaObject> = bed.caches.of(&NODES);
    bed.synced().await;
    bed.within(5, "waiting", || waiting.status().is_waiting()).await;
    let caught_up = bed.caches.catch_up(NO_VERSIONS);
    let left = bed
        .env
        .clock
        .timeout(Duration::from_secs(5), caught_up)
        .await
        .expect("not held up");
    assert!(
        matches!(&left[..], [(resource, Status::Waiting { .. })] if *resource == widgets),
        "{left:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn while_the_server_fails_it_does_not_open_and_can_be_given_up() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let cache = bed.synced().await;
    bed.server
        .rule(|_| Some(Act::Answer(503, status(503, "ServiceUnavailable"), 0)));
    bed.server.streams(Fate::Drop);
    set(&bed.sandbox, "a", "2").await;
    for _ in 0..3 {
        let caught_up = bed.caches.catch_up(NO_VERSIONS);
        assert_eq!(
            bed.env.clock.timeout(Duration::from_mins(1), caught_up).await,
            None
        );
    }
    bed.server.heal();
    let caught_up = bed.caches.catch_up(NO_VERSIONS);
    assert_eq!(
        bed.env.clock.timeout(Duration::from_mins(2), caught_up).await,
        Some(vec![])
    );
    assert_eq!(value(&cache, "a").as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn a_version_of_another_life_is_settled_by_a_list() {
    let bed = bed();
    bed.synced().await;
    let known = BTreeMap::from([(MAPS.to_string(), Version::from("999999999"))]);
    let caught_up = bed.caches.catch_up(&known);
    assert_eq!(
        bed.env.clock.timeout(Duration::from_secs(5), caught_up).await,
        Some(vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_is_reached_by_itself_or_from_a_list() {
    let patience = Duration::from_secs(2);
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let metadata = bed.caches.metadata(&MAPS);
    metadata.synced().await;
    let mut moved = metadata.moved();
    moved.mark_unchanged();
    let version = |it: k8s_openapi::api::core::v1::ConfigMap| {
        Version::from(&*it.metadata.resource_version.expect("a version"))
    };
    let clock = &bed.env.clock;
    let written = version(set(&bed.sandbox, "a", "2").await);
    metadata.reach(&written, patience, clock).await;
    assert!(metadata.version().has_reached(&written));
    assert!(
        moved.has_changed().expect("it lives"),
        "and says that it has moved"
    );
    assert_eq!(bed.server.count(Verb::List), 1);
    // Its watch is held back, and nobody can tell.
    let lagging = bed.sandbox.door();
    lagging.lag().hold_all_at(bed.sandbox.revision());
    bed.server.switch(lagging);
    bed.sleep(2).await;
    bed.server.streams(Fate::End);
    settle().await;
    let written = version(set(&bed.sandbox, "a", "3").await);
    let lists = bed.server.count(Verb::List);
    let before = clock.now();
    metadata.reach(&written, patience, clock).await;
    assert!(clock.now() - before >= patience);
    assert!(metadata.version().has_reached(&written));
    assert_eq!(bed.server.count(Verb::List), lists + 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_read_for_its_metadata_only_is_not_waited_for() {
    let bed = bed();
    let cache = bed.caches.metadata(&MAPS);
    cache.synced().await;
    // It is behind, and would have to be listed.
    namespaces(&bed.sandbox, &["x"]).await;
    let lists = bed.server.count(Verb::List);
    let before = bed.env.clock.now();
    assert_eq!(bed.caches.catch_up(NO_VERSIONS).await, []);
    assert_eq!(bed.env.clock.now(), before);
    assert_eq!(bed.server.count(Verb::List), lists);
    // Somebody asks for it by its projection.
    let _: Cache<MetaObject> = bed.caches.of(&MAPS);
    assert_eq!(bed.caches.catch_up(NO_VERSIONS).await, []);
    assert_ne!(bed.env.clock.now(), before);
}
