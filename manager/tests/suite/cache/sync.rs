//! Initial list, lookups and subscriptions.

use steersman_manager::cache::{Index, Lookup, Scope, Status};
use steersman_manager::object::{OwnerRef, Resource, Text, Uid, Version};
use steersman_sandbox::faults::Effect;

use super::server::{Verb, answer, status};
use super::*;

#[tokio::test(start_paused = true)]
async fn objects_are_found_by_key_namespace_owner_and_label() {
    let f = fixture();
    namespaces(&f.sandbox, &["other"]).await;
    let a = create(&f.sandbox, "a", "1").await;
    create(&f.sandbox, "b", "2").await;
    create(&f.sandbox, "other/c", "1").await;
    let owner = a.metadata.uid.expect("a uid");
    let owners = serde_json::json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": owner,
        "controller": true}]);
    patch(
        &f.sandbox,
        "b",
        serde_json::json!({"metadata": {"ownerReferences": owners}}),
    )
    .await;

    let cache = f.maps();
    let by_value = cache.index_label("value");
    assert_eq!(cache.status(), Status::Syncing);
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
    let by_uid = cache.index_uid();
    let owner_of = |namespace: &str, name: &str, uid: &str| {
        let reference = OwnerRef {
            name: name.into(),
            uid: uid.into(),
            ..OwnerRef::default()
        };
        let found = by_uid.owner(&namespace.into(), &reference);
        found.map(|map| map.metadata.name.to_string())
    };
    for name in ["a", "another"] {
        assert_eq!(owner_of("default", name, &owner).as_deref(), Some("a"));
    }
    assert_eq!(owner_of("default", "a", "other"), None);
    assert_eq!(owner_of("other", "a", &owner), None);
    assert_eq!(names(by_value.get("1")), ["a", "c"]);
    assert_eq!(names(cache.all()), ["a", "b", "c"]);
    assert_eq!((cache.len(), cache.includes_all()), (3, true));
    assert_eq!(cache.status(), Status::Synced);
    assert_eq!(f.metric("test_cache_objects", None), 3);
    assert!(f.metric("test_cache_bytes", None) > 300);
}

#[tokio::test(start_paused = true)]
async fn index_by_a_function_is_current_as_long_as_a_handle_exists() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let cache = f.synced().await;
    let initial = |map: &Map| map.metadata.name.get(..1).map(Text::from);
    let by_initial = cache.index(initial);
    let names = |index: &Index<Map>| -> Vec<String> {
        let maps = index.get("a");
        maps.iter().map(|map| map.metadata.name.to_string()).collect()
    };
    assert_eq!(names(&by_initial), ["a"]);
    create(&f.sandbox, "ab", "2").await;
    f.within(1, "indexed", || names(&by_initial) == ["a", "ab"]).await;
    let (clone, other) = (by_initial.clone(), cache.index(initial));
    drop((by_initial, other));
    delete(&f.sandbox, "a").await;
    f.within(1, "indexed", || names(&clone) == ["ab"]).await;
}

#[tokio::test(start_paused = true)]
async fn changes_have_the_old_and_the_new_state() {
    let f = fixture();
    let cache = f.synced().await;
    let mut subscription = cache.subscribe();
    create(&f.sandbox, "a", "1").await;
    set(&f.sandbox, "a", "2").await;
    f.within(1, "seen", || value(&cache, "a").as_deref() == Some("2"))
        .await;
    // Two pending changes of one key are merged.
    assert_eq!(changes(&mut subscription), ["+a=2"]);
    set(&f.sandbox, "a", "3").await;
    f.within(1, "seen", || value(&cache, "a").as_deref() == Some("3"))
        .await;
    assert_eq!(changes(&mut subscription), ["~a=2>3"]);
    delete(&f.sandbox, "a").await;
    f.within(1, "seen", || cache.is_empty()).await;
    assert_eq!(changes(&mut subscription), ["-a=3"]);
}

