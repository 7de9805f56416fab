//! One list and watch for all who ask.

use coxswain_manager::cache::{Lookup, Readiness, Views, Write, Written};
use coxswain_manager::object::{MetaObject, Uid, Version};

use super::server::Verb;
use super::*;

#[tokio::test(start_paused = true)]
async fn two_who_ask_share_one_list_and_one_watch() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let (one, two) = (bed.maps(), bed.maps());
    one.synced().await;
    settle().await;
    assert!(two.is_synced());
    assert!(Arc::ptr_eq(&one.all()[0], &two.all()[0]), "the same object");
    assert_eq!(
        (bed.server.count(Verb::List), bed.server.count(Verb::Watch)),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn who_needs_metadata_shares_a_cache_that_there_is() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let typed = bed.synced().await;
    let metadata = bed.caches.metadata(&MAPS);
    metadata.synced().await;
    assert_eq!(
        (bed.server.count(Verb::List), bed.server.count(Verb::Watch)),
        (1, 1)
    );
    let mut subscription = metadata.subscribe();
    let Some(Delta::Added { new, initial: true }) = subscription.try_next() else {
        panic!("the present state");
    };
    assert_eq!(metadata.get(&key("a")), Lookup::Present(new.clone()));
    assert_eq!(new.metadata, typed.all()[0].metadata);
    set(&bed.sandbox, "a", "2").await;
    bed.within(1, "seen", || !subscription.is_empty()).await;
    assert!(
        matches!(subscription.try_next(), Some(Delta::Updated { old, new })
        if old == new && new.metadata.resource_version > old.metadata.resource_version)
    );
    delete(&bed.sandbox, "a").await;
    bed.within(1, "seen", || !subscription.is_empty()).await;
    assert!(matches!(subscription.try_next(), Some(Delta::Deleted { .. })));
    assert!(metadata.all().is_empty() && metadata.is_whole());
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_asked_for_as_such_and_kept_once() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let metadata = bed.caches.metadata(&MAPS);
    metadata.synced().await;
    let mut subscription = metadata.subscribe();
    let Some(Delta::Added { new, .. }) = subscription.try_next() else {
        panic!("the present state");
    };
    let Lookup::Present(held) = metadata.get(&key("a")) else {
        panic!("there");
    };
    assert!(Arc::ptr_eq(&held, &new), "no copy");
    assert_eq!(new.metadata.labels.get("value").map(|value| &**value), Some("1"));
    set(&bed.sandbox, "a", "2").await;
    bed.within(1, "watched", || !subscription.is_empty()).await;
    let accepts = bed.server.accepts();
    assert!(
        accepts
            .iter()
            .all(|accept| accept.contains("PartialObjectMetadata")),
        "{accepts:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn views_say_how_far_all_caches_of_a_resource_are() {
    let bed = bed();
    assert!(bed.caches.view(&MAPS).is_none());
    let created = create(&bed.sandbox, "a", "1").await;
    let before = bed.env.clock.now();
    bed.sleep(1).await;
    let typed = bed.synced().await;
    let alone: Cache<MetaObject> = bed.caches.of(&MAPS);
    alone.synced().await;
    let version = Version::from(&*created.metadata.resource_version.expect("a version"));
    let view = bed.caches.view(&MAPS).expect("a view");
    assert!(view.version.has_reached(&version) && view.version == typed.version());
    assert!(view.list_begun_at.is_some_and(|begun| begun > before));
    let uid = Uid::from(&*created.metadata.uid.expect("a uid"));
    assert_eq!(bed.caches.holds(&MAPS, &key("a")), Some((uid, version)));
    assert_eq!(bed.caches.holds(&MAPS, &key("b")), None);
}

#[tokio::test(start_paused = true)]
async fn a_registry_takes_the_caches_of_one_manager_at_a_time() {
    let bed = bed();
    let transport =
        Transport::over(bed.sandbox.door(), "s", "t", &bed.env.clock, &Registry::new()).expect("a way");
    let again = || {
        Caches::new(
            &bed.env,
            transport.client("c", None),
            Scope::default(),
            &bed.registry,
        )
    };
    assert!(again().is_err());
    let Bed {
        caches,
        registry,
        env,
        ..
    } = bed;
    drop(caches);
    assert!(Caches::new(&env, transport.client("c", None), Scope::default(), &registry).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_write_is_waited_for_until_the_cache_shows_it_or_is_known_never_to() {
    let scope = Scope {
        namespaces: Vec::new(),
        label_selector: "value=1".to_owned(),
    };
    let bed = bed_of(scope, 0);
    bed.synced().await;
    let (written, owner) = (Written::default(), key("owner"));
    let record = |map: &ConfigMap| {
        let write = Write {
            object: key(map.metadata.name.as_deref().expect("a name")),
            uid: Uid::from(map.metadata.uid.as_deref().expect("a uid")),
            version: Version::from(map.metadata.resource_version.as_deref().expect("a version")),
            at: bed.env.clock.now(),
            seen: false,
        };
        written.record(&owner, &MAPS, write, &bed.caches);
    };
    let ready = || written.ready(&owner, bed.env.clock.now(), &bed.caches);
    record(&create(&bed.sandbox, "a", "1").await);
    bed.within(1, "ready", || ready() == Readiness::Ready).await;
    // Out of the scope of the cache: it cannot show it.
    record(&create(&bed.sandbox, "b", "2").await);
    bed.sleep(29).await;
    assert!(matches!(ready(), Readiness::Behind { .. }));
    bed.sleep(1).await;
    assert_eq!(ready(), Readiness::Stuck { resource: MAPS });
    bed.caches.relist(&MAPS);
    bed.within(1, "ready", || ready() == Readiness::Ready).await;
}
