//! How a cache is filled, what it then answers, and what its subscribers are told.

use coxswain_manager::cache::{Lookup, Scope, Status};
use coxswain_manager::object::{Resource, Uid, Version};

use super::server::{Act, Verb, status};
use super::*;

#[tokio::test(start_paused = true)]
async fn objects_are_found_by_key_namespace_owner_and_label() {
    let bed = bed();
    namespaces(&bed.sandbox, &["other"]).await;
    let a = create(&bed.sandbox, "a", "1").await;
    create(&bed.sandbox, "b", "2").await;
    create(&bed.sandbox, "other/c", "1").await;
    let owner = a.metadata.uid.expect("a uid");
    let owners = serde_json::json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": owner,
        "controller": true}]);
    patch(
        &bed.sandbox,
        "b",
        serde_json::json!({"metadata": {"ownerReferences": owners}}),
    )
    .await;

    let cache: Cache<Map> = bed.caches.of_labels(&MAPS, &["value"]);
    assert_eq!(cache.status(), Status::Filling);
    assert!(cache.version().is_none() && !cache.is_synced());
    cache.synced().await;
    let names = |maps: Vec<Arc<Map>>| -> Vec<String> {
        maps.iter().map(|map| map.metadata.name.to_string()).collect()
    };
    assert_eq!(value(&cache, "a").as_deref(), Some("1"));
    assert_eq!(cache.get(&key("c")), Lookup::Absent);
    assert_eq!(names(cache.list_namespace("default")), ["a", "b"]);
    assert_eq!(names(cache.list_namespace("other")), ["c"]);
    assert_eq!(names(cache.by_owner(&Uid::from(&*owner))), ["b"]);
    assert_eq!(names(cache.by_label("value", "1")), ["a", "c"]);
    assert_eq!(names(cache.all()), ["a", "b", "c"]);
    assert_eq!((cache.len(), cache.is_whole()), (3, true));
    assert_eq!(cache.status(), Status::Synced);
    assert_eq!(bed.metric("coxswain_cache_objects", None), 3);
    assert!(bed.metric("coxswain_cache_bytes", None) > 300);
}

