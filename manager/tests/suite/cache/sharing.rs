//! Shared lists and watches.

use coxswain_manager::cache::{CachePositions, Lookup, PendingWrites, Readiness, Write};
use coxswain_manager::object::{MetaObject, Uid, Version};

use super::server::Verb;
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

#[tokio::test(start_paused = true)]
async fn position_is_that_of_the_oldest_cache_of_a_resource() {
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
    let transport = Transport::from_service(f.sandbox.service(), "s", "t", &f.env.clock, &Registry::new())
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
