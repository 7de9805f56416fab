use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A cache with at most one object.
#[derive(Debug)]
struct TestCache {
    position: CachePosition,
    object: Option<(Uid, Version)>,
}

impl CachePositions for TestCache {
    fn position(&self, resource: &Resource) -> Option<CachePosition> {
        (*resource == pods()).then(|| self.position.clone())
    }

    fn identity(&self, _resource: &Resource, object: &Key) -> Option<(Uid, Version)> {
        self.object.clone().filter(|_| *object == pod("a"))
    }
}

fn pods() -> Resource {
    Resource::namespaced("", "v1", "pods", "Pod")
}

fn pod(namespace: &str) -> Key {
    Key::new(namespace, "pod")
}

fn owner() -> Key {
    Key::new("a", "owner")
}

fn cache(version: &str) -> TestCache {
    TestCache {
        position: CachePosition {
            version: version.into(),
            epoch: 0,
            list_started_at: None,
        },
        object: None,
    }
}

fn identity(uid: &str, version: &str) -> (Uid, Version) {
    (uid.into(), version.into())
}

fn write(version: &str, at: Instant) -> Write {
    Write {
        object: pod("a"),
        uid: "1".into(),
        version: version.into(),
        at,
        seen: false,
    }
}

fn behind(since: Duration) -> Readiness {
    Readiness::Behind {
        resource: pods(),
        since,
    }
}

fn start() -> Instant {
    crate::env::Clock::system().now()
}

/// Returns the readiness a second after one write, and after a change of the cache.
fn after(version: &str, seen: bool, cache: &TestCache, change: impl FnOnce(&mut TestCache)) -> Readiness {
    let (pending, now) = (PendingWrites::default(), start());
    let write = Write {
        seen,
        ..write(version, now)
    };
    pending.record(&owner(), &pods(), write, cache);
    let mut cache = TestCache {
        position: cache.position.clone(),
        object: cache.object.clone(),
    };
    let first = pending.ready(&owner(), now, &cache);
    change(&mut cache);
    let second = pending.ready(&owner(), now + SECOND, &cache);
    if first == Readiness::Ready {
        assert_eq!(
            second,
            Readiness::Ready,
            "a cache that includes the write stays ready"
        );
    }
    second
}

#[test]
fn cache_at_the_version_includes_the_write() {
    let no_change = |_: &mut TestCache| ();
    assert_eq!(after("5", false, &cache("4"), no_change), behind(SECOND));
    assert_eq!(after("5", false, &cache("5"), no_change), Readiness::Ready);
    assert_eq!(
        after("5", false, &cache("4"), |cache| cache.position.version =
            "10".into()),
        Readiness::Ready
    );
}

#[test]
fn cached_object_may_be_newer_than_the_cache() {
    let shows = |written: &str, uid: &str, version: &str| {
        let shown = Some(identity(uid, version));
        after(written, false, &cache("4"), |cache| cache.object = shown)
    };
    assert_eq!(shows("5", "1", "5"), Readiness::Ready);
    assert_eq!(
        shows("5", "2", "6"),
        Readiness::Ready,
        "a later object under the same name"
    );
    assert_eq!(
        shows("5", "2", "3"),
        behind(SECOND),
        "an earlier object under the same name"
    );
    assert_eq!(shows("x", "1", "x"), Readiness::Ready);
    assert_eq!(
        shows("x", "1", "y"),
        behind(SECOND),
        "versions are not comparable"
    );
    assert_eq!(
        shows("", "1", ""),
        behind(SECOND),
        "an empty version proves nothing"
    );
}

#[test]
fn absence_proves_the_write_only_after_presence() {
    let none = |cache: &mut TestCache| cache.object = None;
    let other = |cache: &mut TestCache| cache.object = Some(identity("2", "y"));
    assert_eq!(
        after("x", false, &cache("w"), none),
        behind(SECOND),
        "not cached yet"
    );
    assert_eq!(
        after("x", false, &cache("w"), other),
        behind(SECOND),
        "the earlier object"
    );
    assert_eq!(
        after("", true, &cache("w"), none),
        Readiness::Ready,
        "it was cached before"
    );
    assert_eq!(after("", true, &cache("w"), other), Readiness::Ready);
    let present = TestCache {
        object: Some(identity("1", "v")),
        ..cache("w")
    };
    assert_eq!(after("x", false, &present, none), Readiness::Ready);
    assert_eq!(after("x", false, &present, other), Readiness::Ready);
    assert_eq!(after("x", true, &present, |_| ()), behind(SECOND), "still cached");
}