#[tokio::test(start_paused = true)]
async fn change_outside_of_the_projection_updates_the_version() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let cache = f.synced().await;
    let mut subscription = cache.subscribe();
    assert_eq!(changes(&mut subscription), ["*a=1"]);
    let patched = patch(
        &f.sandbox,
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
    f.within(1, "the version", || held() == version).await;
    let Some(Delta::Updated { old, new }) = subscription.try_next() else {
        panic!("an update");
    };
    assert_eq!(old, new, "a handler cannot tell them apart");
    assert!(new.metadata.resource_version > old.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn long_list_is_read_in_consistent_pages() {
    let f = fixture();
    for i in 0..1201 {
        create(&f.sandbox, &format!("m{i:04}"), "1").await;
    }
    // Writes between the first and the second page.
    let (sandbox, mut pages) = (f.sandbox.clone(), 0);
    f.server.inject_fault(move |request| {
        if Verb::List.is(request) {
            pages += 1;
            if pages == 2 {
                let sandbox = sandbox.clone();
                return Some(Effect::around(move |_| {
                    let sandbox = sandbox.clone();
                    async move {
                        delete(&sandbox, "m1200").await;
                        create(&sandbox, "a-new-one", "1").await;
                        set(&sandbox, "m0000", "2").await;
                        delete(&sandbox, "m0001").await;
                        async |_: u16| ()
                    }
                }));
            }
        }
        None
    });
    let cache = f.synced().await;
    f.equal(&cache, 5).await;
    let lists: Vec<_> = f
        .server
        .log()
        .into_iter()
        .filter(|request| Verb::List.is(request))
        .collect();
    assert_eq!(lists.len(), 3);
    assert!(
        lists
            .iter()
            .all(|request| request.parameter("limit").as_deref() == Some("500")
                && request.parameter("resourceVersion").is_none())
    );
    assert!(lists[0].parameter("continue").is_none() && lists[1].parameter("continue").is_some());
}

#[tokio::test(start_paused = true)]
async fn list_with_an_expired_continue_token_starts_over() {
    let f = fixture();
    for i in 0..501 {
        create(&f.sandbox, &format!("m{i:04}"), "1").await;
    }
    let mut times = 2;
    f.server.inject_fault(move |request| {
        let expires = request.parameter("continue").is_some() && times > 0;
        expires.then(|| {
            times -= 1;
            answer(410, status(410, "Expired"), 0)
        })
    });
    let cache = f.maps();
    f.within(1, "at once", || cache.is_synced()).await;
    assert_eq!(cache.len(), 501);
    assert_eq!(f.server.count(Verb::List), 6);
}

#[tokio::test(start_paused = true)]
async fn list_that_always_expires_is_retried_with_backoff() {
    let f = fixture();
    for i in 0..501 {
        create(&f.sandbox, &format!("m{i:04}"), "1").await;
    }
    f.server.inject_fault(|request| {
        request
            .parameter("continue")
            .map(|_| answer(410, status(410, "Expired"), 0))
    });
    let cache = f.maps();
    f.sleep(10).await;
    assert!(!cache.is_synced());
    assert!(matches!(cache.status(), Status::Retrying { .. }));
    assert!(
        f.server.count(Verb::List) <= 5 * 8,
        "{}",
        f.server.count(Verb::List)
    );
}

#[tokio::test(start_paused = true)]
async fn late_subscriber_receives_the_current_state_and_all_changes() {
    let f = fixture();
    create(&f.sandbox, "a", "0").await;
    let cache = f.synced().await;
    let sandbox = f.sandbox.clone();
    let writer = f.env.tasks.spawn(async move {
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
    f.equal(&cache, 5).await;
    assert!(subscriptions.len() > 10, "{}", subscriptions.len());
    for (view, subscription) in &mut subscriptions {
        replay(view, subscription);
        let mut all: Vec<Arc<Map>> = view.values().cloned().collect();
        all.sort_by_key(|map| map.metadata.key());
        assert_eq!(shown(&all), shown(&cache.all()));
    }
}

#[tokio::test(start_paused = true)]
async fn slow_subscriber_does_not_block_and_its_backlog_is_bounded() {
    let f = fixture();
    let cache = f.synced().await;
    let (slow, mut quick) = (cache.subscribe(), cache.subscribe());
    let gone = cache.subscribe();
    drop(gone);
    create(&f.sandbox, "a", "0").await;
    for i in 1..100 {
        set(&f.sandbox, "a", &i.to_string()).await;
        let i = i.to_string();
        f.within(1, "seen", || value(&cache, "a") == Some(i.clone()))
            .await;
        assert_eq!(changes(&mut quick).len(), 1);
    }
    assert_eq!(slow.len(), 1);
    assert_eq!(f.metric("informer_queued_items", None), 1);
}

#[tokio::test(start_paused = true)]
async fn each_namespace_has_its_own_list_and_watch() {
    let scope = Scope {
        namespaces: vec!["a".to_owned(), "b".to_owned()],
        label_selector: String::new(),
    };
    let f = fixture_with(scope, 0);
    namespaces(&f.sandbox, &["a", "b", "c"]).await;
    for name in ["a/x", "b/x", "c/x"] {
        create(&f.sandbox, name, "1").await;
    }
    let cache = f.maps();
    cache.synced().await;
    let names = || {
        cache
            .all()
            .iter()
            .map(|map| map.metadata.key().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), ["a/x", "b/x"]);
    assert!(!cache.includes_all());
    for name in ["a/y", "b/y", "c/y"] {
        create(&f.sandbox, name, "1").await;
    }
    f.within(1, "both watches", || names() == ["a/x", "a/y", "b/x", "b/y"])
        .await;
    let paths: Vec<String> = f
        .server
        .log()
        .iter()
        .map(|request| request.path.clone())
        .collect();
    assert!(
        !paths
            .iter()
            .any(|path| path.contains("/c/") || path == "/api/v1/configmaps"),
        "{paths:?}"
    );
    assert_eq!((f.server.count(Verb::List), f.server.count(Verb::Watch)), (2, 2));

    // A forbidden namespace does not block the other one, but makes the cache unavailable.
    f.server.inject_fault(|request| {
        let forbidden = request.path.contains("/namespaces/b/");
        forbidden.then(|| answer(403, status(403, "Forbidden"), 0))
    });
    cache.relist();
    f.within(5, "unavailable", || cache.status().is_unavailable())
        .await;
    create(&f.sandbox, "a/z", "1").await;
    f.within(5, "seen", || names().len() == 5).await;

    let nodes: Cache<Map> = f.caches.of(&Resource::cluster("", "v1", "nodes", "Node"));
    f.within(5, "cluster-scoped", || nodes.is_synced()).await;
    assert!(nodes.includes_all());
}

#[tokio::test(start_paused = true)]
async fn object_that_loses_the_selected_label_is_deleted() {
    let scope = Scope {
        namespaces: Vec::new(),
        label_selector: "value=1".to_owned(),
    };
    let f = fixture_with(scope, 0);
    create(&f.sandbox, "a", "1").await;
    create(&f.sandbox, "b", "2").await;
    let cache = f.synced().await;
    assert_eq!(shown(&cache.all()), listed(&f.sandbox, "value=1").await);
    assert!(!cache.includes_all());
    let label = |value: &str| serde_json::json!({"metadata": {"labels": {"value": value}}});
    patch(&f.sandbox, "b", label("1")).await;
    f.within(1, "b added", || cache.len() == 2).await;
    patch(&f.sandbox, "a", label("2")).await;
    f.within(1, "a deleted", || cache.get(&key("a")) == Lookup::Absent)
        .await;
    assert_eq!(shown(&cache.all()), listed(&f.sandbox, "value=1").await);
}

/// Applies pending deltas, and asserts that they are consistent.
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
            // The add of a deleted object may not have been received.
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