#[tokio::test(start_paused = true)]
async fn changes_come_as_they_happen_with_old_and_new() {
    let bed = bed();
    let cache = bed.synced().await;
    let mut subscription = cache.subscribe();
    create(&bed.sandbox, "a", "1").await;
    set(&bed.sandbox, "a", "2").await;
    bed.within(1, "seen", || value(&cache, "a").as_deref() == Some("2"))
        .await;
    // Two changes of one key before the subscriber looked: it is told the last state.
    assert_eq!(changes(&mut subscription), ["+a=2"]);
    set(&bed.sandbox, "a", "3").await;
    bed.within(1, "seen", || value(&cache, "a").as_deref() == Some("3"))
        .await;
    assert_eq!(changes(&mut subscription), ["~a=2>3"]);
    delete(&bed.sandbox, "a").await;
    bed.within(1, "seen", || cache.is_empty()).await;
    assert_eq!(changes(&mut subscription), ["-a=3"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_projection_does_not_show_moves_the_version() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let cache = bed.synced().await;
    let mut subscription = cache.subscribe();
    assert_eq!(changes(&mut subscription), ["*a=1"]);
    let patched = patch(
        &bed.sandbox,
        "a",
        serde_json::json!({"metadata": {"annotations": {"x": "y"}}}),
    )
    .await;
    let version = Version::from(&*patched.metadata.resource_version.expect("a version"));
    let held = || {
        cache
            .get(&key("a"))
            .present()
            .expect("there")
            .metadata
            .resource_version
            .clone()
    };
    bed.within(1, "the version", || held() == version).await;
    let Some(Delta::Updated { old, new }) = subscription.try_next() else {
        panic!("an update");
    };
    assert_eq!(old, new, "a handler cannot tell them apart");
    assert!(new.metadata.resource_version > old.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_read_in_pages_of_one_moment() {
    let bed = bed();
    for i in 0..1201 {
        create(&bed.sandbox, &format!("m{i:04}"), "1").await;
    }
    // Between the first and the second page, the world goes on.
    let (sandbox, mut pages) = (bed.sandbox.clone(), 0);
    bed.server.rule(move |ask| {
        if ask.verb == Verb::List {
            pages += 1;
            if pages == 2 {
                let sandbox = sandbox.clone();
                return Some(Act::First(Box::pin(async move {
                    delete(&sandbox, "m1200").await;
                    create(&sandbox, "a-new-one", "1").await;
                    set(&sandbox, "m0000", "2").await;
                    delete(&sandbox, "m0001").await;
                })));
            }
        }
        None
    });
    let cache = bed.synced().await;
    bed.equal(&cache, 5).await;
    let lists: Vec<_> = bed
        .server
        .log()
        .into_iter()
        .filter(|ask| ask.verb == Verb::List)
        .collect();
    assert_eq!(lists.len(), 3);
    assert!(
        lists
            .iter()
            .all(|ask| ask.param("limit") == Some("500") && ask.param("resourceVersion").is_none())
    );
    assert!(lists[0].param("continue").is_none() && lists[1].param("continue").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_between_pages_is_begun_again() {
    let bed = bed();
    for i in 0..501 {
        create(&bed.sandbox, &format!("m{i:04}"), "1").await;
    }
    let mut times = 2;
    bed.server.rule(move |ask| {
        let expires = ask.param("continue").is_some() && times > 0;
        expires.then(|| {
            times -= 1;
            Act::Answer(410, status(410, "Expired"), 0)
        })
    });
    let cache = bed.maps();
    bed.within(1, "at once", || cache.is_synced()).await;
    assert_eq!(cache.len(), 501);
    assert_eq!(bed.server.count(Verb::List), 6);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_always_expires_is_not_asked_for_in_a_hot_loop() {
    let bed = bed();
    for i in 0..501 {
        create(&bed.sandbox, &format!("m{i:04}"), "1").await;
    }
    bed.server.rule(|ask| {
        ask.param("continue")
            .map(|_| Act::Answer(410, status(410, "Expired"), 0))
    });
    let cache = bed.maps();
    bed.sleep(10).await;
    assert!(!cache.is_synced());
    assert!(matches!(cache.status(), Status::Retrying { .. }));
    assert!(
        bed.server.count(Verb::List) <= 5 * 8,
        "{}",
        bed.server.count(Verb::List)
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_is_told_the_present_and_misses_nothing() {
    let bed = bed();
    create(&bed.sandbox, "a", "0").await;
    let cache = bed.synced().await;
    let sandbox = bed.sandbox.clone();
    let writer = bed.env.tasks.spawn(async move {
        for i in 0..400 {
            set(&sandbox, "a", &i.to_string()).await;
            create(&sandbox, &format!("m{i}"), "1").await;
            if i % 3 == 0 {
                delete(&sandbox, &format!("m{i}")).await;
            }
        }
    });
    let mut subscriptions = Vec::new();
    while !writer.is_finished() {
        subscriptions.push((BTreeMap::new(), cache.subscribe()));
        tokio::task::yield_now().await;
        for (view, subscription) in subscriptions.iter_mut().step_by(2) {
            replay(view, subscription);
        }
    }
    writer.await.expect("the writer");
    bed.equal(&cache, 5).await;
    assert!(subscriptions.len() > 10, "{}", subscriptions.len());
    for (view, subscription) in &mut subscriptions {
        replay(view, subscription);
        let mut all: Vec<Arc<Map>> = view.values().cloned().collect();
        all.sort_by_key(|map| map.metadata.key());
        assert_eq!(shown(&all), shown(&cache.all()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_delays_nobody_and_its_backlog_is_bounded() {
    let bed = bed();
    let cache = bed.synced().await;
    let (slow, mut quick) = (cache.subscribe(), cache.subscribe());
    let gone = cache.subscribe();
    drop(gone);
    create(&bed.sandbox, "a", "0").await;
    for i in 1..100 {
        set(&bed.sandbox, "a", &i.to_string()).await;
        let i = i.to_string();
        bed.within(1, "seen", || value(&cache, "a") == Some(i.clone()))
            .await;
        assert_eq!(changes(&mut quick).len(), 1);
    }
    assert_eq!(slow.len(), 1);
    assert_eq!(bed.metric("informer_queued_items", None), 1);
}

#[tokio::test(start_paused = true)]
async fn namespaces_have_a_feed_each() {
    let scope = Scope {
        namespaces: vec!["a".to_owned(), "b".to_owned()],
        label_selector: String::new(),
    };
    let bed = bed_of(scope, 0);
    namespaces(&bed.sandbox, &["a", "b", "c"]).await;
    for name in ["a/x", "b/x", "c/x"] {
        create(&bed.sandbox, name, "1").await;
    }
    let cache = bed.maps();
    cache.synced().await;
    let names = || {
        cache
            .all()
            .iter()
            .map(|map| map.metadata.key().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), ["a/x", "b/x"]);
    assert!(!cache.is_whole());
    for name in ["a/y", "b/y", "c/y"] {
        create(&bed.sandbox, name, "1").await;
    }
    bed.within(1, "both watches", || names() == ["a/x", "a/y", "b/x", "b/y"])
        .await;
    let paths: Vec<String> = bed.server.log().iter().map(|ask| ask.path.clone()).collect();
    assert!(
        !paths
            .iter()
            .any(|path| path.contains("/c/") || path == "/api/v1/configmaps"),
        "{paths:?}"
    );
    assert_eq!(
        (bed.server.count(Verb::List), bed.server.count(Verb::Watch)),
        (2, 2)
    );

    // One that cannot be read does not hold up the other, but the whole says so.
    bed.server.rule(|ask| {
        let forbidden = ask.path.contains("/namespaces/b/");
        forbidden.then(|| Act::Answer(403, status(403, "Forbidden"), 0))
    });
    cache.relist();
    bed.within(5, "waiting", || cache.status().is_waiting()).await;
    create(&bed.sandbox, "a/z", "1").await;
    bed.within(5, "seen", || names().len() == 5).await;

    let nodes: Cache<Map> = bed.caches.of(&Resource::cluster("", "v1", "nodes", "Node"));
    bed.within(5, "cluster-scoped", || nodes.is_synced()).await;
    assert!(nodes.is_whole());
}

#[tokio::test(start_paused = true)]
async fn labels_select_and_an_object_that_loses_them_is_gone() {
    let scope = Scope {
        namespaces: Vec::new(),
        label_selector: "value=1".to_owned(),
    };
    let bed = bed_of(scope, 0);
    create(&bed.sandbox, "a", "1").await;
    create(&bed.sandbox, "b", "2").await;
    let cache = bed.synced().await;
    assert_eq!(shown(&cache.all()), listed(&bed.sandbox, "value=1").await);
    assert!(!cache.is_whole());
    let label = |value: &str| serde_json::json!({"metadata": {"labels": {"value": value}}});
    patch(&bed.sandbox, "b", label("1")).await;
    bed.within(1, "b came", || cache.len() == 2).await;
    patch(&bed.sandbox, "a", label("2")).await;
    bed.within(1, "a left", || cache.get(&key("a")) == Lookup::Absent)
        .await;
    assert_eq!(shown(&cache.all()), listed(&bed.sandbox, "value=1").await);
}

/// Applies what a subscriber is told; anything that does not follow from what it was told before is an error.
pub fn replay(view: &mut BTreeMap<Key, Arc<Map>>, subscription: &mut Subscription<Map>) {
    while let Some(delta) = subscription.try_next() {
        let key = delta.key();
        match delta {
            Delta::Added { new, .. } => {
                assert!(view.insert(key.clone(), new).is_none(), "{key} was there already");
            }
            Delta::Updated { old, new } => {
                assert_eq!(old.metadata.uid, new.metadata.uid, "{key}");
                let before = view.insert(key.clone(), new).expect("there before");
                assert_eq!(
                    before.metadata.resource_version, old.metadata.resource_version,
                    "{key}"
                );
            }
            // One that it was never told of may be deleted.
            Delta::Deleted { last } => {
                if view
                    .get(&key)
                    .is_some_and(|it| it.metadata.uid == last.metadata.uid)
                {
                    view.remove(&key);
                }
            }
        }
    }
}