#[test]
fn list_started_after_the_response_includes_the_write() {
    let (pending, now) = (PendingWrites::default(), start());
    let mut cache = cache("w");
    for (started, included) in [(now, false), (now + SECOND, true)] {
        cache.position.list_started_at = None;
        pending.record(&owner(), &pods(), write("x", now), &cache);
        cache.position.list_started_at = Some(started);
        let ready = pending.ready(&owner(), now + SECOND, &cache) == Readiness::Ready;
        assert_eq!(ready, included);
    }
}

#[test]
fn writes_of_an_earlier_epoch_are_dropped() {
    assert_eq!(
        after("5", false, &cache("4"), |cache| cache.position.epoch += 1),
        Readiness::Ready
    );
}

#[test]
fn cache_that_stays_behind_is_stuck() {
    let (pending, now, cache) = (PendingWrites::default(), start(), cache("4"));
    pending.record(&owner(), &pods(), write("5", now), &cache);
    assert_eq!(
        pending.ready(&owner(), now + 29 * SECOND, &cache),
        behind(29 * SECOND)
    );
    let stuck = Readiness::Stuck { resource: pods() };
    assert_eq!(pending.ready(&owner(), now + 30 * SECOND, &cache), stuck);
}

#[test]
fn uncached_resource_or_no_write_is_ready() {
    let (pending, now, cache) = (PendingWrites::default(), start(), cache("4"));
    let maps = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
    pending.record(&owner(), &maps, write("5", now), &cache);
    assert_eq!(pending.ready(&owner(), now, &cache), Readiness::Ready);
    pending.record(&owner(), &pods(), write("5", now), &cache);
    assert_eq!(
        pending.ready(&Key::new("a", "other"), now, &cache),
        Readiness::Ready
    );
    assert_eq!(pending.ready(&owner(), now, &cache), behind(Duration::ZERO));
    pending.forget(&owner());
    assert_eq!(pending.ready(&owner(), now, &cache), Readiness::Ready);
    pending.record(&owner(), &pods(), write("5", now), &cache);
    pending.clear();
    assert_eq!(pending.ready(&owner(), now, &cache), Readiness::Ready);
}

fn count(pending: &PendingWrites) -> usize {
    pending.records(|owners| {
        let resources = owners.values().flat_map(BTreeMap::values);
        resources.map(Vec::len).sum()
    })
}

#[test]
fn highest_comparable_version_is_kept_per_namespace() {
    let (pending, now) = (PendingWrites::default(), start());
    let mut cache = cache("4");
    for (version, late) in [("6", 1), ("9", 2), ("7", 3)] {
        for object in [pod("a"), Key::new("a", "second"), pod("b")] {
            let write = Write {
                object,
                ..write(version, now + late * SECOND)
            };
            pending.record(&owner(), &pods(), write, &cache);
        }
    }
    assert_eq!(count(&pending), 2);
    // The watch of one namespace has reached the version, the other one has not.
    cache.object = Some(identity("1", "9"));
    assert_eq!(pending.ready(&owner(), now + 4 * SECOND, &cache), behind(SECOND));
    assert_eq!(count(&pending), 1);
    // Started after the highest version was written, but before the last write.
    cache.position.list_started_at = Some(now + Duration::from_millis(2500));
    assert_eq!(pending.ready(&owner(), now + 4 * SECOND, &cache), behind(SECOND));
    cache.position.version = "8".into();
    assert_ne!(
        pending.ready(&owner(), now + 4 * SECOND, &cache),
        Readiness::Ready
    );
    cache.position.version = "9".into();
    assert_eq!(
        pending.ready(&owner(), now + 4 * SECOND, &cache),
        Readiness::Ready
    );
    assert!(pending.records(|owners| owners.is_empty()), "no record is left");
}

#[test]
fn last_incomparable_version_is_kept_per_object() {
    let (pending, now) = (PendingWrites::default(), start());
    let mut cache = cache("w");
    for version in ["x", "y", ""] {
        for object in [pod("a"), pod("b")] {
            let write = Write {
                object,
                ..write(version, now)
            };
            pending.record(&owner(), &pods(), write, &cache);
        }
    }
    assert_eq!(count(&pending), 2);
    // A comparable version does not cover incomparable ones.
    pending.record(&owner(), &pods(), write("5", now), &cache);
    assert_eq!(count(&pending), 2);
    cache.position.version = "5".into();
    assert_eq!(pending.ready(&owner(), now, &cache), behind(Duration::ZERO));
    // Records of an earlier epoch are dropped.
    cache.position.epoch += 1;
    pending.record(&owner(), &pods(), write("6", now), &cache);
    assert_eq!(count(&pending), 1);
}
