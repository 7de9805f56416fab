//! Shared lists and watches.

use steersman_manager::cache::{CachePositions, Lookup, PendingWrites, Readiness, Status, Write};
use steersman_manager::object::{MetaObject, Uid, Version};
use steersman_sandbox::faults::Effect;

use super::server::{StreamFault, Verb};
use super::*;

#[tokio::test(start_paused = true)]
async fn two_requests_share_one_list_and_watch() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let (one, two) = (f.maps(), f.maps());
    one.synced().await;
    settle().await;
    assert!(two.is_synced());
    assert!(Arc::ptr_eq(&one.all()[0], &two.all()[0]), "the same object");
    assert_eq!((f.server.count(Verb::List), f.server.count(Verb::Watch)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn metadata_cache_shares_an_existing_typed_cache() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let typed = f.synced().await;
    let metadata = f.caches.metadata(&MAPS);
    metadata.synced().await;
    assert_eq!((f.server.count(Verb::List), f.server.count(Verb::Watch)), (1, 1));
    let mut subscription = metadata.subscribe();
    let Some(Delta::Added { new, initial: true }) = subscription.try_next() else {
        panic!("the current state");
    };
    assert_eq!(metadata.get(&key("a")), Lookup::Present(new.clone()));
    assert_eq!(new.metadata, typed.all()[0].metadata);
    set(&f.sandbox, "a", "2").await;
    f.within(1, "seen", || !subscription.is_empty()).await;
    assert!(
        matches!(subscription.try_next(), Some(Delta::Updated { old, new })
        if old == new && new.metadata.resource_version > old.metadata.resource_version)
    );
    delete(&f.sandbox, "a").await;
    f.within(1, "seen", || !subscription.is_empty()).await;
    assert!(matches!(subscription.try_next(), Some(Delta::Deleted { .. })));
    assert!(metadata.all().is_empty() && metadata.includes_all());
}

#[tokio::test(start_paused = true)]
async fn metadata_only_cache_requests_metadata_and_stores_it_once() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let metadata = f.caches.metadata(&MAPS);
    metadata.synced().await;
    let mut subscription = metadata.subscribe();
    let Some(Delta::Added { new, .. }) = subscription.try_next() else {
        panic!("the current state");
    };
    let Lookup::Present(held) = metadata.get(&key("a")) else {
        panic!("there");
    };
    assert!(Arc::ptr_eq(&held, &new), "no copy");
    assert_eq!(new.metadata.labels.get("value").map(|value| &**value), Some("1"));
    set(&f.sandbox, "a", "2").await;
    f.within(1, "watched", || !subscription.is_empty()).await;
    let accepts = f.server.accepts();
    assert!(
        accepts
            .iter()
            .all(|accept| accept.contains("PartialObjectMetadata")),
        "{accepts:?}"
    );
}

/// A second projection of `ConfigMap`, which decodes every data.
#[derive(Debug, PartialEq, Deserialize)]
struct Keys {
    metadata: Meta,
    #[serde(default)]
    data: BTreeMap<String, serde_json::Value>,
}

impl Object for Keys {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }
}

fn requests(f: &Fixture) -> (usize, usize) {
    (f.server.count(Verb::List), f.server.count(Verb::Watch))
}

#[tokio::test(start_paused = true)]
async fn projections_of_one_resource_share_one_list_and_watch() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let metadata = f.caches.metadata(&MAPS);
    let (maps, keys): (Cache<Map>, Cache<Keys>) = (f.caches.of(&MAPS), f.caches.of(&MAPS));
    f.caches.synced().await;
    settle().await;
    assert_eq!(requests(&f), (1, 1));
    set(&f.sandbox, "a", "2").await;
    f.within(1, "followed", || value(&maps, "a").as_deref() == Some("2"))
        .await;
    let data = |cache: &Cache<Keys>| cache.get(&key("a")).present().expect("there").data.clone();
    assert_eq!(data(&keys), [("k".to_owned(), "2".into())].into());
    let versions = [maps.version(), keys.version(), metadata.version()];
    assert!(
        versions.iter().all(|version| *version == versions[0]),
        "{versions:?}"
    );
    assert_eq!(metadata.all()[0].metadata, maps.all()[0].metadata);
    maps.relist();
    f.within(1, "relisted", || requests(&f) == (2, 2)).await;
    assert_eq!(f.relists("asked"), 1, "counted once");
}

#[tokio::test(start_paused = true)]
async fn late_projection_relists_without_deltas_of_unchanged_objects() {
    let f = fixture();
    for name in ["a", "b"] {
        create(&f.sandbox, name, "1").await;
    }
    let maps = f.synced().await;
    let mut subscription = maps.subscribe();
    changes(&mut subscription);
    // The cache stays readable, and the late one waits for its list.
    f.server.next(Verb::List, 1, Effect::Hang);
    let keys: Cache<Keys> = f.caches.of(&MAPS);
    settle().await;
    assert!(maps.is_synced() && !keys.is_synced() && maps.len() == 2 && keys.is_empty());
    assert!(!f.caches.is_synced(&MAPS) && keys.status() == Status::Syncing);
    assert_eq!(f.caches.position(&MAPS).expect("cached").version, maps.version());
    f.within(60, "synced", || keys.is_synced()).await;
    assert_eq!(keys.len(), 2);
    f.within(5, "watched", || f.server.count(Verb::Watch) == 2).await;
    assert_eq!(changes(&mut subscription), Vec::<String>::new(), "no delta");
    assert_eq!(requests(&f), (3, 2), "one list did not respond");
    set(&f.sandbox, "b", "2").await;
    f.within(1, "followed", || !subscription.is_empty()).await;
    assert_eq!(changes(&mut subscription), ["~b=1>2"]);
    assert_eq!(keys.version(), maps.version());
}

#[tokio::test(start_paused = true)]
async fn projection_after_metadata_switches_to_whole_objects() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let metadata = f.caches.metadata(&MAPS);
    metadata.synced().await;
    f.within(5, "watched", || f.server.count(Verb::Watch) == 1).await;
    let mut subscription = metadata.subscribe();
    assert!(subscription.try_next().is_some());
    let maps = f.maps();
    // An event of the metadata-only watch, before the relist.
    set(&f.sandbox, "a", "2").await;
    f.within(5, "synced", || maps.is_synced()).await;
    settle().await;
    assert_eq!(value(&maps, "a").as_deref(), Some("2"), "whole objects");
    assert_eq!(requests(&f), (2, 2));
    let accepts = f.server.accepts();
    let is_partial: Vec<bool> = { accepts.iter() }
        .map(|accept| accept.contains("PartialObjectMetadata"))
        .collect();
    assert_eq!(is_partial, [true, true, false, false]);
    assert!(matches!(subscription.try_next(), Some(Delta::Updated { .. })));
    assert!(subscription.is_empty(), "one change");
    f.caches.forget_metadata(&MAPS);
    set(&f.sandbox, "a", "3").await;
    f.within(1, "followed", || value(&maps, "a").as_deref() == Some("3"))
        .await;
    assert!(subscription.is_empty(), "forgotten");
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_affects_only_the_projection_that_cannot_decode_it() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let (maps, keys): (Cache<Map>, Cache<Keys>) = (f.caches.of(&MAPS), f.caches.of(&MAPS));
    f.caches.synced().await;
    settle().await;
    patch(&f.sandbox, "a", serde_json::json!({"data": {"invalid": "x"}})).await;
    f.within(1, "undecodable", || maps.get(&key("a")) == Lookup::Undecodable)
        .await;
    let invalid = |cache: &Cache<Keys>| cache.all()[0].data.contains_key("invalid");
    assert!(invalid(&keys));
    assert_eq!(keys.undecodable(), []);
    assert_eq!(f.metric("test_cache_undecodable_objects", None), 1);
    maps.relist();
    f.within(1, "listed", || requests(&f) == (2, 2)).await;
    assert_eq!(maps.get(&key("a")), Lookup::Undecodable);
    assert!(invalid(&keys));
    assert_eq!(maps.version(), keys.version());
}

#[tokio::test(start_paused = true)]
async fn relist_decodes_only_changed_objects() {
    /// Counts the decoded objects.
    #[derive(Debug, PartialEq, Deserialize)]
    struct Counted {
        #[serde(deserialize_with = "counted")]
        metadata: Meta,
    }
    thread_local! {
        static DECODED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    fn counted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Meta, D::Error> {
        DECODED.set(DECODED.get() + 1);
        Meta::deserialize(deserializer)
    }
    impl Object for Counted {
        fn meta(&self) -> &Meta {
            &self.metadata
        }

        fn meta_mut(&mut self) -> &mut Meta {
            &mut self.metadata
        }
    }

    let f = fixture();
    for name in ["a", "b", "c"] {
        create(&f.sandbox, name, "1").await;
    }
    let cache: Cache<Counted> = f.caches.of(&MAPS);
    cache.synced().await;
    let listed = DECODED.get();
    assert_eq!(listed, cache.len());
    f.server.streams(StreamFault::Silence);
    set(&f.sandbox, "b", "2").await;
    cache.relist();
    f.within(5, "relisted", || requests(&f).0 == 2).await;
    assert_eq!((DECODED.get() - listed, cache.len()), (1, listed));
}

#[tokio::test(start_paused = true)]
async fn position_is_that_of_all_projections_of_a_resource() {
    let f = fixture();
    assert!(f.caches.position(&MAPS).is_none());
    let created = create(&f.sandbox, "a", "1").await;
    let before = f.env.clock.now();
    f.sleep(1).await;
    let typed = f.synced().await;
    let alone: Cache<MetaObject> = f.caches.of(&MAPS);
    alone.synced().await;
    let version = Version::from(&*created.metadata.resource_version.expect("a version"));
    let position = f.caches.position(&MAPS).expect("a position");
    assert!(position.version.has_reached(&version) && position.version == typed.version());
    assert!(position.list_started_at.is_some_and(|begun| begun > before));
    let uid = Uid::from(&*created.metadata.uid.expect("a uid"));
    assert_eq!(f.caches.identity(&MAPS, &key("a")), Some((uid, version)));
    assert_eq!(f.caches.identity(&MAPS, &key("b")), None);
}

#[tokio::test(start_paused = true)]
async fn registry_accepts_the_caches_of_one_manager_at_a_time() {
    let f = fixture();
    let transport = Transport::from_service(
        f.sandbox.service(),
        "s",
        "t",
        &f.env.clock,
        &Registry::new("test"),
    )
    .expect("a transport");
    let again = || Caches::new(&f.env, transport.reader("c", None), Scope::default(), &f.registry);
    assert!(again().is_err());
    let Fixture {
        caches,
        registry,
        env,
        ..
    } = f;
    drop(caches);
    assert!(Caches::new(&env, transport.reader("c", None), Scope::default(), &registry).is_ok());
}

#[tokio::test(start_paused = true)]
async fn write_is_pending_until_the_cache_includes_it_or_relists() {
    let scope = Scope {
        namespaces: Vec::new(),
        label_selector: "value=1".to_owned(),
    };
    let f = fixture_with(scope, 0);
    f.synced().await;
    let (pending, owner) = (PendingWrites::default(), key("owner"));
    let record = |map: &ConfigMap| {
        let write = Write {
            object: key(map.metadata.name.as_deref().expect("a name")),
            uid: Uid::from(map.metadata.uid.as_deref().expect("a uid")),
            version: Version::from(map.metadata.resource_version.as_deref().expect("a version")),
            at: f.env.clock.now(),
            seen: false,
        };
        pending.record(&owner, &MAPS, write, &f.caches);
    };
    let ready = || pending.ready(&owner, f.env.clock.now(), &f.caches);
    record(&create(&f.sandbox, "a", "1").await);
    f.within(1, "ready", || ready() == Readiness::Ready).await;
    // Out of the scope of the cache.
    record(&create(&f.sandbox, "b", "2").await);
    f.sleep(29).await;
    assert!(matches!(ready(), Readiness::Behind { .. }));
    f.sleep(1).await;
    assert_eq!(ready(), Readiness::Stuck { resource: MAPS });
    f.caches.relist(&MAPS);
    f.within(1, "ready", || ready() == Readiness::Ready).await;
}
